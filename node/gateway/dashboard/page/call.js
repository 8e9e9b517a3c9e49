// One call as it runs: its output, its questions and its result.
import { element } from "./table.js";
import { bytes, callState, members, millis, plural } from "./format.js";

// How much of the output is shown, in characters; older output is dropped.
const most = 200_000;

const get = (id) => document.getElementById(id);

export class CallView {
  #client;
  #tell;
  #watching = null; // the AbortController of the stream
  #id = "";
  #told = []; // events other than output; each connection repeats them from the first
  #question = null;
  #opener = null;

  /** tell shows a message, fail an error. */
  constructor(client, tell, fail) {
    this.#client = client;
    this.#tell = tell;
    this.fail = fail;
    get("call-pause").onclick = () => this.steer(this.#id, "pause");
    get("call-resume").onclick = () => this.steer(this.#id, "resume");
    get("call-stop").onclick = () => this.stop(this.#id);
    get("call-close").onclick = () => this.close();
    document.onkeydown = (event) => {
      if (event.key === "Escape" && this.#id !== "") this.close();
    };
    get("call-answer").onsubmit = (event) => {
      event.preventDefault();
      this.#answer(get("call-text").value);
    };
  }

  /** The id of the call shown; null if none is. */
  get id() {
    return this.#id;
  }

  /** Shows a call from its first output until it has ended. */
  open(call) {
    this.#watching?.abort();
    this.#id = call.call_id;
    this.#told = [];
    this.#opener = document.activeElement;
    get("call-output").replaceChildren();
    this.#ask(null);
    get("call-title").textContent = `Call ${call.call_id}`;
    get("call").hidden = false;
    this.update(call);
    get("call-title").focus();
    this.#watch("0");
  }

  close() {
    this.#watching?.abort();
    this.#watching = null;
    this.#id = "";
    get("call").hidden = true;
    if (this.#opener?.isConnected) this.#opener.focus();
  }

  /** Shows the state of the call. */
  update(call) {
    const running = call.status === "running";
    const facts = [callState(call), call.language, call.state_mode, call.function && `function ${call.function}`, call.thought];
    get("call-state").textContent = facts.filter(Boolean).join(" · ");
    this.#allow("call-pause", running && !call.paused);
    this.#allow("call-resume", running && call.paused);
    this.#allow("call-stop", running);
    if (!running) this.#ask(null);
  }

  /** Enables or disables a button. A disabled one passes the focus on, because the browser would drop it. */
  #allow(id, allowed) {
    const button = get(id);
    const focused = document.activeElement === button;
    button.disabled = !allowed;
    if (focused && !allowed) get("call-title").focus();
  }

  async steer(id, action, body = {}) {
    try {
      await this.#client.ask("POST", `v1/executions/${encodeURIComponent(id)}/${action}`, body);
      this.#tell(`${{ pause: "Paused", resume: "Resumed", stop: "Stopping", answer: "Answered" }[action]}: call ${id}.`);
    } catch (error) {
      this.fail(error);
    }
  }

  async stop(id) {
    if (confirm(`Stop call ${id}? Its code is interrupted and, a second later, ended.`)) await this.steer(id, "stop");
  }

  async #watch(after) {
    const watching = new AbortController();
    this.#watching = watching;
    let told = 0;
    try {
      await this.#client.follow(`v1/executions/${encodeURIComponent(this.#id)}`, {
        signal: watching.signal,
        after,
        begun: () => (told = 0),
        take: (event) => {
          if (watching.signal.aborted) return true;
          if (event.name === "stdout" || event.name === "stderr") this.#write(event.data.text, event.name);
          else if (told++ >= this.#told.length) {
            this.#told.push(event.name);
            this.#event(event);
          }
          return event.name === "result";
        },
      });
    } catch (error) {
      if (!watching.signal.aborted) this.fail(error);
    }
  }

  #event({ name, data }) {
    switch (name) {
      case "started":
        return this.#note(`started on ${data.node}`);
      case "notice":
        return this.#note(`${data.kind}: ${data.text}`);
      case "notify":
        return this.#note(`the code says: ${data.text}`);
      case "display":
        return this.#note(`display: ${data.mime}, ${bytes(data.data?.length ?? 0)}`);
      case "primitive":
        return this.#note(`primitive ${data.seq}: ${data.name}`);
      case "clarification":
        this.#note(`the code asks: ${data.question}`);
        return this.#ask(data);
      case "result":
        return this.#result(data);
    }
  }

  #result(r) {
    this.update(r);
    if (r.exception?.traceback) this.#write(`${r.exception.traceback.trimEnd()}\n`, "stderr");
    else if (r.error) this.#note(`${r.code}: ${r.error}`);
    if (r.suggestion) this.#note(r.suggestion);
    if (r.state_lost) this.#note(`the session's earlier state is lost (${r.state_lost.reason}, epoch ${r.state_lost.epoch})`);
    if (r.result !== null && r.result !== undefined) this.#note(`${r.result_type ?? "result"}: ${typeof r.result === "string" ? r.result : JSON.stringify(r.result)}`);
    const usage = r.usage ? `, ${millis(r.usage.cpu_ms)} of processor, ${bytes(r.usage.max_rss_bytes)}` : "";
    this.#note(`${r.status} after ${millis(r.duration_ms ?? 0)}, ${plural(r.attempts ?? 1, "attempt")}${usage}${r.exit ? `, exit ${members(r.exit)}` : ""}`);
  }

  #note(text) {
    const output = get("call-output");
    const open = output.textContent !== "" && !output.lastChild.textContent.endsWith("\n");
    this.#write(`${open ? "\n" : ""}— ${text}\n`, "note");
  }

  /** Appends text, never HTML, and drops the oldest. A user who has scrolled up stays there. */
  #write(text, kind) {
    const output = get("call-output");
    const below = output.scrollHeight - output.scrollTop - output.clientHeight < 40;
    const className = { stderr: "bad", note: "quiet" }[kind] ?? "";
    if (output.lastChild?.className === className && output.lastChild.textContent.length < 4096) output.lastChild.append(text);
    else output.append(element("span", { className, textContent: text }));
    let length = output.textContent.length;
    while (length > most && output.childNodes.length > 1) {
      length -= output.firstChild.textContent.length;
      output.firstChild.remove();
    }
    if (below) output.scrollTop = output.scrollHeight;
  }

  #ask(question) {
    this.#question = question;
    get("call-answer").hidden = question === null;
    get("call-question").textContent = question?.question ?? "";
    get("call-text").value = "";
  }

  async #answer(text) {
    const question = this.#question;
    this.#ask(null);
    await this.steer(this.#id, "answer", { id: question.id, answer: text });
  }
}
