// The dashboard: the state of the mesh as far as the token that was typed in may see it. It
// only uses the public HTTP API, and keeps the token only while the tab is open.
import { CallView } from "./call.js";
import { Client, Refused } from "./api.js";
import { Table } from "./table.js";
import { ago, bytes, callSession, callState, clip, clock, labels, members, millis, mood } from "./format.js";

const kept = "locus-token";
const recent = 20; // ended calls that are shown
const remembered = 200; // events that are shown
const entries = 50; // of the audit log
// Refresh intervals: with events only for what has no event, such as memory; without events
// for everything. After an event no sooner than settle.
const slowTick = 10_000;
const tick = 3_000;
const settle = 500;

const get = (id) => document.getElementById(id);
const tell = (text, bad = false) => {
  get("told").textContent = text;
  get("told").className = bad ? "bad" : "";
};

/** The view of a user who has signed in. It ends when signal is aborted. */
class Board {
  #client;
  #signal;
  #leave;
  #view;
  #events = [];
  #eventId = "";
  #listening = false;
  #live = false;
  #reached = true;
  #asking = false;
  #again = false;
  #timer = 0;
  #now = 0;

  constructor(client, signal, leave) {
    this.#client = client;
    this.#signal = signal;
    this.#leave = leave;
    const fail = (error) => this.fail(error);
    this.#view = new CallView(client, (text) => (tell(text), this.soon()), fail);
    const view = this.#view;
    this.tables = {
      nodes: table("nodes", nodeColumns, { key: (n) => n.id, empty: "No node is known." }),
      sessions: table("sessions", sessionColumns(() => this.#now), { key: (s) => JSON.stringify([s.language, s.venv_id, s.session_id]), empty: "You have no sessions." }),
      calls: table("calls", callColumns(() => this.#now, view), { key: (c) => c.call_id, empty: "No call of yours is remembered." }),
      machines: table("machines", machineColumns(() => this.#now), { key: (m) => m.id, empty: "No machine is linked." }),
      events: table("events", eventColumns, { key: (e) => e.key, empty: "Nothing has happened since you came.", tall: true }),
      audit: table("audit", auditColumns, { key: (e) => `${e.node}/${e.seq}`, empty: "No entry is there.", tall: true }),
    };
    const seen = () => this.refresh();
    document.addEventListener("visibilitychange", seen);
    signal.addEventListener("abort", () => {
      document.removeEventListener("visibilitychange", seen);
      clearTimeout(this.#timer);
      view.close();
      for (const section of Object.keys(this.tables)) clear(section);
    });
  }

  /** Shows an error. An invalid token signs out. */
  fail(error) {
    if (this.#signal.aborted) return;
    if (error instanceof Refused && error.status === 401) this.#leave(error.message);
    else tell(error.message, true);
  }

  /** Refreshes everything now; calls that come meanwhile cause one more refresh. */
  async refresh() {
    if (this.#signal.aborted || document.hidden) return;
    if (this.#asking) {
      this.#again = true;
      return;
    }
    this.#asking = true;
    clearTimeout(this.#timer);
    try {
      await this.#show();
      this.#reached = true;
    } catch (error) {
      if (error instanceof Refused && error.status < 500) this.fail(error);
      else this.#reached = false;
    }
    this.#said();
    this.#asking = false;
    clearTimeout(this.#timer);
    if (this.#signal.aborted) return;
    this.#timer = setTimeout(() => this.refresh(), this.#again ? settle : this.#listening ? slowTick : tick);
    this.#again = false;
  }

  /** Shows whether the page is updated by events or by polling. */
  #said() {
    if (this.#signal.aborted) return;
    if (!this.#reached) link("bad", "not reached; trying again");
    else if (this.#live) link("good", "live");
    else if (this.#listening) link("warn", "the events are not heard; coming back to them");
    else link("good", `asks every ${tick / 1000} s`);
  }

  /** Schedules a refresh soon, one for all events until then. */
  soon() {
    if (this.#asking) {
      this.#again = true;
      return;
    }
    if (this.#again) return;
    this.#again = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#again = false;
      this.refresh();
    }, settle);
  }

  async #show() {
    const ask = (path) => this.#client.ask("GET", path);
    const [status, nodes, sessions, running, ended, machines, audit] = await Promise.all([
      ask("v1/status"),
      ask("v1/nodes"),
      this.#client.ask("POST", "v1/tools/list_sessions", {}),
      ask("v1/executions?status=running"),
      ask(`v1/executions?limit=${recent}`),
      ask("v1/machines"),
      ask(`v1/audit?limit=${entries}`),
    ]);
    if (this.#signal.aborted) return;
    this.#now = Date.now();
    get("where").textContent = [status.node, status.version, `as ${status.actor}${status.operator ? ", operator" : ""}`, `${bytes(status.memory_available_bytes)} of memory free`].join(" · ");
    const calls = [...running.executions, ...ended.executions.filter((c) => c.status !== "running")];
    this.tables.nodes.show(nodes.nodes.map((n) => ({ ...n, here: n.id === status.node })));
    this.tables.sessions.show(sessions.sessions);
    this.tables.calls.show(calls);
    this.tables.machines.show(machines.machines);
    this.tables.audit.show(audit.entries.toReversed());
    title("nodes", `Nodes: ${nodes.nodes.filter((n) => n.state === "up").length} of ${nodes.nodes.length} up${status.leader ? "" : ", without a leader"}`);
    title("sessions", `Your sessions: ${sessions.sessions.length} of ${sessions.limit}`);
    title("calls", `Your calls: ${running.executions.length} running`);
    title("machines", `Machines: ${machines.machines.filter((m) => m.state === "connected").length} connected`);
    const missing = audit.failures.map((f) => f.node).join(", ");
    title("audit", (status.operator ? "Audit log" : "Audit log: your entries") + (missing ? `, without those of ${missing}` : ""));
    const shown = calls.find((c) => c.call_id === this.#view.id);
    if (shown) this.#view.update(shown);
    // Events are for operators.
    get("events").hidden = get("to-events").hidden = !status.operator;
    if (status.operator) this.#listen();
  }

  /** Follows the events of the mesh while the page is visible. */
  async #listen() {
    if (this.#listening || document.hidden) return;
    this.#listening = true;
    const seen = new AbortController();
    const hidden = () => document.hidden && seen.abort();
    document.addEventListener("visibilitychange", hidden);
    try {
      this.#eventId = await this.#client.follow("v1/events", {
        signal: AbortSignal.any([this.#signal, seen.signal]),
        after: this.#eventId,
        begun: () => ((this.#live = true), this.#said()),
        broken: () => ((this.#live = false), this.#said()),
        take: (event) => this.#heard(event),
      });
    } catch (error) {
      this.fail(error);
    } finally {
      document.removeEventListener("visibilitychange", hidden);
      this.#listening = this.#live = false;
    }
  }

  #heard({ data }) {
    this.#events.unshift({ ...data, key: `${data.node}/${data.boot}/${data.seq}/${data.kind}` });
    this.#events.length = Math.min(this.#events.length, remembered);
    this.tables.events.show(this.#events);
    this.soon();
  }
}

const link = (kind, text) => {
  get("link").className = kind;
  get("link").textContent = text;
};
const title = (section, text) => (get(`${section}-title`).textContent = text);
const table = (section, columns, how) => new Table(get(section), columns, how);
const clear = (section) => get(section).replaceChildren(get(`${section}-title`));

const nodeState = (n) => [n.state, n.draining && "draining", n.memory_short && "short of memory"].filter(Boolean).join(", ");
const nodeColumns = [
  { name: "Node", text: (n) => n.id + (n.here ? " (this one)" : ""), kind: "mono" },
  { name: "State", text: nodeState, mood: (n) => (n.memory_short || n.draining ? "warn" : mood(n.state)) },
  { name: "Role", text: (n) => (n.leader ? "leader" : n.voter ? "voter" : "follower"), kind: "short" },
  { name: "Sessions", text: (n) => n.sessions, kind: "number" },
  { name: "Running", text: (n) => n.running, kind: "number" },
  { name: "Memory", text: (n) => (n.memory_bytes ? bytes(n.memory_bytes) : ""), title: () => "What the node's own process holds.", kind: "number" },
  { name: "Labels", text: (n) => labels(n.labels), kind: "wide" },
  { name: "Address", text: (n) => n.addr, kind: "mono" },
  { name: "Version", text: (n) => n.version, kind: "short" },
];

const sessionColumns = (now) => [
  { name: "Session", text: (s) => s.session_name ?? `#${s.session_id}` },
  { name: "Language", text: (s) => s.language + (s.venv_id === null ? "" : `, environment ${s.venv_id}`) },
  { name: "State", text: (s) => (!s.state_lost ? s.state : s.state === "lost" ? `lost: ${s.state_lost.reason}` : `${s.state}, lost before: ${s.state_lost.reason}`), mood: (s) => (s.state_lost ? "bad" : mood(s.state)) },
  { name: "Epoch", text: (s) => s.epoch, kind: "number" },
  { name: "Calls", text: (s) => s.calls, kind: "number" },
  { name: "Memory", text: (s) => bytes(s.memory_bytes), kind: "number" },
  { name: "Used", text: (s) => ago(s.last_used_at, now()), kind: "short" },
  { name: "Node", text: (s) => s.node, kind: "mono" },
  { name: "Summary", text: (s) => clip(s.summary, 120), kind: "wide" },
];

const callColumns = (now, view) => [
  { name: "Call", text: (c) => c.call_id, act: (c) => view.open(c), kind: "mono" },
  { name: "State", text: callState, mood: (c) => mood(callState(c)), kind: "short" },
  { name: "Language", text: (c) => c.language, kind: "short" },
  { name: "Mode", text: (c) => c.state_mode, kind: "short" },
  { name: "Session", text: callSession, kind: "short" },
  { name: "Started", text: (c) => ago(c.started_at, now()), kind: "short" },
  { name: "Took", text: (c) => millis(c.status === "running" ? Math.max(0, now() - Date.parse(c.started_at)) : c.duration_ms), kind: "number" },
  { name: "Why", text: (c) => clip([c.function && `function ${c.function}`, c.thought].filter(Boolean).join(": "), 120), kind: "wide" },
  { name: "Pause", text: (c) => (c.status !== "running" ? "" : c.paused ? "Resume" : "Pause"), act: (c) => view.steer(c.call_id, c.paused ? "resume" : "pause") },
  { name: "Stop", text: (c) => (c.status === "running" ? "Stop" : ""), act: (c) => view.stop(c.call_id) },
];

const machineColumns = (now) => [
  { name: "Machine", text: (m) => m.name },
  { name: "Actor", text: (m) => m.actor },
  { name: "Surface", text: (m) => m.surface, kind: "short" },
  { name: "State", text: (m) => m.state, mood: (m) => mood(m.state), kind: "short" },
  { name: "System", text: (m) => [m.os, m.arch].filter(Boolean).join("/"), kind: "short" },
  { name: "Languages", text: (m) => (m.languages ?? []).join(", ") },
  { name: "Consent", text: (m) => m.consent },
  { name: "Seen", text: (m) => (m.state === "connected" ? "now" : ago(m.last_seen_at, now())), kind: "short" },
];

const eventColumns = [
  { name: "Time", text: (e) => clock(e.at), kind: "short" },
  { name: "Event", text: (e) => e.kind, kind: "short", mood: (e) => (/lost|unreachable|expired|cut_off|fenced|dropped|pressure/.test(e.kind) ? "warn" : "") },
  { name: "Node", text: (e) => e.node, kind: "mono" },
  { name: "What", text: (e) => clip(members(e.data), 300), kind: "wide" },
];

// The details of an entry that have no column.
const beside = ({ call_id, target, language, state_mode, session_name, session_id, machine, function: fn, primitive, detail, error_code, state_lost, thought }) => ({
  call: call_id, target, language, mode: state_mode, session: session_name ?? session_id, machine, function: fn,
  primitive: primitive && `${primitive.name} ${primitive.outcome}`, code: error_code, lost: state_lost, thought, ...detail,
});
const auditColumns = [
  { name: "Time", text: (e) => clock(e.at), title: (e) => e.at, kind: "short" },
  { name: "Entry", text: (e) => `${e.node}/${e.seq}`, kind: "mono" },
  { name: "Actor", text: (e) => e.actor ?? "" },
  { name: "What", text: (e) => e.what, kind: "short" },
  { name: "Outcome", text: (e) => e.status ?? "", mood: (e) => (e.status ? mood(e.status) : ""), kind: "short" },
  { name: "Of what", text: (e) => clip(members(Object.fromEntries(Object.entries(beside(e)).filter(([, v]) => v !== undefined))), 300), kind: "wide" },
];

let board = null; // the AbortController of the current view

function leave(why = "") {
  board?.abort();
  board = null;
  sessionStorage.removeItem(kept);
  get("main").hidden = get("leave").hidden = true;
  get("where").textContent = get("link").textContent = "";
  get("enter").hidden = false;
  get("refused").textContent = why;
  tell("");
  get("token").focus();
}

async function enter(token) {
  const client = new Client(token);
  try {
    await client.ask("GET", "v1/status");
  } catch (error) {
    return leave(error instanceof Refused ? error.message : "The node does not answer.");
  }
  sessionStorage.setItem(kept, token);
  get("token").value = get("refused").textContent = "";
  get("enter").hidden = true;
  get("main").hidden = get("leave").hidden = false;
  board?.abort();
  board = new AbortController();
  await new Board(client, board.signal, leave).refresh();
}

get("leave").onclick = () => leave();
get("enter").onsubmit = (event) => {
  event.preventDefault();
  enter(get("token").value.trim());
};
const token = sessionStorage.getItem(kept);
if (token) enter(token);
else leave();
