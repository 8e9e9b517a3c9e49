// A person at the dashboard of a real node: the page and its scripts in the document of
// jsdom, with the fetch of Node.js. Run by realdashboard_linux_test.go.
import assert from "node:assert/strict";
import { JSDOM } from "jsdom";

const url = process.env.LOCUS_URL;
const token = process.env.LOCUS_TOKEN.trim();
const patience = 120_000;

const dom = await JSDOM.fromURL(url, { pretendToBeVisual: true });
const { document } = dom.window;
const asked = [];
Object.assign(globalThis, { document, sessionStorage: dom.window.sessionStorage, confirm: (question) => (asked.push(question), true) });

// What the page asks of the network. breakNext ends the next piece of the stream of events;
// while away is set nobody answers.
const requests = [];
let breakNext = false;
let away = false;
const realFetch = globalThis.fetch;
globalThis.fetch = async (target, init) => {
  requests.push({ url: String(target), method: init.method, headers: init.headers });
  if (away) throw new TypeError("nobody answers");
  const response = await realFetch(target, init);
  if (!String(target).endsWith("/v1/events") || !response.ok) return response;
  const broken = new TransformStream({
    transform(piece, to) {
      if (breakNext) to.error(new Error("the network broke"));
      else to.enqueue(piece);
      breakNext = false;
    },
  });
  return new Response(response.body.pipeThrough(broken), response);
};

const get = (id) => document.getElementById(id);
const text = (selector) => [...document.querySelectorAll(selector)].map((e) => e.textContent);
const rows = (section) => [...document.querySelectorAll(`#${section} tbody tr`)];
async function eventually(what, holds) {
  for (const until = Date.now() + patience; ; ) {
    const found = holds();
    if (found) return found;
    assert.ok(Date.now() < until, `not in time: ${what}\n${document.body.textContent}`);
    await new Promise((done) => setTimeout(done, 20)); // between two looks at the page
  }
}
const run = (body) => node("POST", "v1/tools/execute_code", { language: "python", state_mode: "stateless", ...body });
async function node(method, path, body) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const response = await realFetch(new URL(path, url), { method, headers, body: JSON.stringify(body) });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer;
}
function press(element, key) {
  element.focus();
  const event = new dom.window.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  return element.dispatchEvent(event);
}
function signIn(with_) {
  get("token").value = with_;
  get("enter").requestSubmit();
}

await import(new URL("page/app.js", import.meta.url));
assert.ok(!get("enter").hidden && get("main").hidden, "nobody has signed in yet");

// A token that is not known lets nobody in and is not kept.
signIn("wrong");
await eventually("a wrong token is refused", () => get("refused").textContent !== "");
assert.ok(get("main").hidden);
assert.equal(sessionStorage.length, 0);

// What is shown is what the node says, and what code has made is text.
const hostile = "<img src=x onerror=alert(1)></td><script>alert(1)</script>";
await run({ code: "rows = 1", state_mode: "stateful", session_name: "sales" });
const call = await run({
  code: `import sys, time
print(${JSON.stringify(hostile)}, flush=True)
print("careful", file=sys.stderr, flush=True)
answer = await request_clarification(${JSON.stringify(hostile)})
print("it is", answer, flush=True)
while True: time.sleep(0.05)`,
  thought: hostile, state_mode: "stateful", session_name: "sales", background: true, timeout_s: 600,
});
signIn(token);
const row = await eventually("the call is shown as running", () => rows("calls").find((r) => r.textContent.includes(call.call_id) && r.textContent.includes("running")));
assert.ok(row.textContent.includes(hostile), row.textContent);
assert.equal(sessionStorage.getItem("locus-token"), token);
assert.ok(text("#sessions tbody td").includes("sales"));
assert.match(text("#nodes tbody")[0], /^node-.*\(this one\).*up.*leader/);
assert.match(get("where").textContent, /as default, operator/);
assert.ok(await eventually("the audit log is shown", () => rows("audit").some((r) => r.textContent.includes("call_started") && r.textContent.includes(hostile))));

