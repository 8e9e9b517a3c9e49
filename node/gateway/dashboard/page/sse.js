// Server-sent events, read from the body of a fetch: EventSource cannot send the header
// that says who asks.

// No event of a node is longer, in UTF-16 code units; what sends more is no node.
const longest = 64 << 20;

/** Splits what is received into events, as the HTML standard says. */
export class EventParser {
  /** The id of the last event, or the mark of one that is yet to come. */
  lastId;
  #rest = "";
  #name = "";
  #data = null;
  #id;

  constructor(lastId = "") {
    this.lastId = this.#id = lastId;
  }

  /** Takes the next piece of text and gives the events that are whole by it. */
  take(text) {
    this.#rest += text;
    if (this.#rest.length > longest) throw new Error("an event is longer than any that a node sends");
    const found = [];
    for (;;) {
      const end = this.#rest.search(/[\r\n]/);
      // A return may be the first half of a line's end.
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
