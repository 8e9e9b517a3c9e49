// Server-sent events, read with fetch: EventSource cannot send an Authorization header.

// The limit for an event, in UTF-16 code units. Nodes send no longer ones.
const longest = 64 << 20;

/** Parses events as the HTML standard defines them. */
export class EventParser {
  /** The last id received, with or without an event. */
  lastId;
  #rest = "";
  #name = "";
  #data = null;
  #id;

  constructor(lastId = "") {
    this.lastId = this.#id = lastId;
  }

  /** Adds a piece of text and returns the events that it completes. */
  take(text) {
    this.#rest += text;
    if (this.#rest.length > longest) throw new Error("an event is longer than any that a node sends");
    const found = [];
    for (;;) {
      const end = this.#rest.search(/[\r\n]/);
      // A trailing CR may be the first half of a CR LF.
      if (end < 0 || (this.#rest[end] === "\r" && end + 1 === this.#rest.length)) return found;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + (this.#rest.startsWith("\r\n", end) ? 2 : 1));
      if (line !== "") this.#field(line);
      else this.#end(found);
    }
  }

  #field(line) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#name = value;
    else if (name === "data") this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }

  #end(found) {
    this.lastId = this.#id;
    if (this.#data !== null) found.push({ name: this.#name || "message", id: this.#id, data: this.#data });
    this.#name = "";
    this.#data = null;
  }
}