// A call is watched from its first byte on.
row.querySelector("button").focus();
row.querySelector("button").click();
await eventually("the output is shown", () => get("call-output").textContent.includes("careful\n"));
assert.ok(get("call-output").textContent.includes(`${hostile}\n`));
assert.equal(document.activeElement, get("call-title"));
assert.deepEqual([...document.querySelectorAll("#call-output .bad")].map((e) => e.textContent), ["careful\n"]);
await eventually("the question is shown", () => get("call-question").textContent === hostile);
get("call-text").value = "so";
get("call-answer").requestSubmit();
await eventually("the answer has come", () => get("call-output").textContent.includes("it is so\n"));
assert.ok(get("call-answer").hidden);

// It is steered, by the keyboard too: a key that the page does not want is left alone.
for (const [button, state] of [["call-pause", "paused"], ["call-resume", "running"]]) {
  assert.ok(press(get(button), "Enter"), `Enter is kept from ${button}`);
  get(button).click();
  await eventually(`the call is ${state}`, () => get("call-state").textContent.startsWith(state) && row.textContent.includes(state));
}
assert.ok(row.isConnected, "the row is the same element as before");

// A stream of events that breaks is gone on with after the last event that was heard.
await eventually("an event is shown", () => text("#events tbody td").length > 0 || (run({ code: "1" }), false));
const streams = () => requests.filter((r) => r.url.endsWith("/v1/events"));
const before = streams().length;
breakNext = true;
const missed = await run({ code: "2" });
await eventually("the stream is taken up", () => streams().length > before);
assert.match(streams().at(-1).headers["Last-Event-ID"], /^node-[0-9a-f]+\.\d+\.\d+$/);
for (const kind of ["call_started", "call_ended"]) {
  await eventually(`the missed ${kind} is told`, () => rows("events").filter((r) => r.textContent.includes(kind) && r.textContent.includes(missed.call_id)).length === 1);
}

// It says when nobody answers, and comes back by itself.
assert.equal(get("link").textContent, "live");
away = breakNext = true;
await run({ code: "3" }); // an event, for the stream to break at
await eventually("the page says that nobody answers", () => get("link").textContent.startsWith("not reached"));
away = false;
await eventually("it is back", () => get("link").textContent === "live");

// Stopping asks first.
get("call-stop").focus();
get("call-stop").click();
await eventually("the call has ended", () => /failed after/.test(get("call-output").textContent));
assert.equal(asked.length, 1);
assert.ok(asked[0].includes(call.call_id));
await eventually("the row says so", () => row.textContent.includes("stopped"));
assert.ok(get("call-stop").disabled && get("call-pause").disabled && get("call-resume").disabled);
assert.equal(document.activeElement, get("call-title"), "the focus is not lost with the button");
press(document.activeElement, "Escape");
assert.ok(get("call").hidden);
assert.equal(document.activeElement, row.querySelector("button"));

// Nothing that code has made has become an element, and the token was in no address.
assert.equal(document.querySelectorAll("main img, main script").length, 0);
assert.equal(document.scripts.length, 1);
for (const request of requests) {
  assert.ok(!request.url.includes(token) && request.url.startsWith(`${url}v1/`), request.url);
  assert.match(request.headers.Authorization, /^Bearer /);
}
assert.equal(document.cookie, "");
assert.equal(dom.window.location.href, url);

// Signing out forgets the token and what was shown, and asks for nothing any more.
get("leave").click();
assert.equal(sessionStorage.length, 0);
assert.ok(get("main").hidden && !get("enter").hidden);
assert.equal(document.querySelectorAll("table").length, 0);

// An agent sees what is its own, and hears no events.
const agent = await node("POST", "v1/actors", { name: "planner" });
const heard = streams().length;
signIn(agent.token);
await eventually("the agent is in", () => /as planner ·/.test(get("where").textContent) && rows("nodes").length === 1);
await eventually("it asks by itself", () => /^asks every/.test(get("link").textContent));
assert.deepEqual([rows("calls").length, rows("sessions").length, rows("audit").length], [0, 0, 0]);
assert.ok(get("events").hidden && get("to-events").hidden);
assert.equal(streams().length, heard);
dom.window.close();
process.exit(0);
