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

// columns: [{ name, of: row => text or node, kind: "number" | "mono" | ... }]. On a phone each cell shows its column's name.
export function table(caption, columns, rows, empty) {
  if (rows.length === 0) return make("p", { class: "empty" }, empty);
  const heads = columns.map(({ name, kind }) => make("th", { scope: "col", class: kind }, name));
  const body = rows.map((row) =>
    make("tr", {}, ...columns.map(({ name, of, kind }) => make("td", { class: kind, "data-name": name }, of(row) ?? "–"))),
  );
  return make(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", { class: "hidden" }, caption), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body)),
  );
}

export function field(text, control, kind = "") {
  return kind === "box" ? make("label", { class: kind }, control, text) : make("label", { class: kind }, text, control);
}

export const count = (number) => Number(number ?? 0).toLocaleString("en");

export function size(bytes) {
  let value = Number(bytes ?? 0);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return `${unit === "B" ? value : value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return null;
  const parts = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const first = parts.findIndex(([length]) => seconds >= length);
  if (first < 0) return "0s";
  const [length, unit] = parts[first];
  const [nextLength, nextUnit] = parts[first + 1] ?? [];
  const rest = nextLength ? Math.floor((seconds % length) / nextLength) : 0;
  return `${Math.floor(seconds / length)}${unit}${rest ? ` ${rest}${nextUnit}` : ""}`;
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

// A dialog with a title; what it shows is made by `fill(body, close)`.
export function openDialog(title, fill) {
  const dialog = document.getElementById("dialog");
  const body = make("div");
  const close = () => dialog.close();
  dialog.replaceChildren(make("h2", { id: "dialog-title" }, title), body);
  fill(body, close);
  if (!dialog.open) dialog.showModal();
  return dialog;
}
