// The parts of the page that need no page. Run by page_test.go with the folder of the page.
import assert from "node:assert/strict";
import { test } from "node:test";

const page = process.env.LOCUS_PAGE;
const { EventParser } = await import(`${page}/sse.js`);
const words = await import(`${page}/format.js`);

const stream = [
  ": a heartbeat\n\n",
  "id: n.1.5\n\n",
  'id: n.1.6\nevent: call_started\ndata: {"a": "x: y"}\n\n',
  "data:one\r\ndata: two\r\n\r\n",
  "event\ndata\nunknown: 1\n\n",
  "id: n.1.7\revent: é\rdata: \u{1f600}\r\r",
  "id: bad\0id\ndata: 3\n\n",
  "event: cut\ndata: never whole\n",
].join("");
const events = [
  { name: "call_started", id: "n.1.6", data: '{"a": "x: y"}' },
  { name: "message", id: "n.1.6", data: "one\ntwo" },
  { name: "message", id: "n.1.6", data: "" },
  { name: "é", id: "n.1.7", data: "\u{1f600}" },
  { name: "message", id: "n.1.7", data: "3" },
];

test("events are the same wherever the stream was cut", () => {
  for (let cut = 0; cut <= stream.length; cut++) {
    for (const second of [cut, Math.min(cut + 1, stream.length)]) {
      const parser = new EventParser();
      const found = [stream.slice(0, cut), stream.slice(cut, second), stream.slice(second)].flatMap((piece) => parser.take(piece));
      assert.deepEqual(found, events, `cut at ${cut} and ${second}`);
      assert.equal(parser.lastId, "n.1.7");
    }
  }
});

test("a mark without an event moves the id, and half of one does not", () => {
  const parser = new EventParser("n.1.1");
  assert.equal(parser.lastId, "n.1.1");
  parser.take("id: n.1.2\n");
  assert.equal(parser.lastId, "n.1.1");
  assert.deepEqual(parser.take("\n"), []);
  assert.equal(parser.lastId, "n.1.2");
});

test("a stream that is no stream does not fill the memory", () => {
  const parser = new EventParser();
  const piece = "x".repeat(1 << 24);
  assert.throws(() => {
    for (let i = 0; i < 8; i++) parser.take(piece);
  }, /longer than any/);
});

test("numbers and states in words", () => {
  const { ago, bytes, callSession, callState, clip, labels, members, millis, mood, span } = words;
  assert.deepEqual([0, 1023, 1024, 1536, 1 << 30].map(bytes), ["0 B", "1023 B", "1 KiB", "1.5 KiB", "1 GiB"]);
  assert.deepEqual([5, 999, 1500, 125_000, 119_700].map(millis), ["5.00 ms", "999 ms", "1.5 s", "2m5s", "2m0s"]);
  assert.deepEqual([-1, 59_999, 60_000, 7_200_000, 172_800_000].map(span), ["0s", "59s", "1m", "2h", "2d"]);
  assert.deepEqual(["0001-01-01T00:00:00Z", "nothing", "2026-01-01T00:00:00Z"].map((t) => ago(t, Date.parse("2026-01-01T00:01:00Z"))), ["", "", "1m ago"]);
  assert.equal(clip("a\n b\tc", 10), "a b c");
  assert.equal(clip("abcdef", 4), "abc…");
  assert.equal(clip(undefined, 4), "");
  assert.equal(members({ a: 1, b: null, c: "", d: { e: [1] } }), 'a=1 d={"e":[1]}');
  assert.equal(labels({ zone: "a", disk: "fast" }), "disk=fast zone=a");
  assert.deepEqual(["up", "busy", "lost", "unlinked"].map(mood), ["good", "warn", "bad", "quiet"]);
  assert.equal(callState({ status: "running", paused: true }), "paused");
  assert.equal(callState({ status: "failed", code: "timeout" }), "timeout");
  assert.deepEqual([{ session_name: "a" }, { session_id: 0, session_name: null }, { session_id: null }].map(callSession), ["a", "#0", ""]);
});
