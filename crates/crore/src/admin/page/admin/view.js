// Elements, tables and numbers. Texts of clients become text nodes and never markup.

export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// columns: [{ name, of: row => text or node, kind: "number" | "mono" | "wide" ..., by: row => what
// it is sorted by }]. On a phone each cell shows its column's name. `sorting`, kept by the caller,
// says by which column, and outlives the table.
export function table(caption, columns, rows, empty, sorting = {}) {
  if (rows.length === 0) return make("p", { class: "empty" }, empty);
  const place = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption });
  const sortBy = (name, isDown) => {
    Object.assign(sorting, { name, isDown });
    swap(place, ...drawn());
  };
  const head = ({ name, kind, by }) => {
    const isSorted = sorting.name === name;
    const order = isSorted ? (sorting.isDown ? "descending" : "ascending") : null;
    // Numbers are wanted the greatest first.
    const onclick = () => sortBy(name, isSorted ? !sorting.isDown : kind === "number");
    return make("th", { scope: "col", class: kind, "aria-sort": order }, by ? make("button", { type: "button", "data-focus": `sort ${name}`, onclick }, name) : name);
  };
  const drawn = () => {
    const by = columns.find(({ name }) => name === sorting.name)?.by;
    const sorted = by ? [...rows].sort((one, other) => compare(by(one), by(other)) * (sorting.isDown ? -1 : 1)) : rows;
    const body = sorted.map((row) =>
      make("tr", {}, ...columns.map(({ name, of, kind }) => make("td", { class: kind, "data-name": name }, make("span", {}, of(row) ?? "–")))),
    );
    return [
      sortChoice(columns, sorting, sortBy),
      make("table", {}, make("caption", { class: "hidden" }, caption), make("thead", {}, make("tr", {}, ...columns.map(head))), make("tbody", {}, ...body)),
    ];
  };
  place.append(...drawn().filter((part) => part !== null));
  return place;
}

// On a phone, where a table has no heads.
function sortChoice(columns, sorting, sortBy) {
  const sortable = columns.filter(({ by }) => by);
  if (sortable.length === 0) return null;
  const option = ({ name }) => make("option", { value: name, selected: sorting.name === name }, name);
  const choice = make("select", { "data-focus": "sort", onchange: () => sortBy(choice.value, sortable.find(({ name }) => name === choice.value)?.kind === "number") },
    make("option", { value: "" }, "as found"), ...sortable.map(option));
  return make("label", { class: "sorts" }, "Sort by", choice);
}

// What is not known comes first.
function compare(one, other) {
  if (typeof one === "string" && typeof other === "string") return one.localeCompare(other, "en", { numeric: true });
  return (one ?? -1) - (other ?? -1);
}

// Puts other children into a place. What had the focus there, has it again.
export function swap(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const key = focused?.getAttribute("href") ?? focused?.dataset.focus;
  place.replaceChildren(...children.filter((child) => child !== null));
  if (key === undefined || key === null) return;
  for (const found of place.querySelectorAll("a, [data-focus]")) {
    if ((found.getAttribute("href") ?? found.dataset.focus) === key && found.checkVisibility()) return found.focus({ preventScroll: true });
  }
}

// The address of an item of a view.
export const address = (view, item) => `#/${view}/${encodeURIComponent(item).replaceAll("%2F", "/")}`;

export function field(text, control, kind = "") {
  return kind === "box" ? make("label", { class: kind }, control, text) : make("label", { class: kind }, text, control);
}

export const count = (number) => Number(number ?? 0).toLocaleString("en");

// One digit behind the point where it says something.
const trimmed = (value) => String(value < 100 ? +value.toFixed(1) : Math.round(value));

export function size(bytes) {
  let value = Number(bytes ?? 0);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return `${trimmed(value)} ${unit}`;
    value /= 1024;
  }
  return `${trimmed(value)} TiB`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return null;
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([length]) => seconds >= length);
  if (first < 0) return "0 s";
  const [length, unit] = parts[first];
  const [nextLength, nextUnit] = parts[first + 1] ?? [];
  const rest = nextLength ? Math.floor((seconds % length) / nextLength) : 0;
  return `${Math.floor(seconds / length)} ${unit}${rest ? ` ${rest} ${nextUnit}` : ""}`;
}

export const yesNo = (value) => (value === null || value === undefined ? null : value ? "yes" : "no");

export function states(connection) {
  const tags = [["closing", "bad"], ["blocked", "bad"], ["lagging", "warn"]].filter(([name]) => connection[name]);
  if (tags.length === 0) return make("span", { class: "tag" }, "live");
  return make("span", {}, ...tags.map(([name, kind]) => make("span", { class: `tag ${kind}` }, name)));
}

export function outcome() {
  const line = make("p", { class: "outcome", role: "status" });
  return {
    line,
    show(kind, text) {
      line.dataset.kind = kind;
      line.textContent = text;
    },
  };
}
