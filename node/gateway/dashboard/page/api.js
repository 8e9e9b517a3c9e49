// A client of the node's HTTP API with a token.
import { EventParser } from "./sse.js";

// A node sends a heartbeat every 15 seconds; a stream that is silent for longer is dead.
const silence = 45_000;
const firstPause = 500;
const longestPause = 10_000;

/** The node refused. The message says why, and what to do. */
export class Refused extends Error {
  constructor(status, object) {
    super([object?.error ?? `the node answered ${status}`, object?.suggestion].filter(Boolean).map(sentence).join(" "));
    this.status = status;
    this.code = object?.code ?? null;
  }
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");

const wait = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

export class Client {
  #token;

  constructor(token) {
    this.#token = token;
  }

  /** Requests one object. Throws Refused, or the error of fetch if nobody answers. */
  async ask(method, path, body) {
    const response = await this.#send(method, path, { body, signal: AbortSignal.timeout(30_000) });
    if (!response.ok) throw await refusal(response);
    return response.json();
  }

  #send(method, path, { body, headers = {}, signal }) {
    if (body !== undefined) headers["Content-Type"] = "application/json";
    return fetch(new URL(path, document.baseURI), {
      method,
      signal,
      headers: { ...headers, Authorization: `Bearer ${this.#token}` },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      cache: "no-store",
      referrerPolicy: "no-referrer",
    });
  }

  /**
   * Passes the events of a stream to take until take returns true or the signal is aborted.
   * A broken stream is resumed after the last event received. Throws Refused if a retry
   * would not help.
   *
   * @param {string} path
   * @param {{signal: AbortSignal, after?: string, take: (event: {name: string, id: string, data: any}) => any, begun?: () => void, broken?: () => void}} how
   *     begun is called after each connect, broken after each disconnect. The promise
   *     resolves to the id of the last event.
   */
  async follow(path, { signal, after = "", take, begun = () => {}, broken = () => {} }) {
    let lastId = after;
    let pause = firstPause;
    while (!signal.aborted) {
      const parser = new EventParser(lastId);
      const quiet = new AbortController();
      let timer = setTimeout(() => quiet.abort(), silence);
      try {
        const headers = { Accept: "text/event-stream" };
        if (lastId !== "") headers["Last-Event-ID"] = lastId;
        const response = await this.#send("GET", path, { headers, signal: AbortSignal.any([signal, quiet.signal]) });
        if (!response.ok) throw await refusal(response);
        begun();
        const reader = response.body.getReader();
        const decoder = new TextDecoder();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          clearTimeout(timer);
          timer = setTimeout(() => quiet.abort(), silence);
          pause = firstPause;
          const events = parser.take(decoder.decode(value, { stream: true }));
          lastId = parser.lastId;
          for (const { name, id, data } of events) if (take({ name, id, data: JSON.parse(data) }) === true) return lastId;
        }
      } catch (error) {
        if (error instanceof Refused && error.status < 500) throw error;
        // For any other error, retry.
      } finally {
        clearTimeout(timer);
        quiet.abort();
      }
      if (signal.aborted) break;
      broken();
      await wait(pause, signal);
      pause = Math.min(2 * pause, longestPause);
    }
    return lastId;
  }
}

async function refusal(response) {
  let object = null;
  try {
    object = await response.json();
  } catch {
    // Not JSON: the status has to do.
  }
  return new Refused(response.status, object);
}
