// Formats a node's answers for people.

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1023.95 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${unit === 0 ? n : n.toFixed(1).replace(/\.0$/, "")} ${units[unit]}`;
}

export function span(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 60) return `${Math.floor(s)}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

export function millis(ms) {
  if (ms < 10) return `${ms.toFixed(2)} ms`;
  if (ms < 999.5) return `${ms.toFixed(0)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  return `${Math.floor(s / 60)}m${s % 60}s`;
}

/** The age of a time; nodes send the year 1 for never. */
export function ago(time, now) {
  const at = Date.parse(time);
  if (!(at > 0)) return "";
  return now - at < 1000 ? "just now" : `${span(now - at)} ago`;
}

export function clock(time) {
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? "" : at.toLocaleTimeString();
}

export function clip(text, n) {
  const line = String(text ?? "").split(/\s+/).join(" ");
  return line.length <= n ? line : `${line.slice(0, n - 1)}…`;
}

export function plural(n, noun) {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

/** An object as name=value pairs, for events and entries with different members. */
export function members(object) {
  return Object.entries(object ?? {})
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(" ");
}

export function labels(map) {
  return Object.entries(map ?? {}).map(([k, v]) => `${k}=${v}`).sort().join(" ");
}

/** The style of a state: one of the classes good, warn, bad and quiet. */
export function mood(state) {
  if (/^(up|live|connected|done)\b/.test(state)) return "good";
  if (/^(busy|running|paused|draining|away|unreachable)\b/.test(state)) return "warn";
  return /^(closed|refused|unlinked)\b/.test(state) ? "quiet" : "bad";
}

/** The state of a call in one word. */
export function callState(call) {
  if (call.status === "running") return call.paused ? "paused" : "running";
  return call.code ?? call.status;
}

export function callSession(call) {
  return call.session_name ?? (call.session_id === null || call.session_id === undefined ? "" : `#${call.session_id}`);
}
