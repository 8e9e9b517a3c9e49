// Tables that are refreshed often. Data from code is inserted as text, never as HTML:
// nothing in the page makes elements from a string.

/** Makes an element with text and children. */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/**
 * A table with a row for each of some items. A row stays the same element as long as its
 * item is there, so that the focus and what is selected stay where they are.
 *
 * A column has a name and gives text for an item. With act, the text is the label of a
 * button, which is left out where it is empty. kind is a class of its cells; mood gives one
 * for an item.
 */
export class Table {
  #body = element("tbody");
  #empty;
  #box;
  #rows = new Map();

  constructor(section, columns, { key, empty, tall = false }) {
    this.columns = columns;
    this.key = key;
    const heads = columns.map((c) => element("th", { scope: "col", className: c.kind ?? "", textContent: c.name }));
    const head = element("thead", {}, element("tr", { role: "row" }, ...heads));
    for (const th of heads) th.setAttribute("role", "columnheader");
    const table = element("table", {}, head, this.#body);
    // The layout for narrow windows would remove the implicit roles.
    table.setAttribute("role", "table");
    this.#box = element("div", { className: tall ? "rows tall" : "rows" }, table);
    if (tall) this.#box.tabIndex = 0;
    this.#empty = element("p", { className: "quiet", textContent: empty });
    section.append(this.#box, this.#empty);
    this.show([]);
  }

  show(items) {
    const present = new Set(items.map(this.key));
    for (const [key, row] of this.#rows) {
      if (present.has(key)) continue;
      row.element.remove();
      this.#rows.delete(key);
    }
    items.forEach((item, i) => {
      const key = this.key(item);
      let row = this.#rows.get(key);
      if (!row) this.#rows.set(key, (row = this.#row()));
      row.item = item;
      this.#fill(row);
      if (this.#body.children[i] !== row.element) this.#body.insertBefore(row.element, this.#body.children[i] ?? null);
    });
    this.#box.hidden = items.length === 0;
    this.#empty.hidden = items.length > 0;
  }

  #row() {
    const row = { element: element("tr"), item: null };
    row.element.setAttribute("role", "row");
    for (const column of this.columns) {
      const cell = element("td");
      cell.setAttribute("role", "cell");
      cell.dataset.name = column.name;
      row.element.append(cell);
    }
    return row;
  }

  #fill(row) {
    this.columns.forEach((column, i) => {
      const cell = row.element.children[i];
      const text = String(column.text(row.item) ?? "");
      const kind = [column.kind, column.mood?.(row.item)].filter(Boolean).join(" ");
      if (cell.className !== kind) cell.className = kind;
      if (column.title) cell.title = column.title(row.item);
      if (!column.act) {
        if (cell.textContent !== text) cell.textContent = text;
      } else if (text === "") {
        cell.replaceChildren();
      } else {
        if (!cell.firstChild) cell.append(element("button", { type: "button", onclick: () => column.act(row.item) }));
        if (cell.firstChild.textContent !== text) cell.firstChild.textContent = text;
      }
    });
  }
}
