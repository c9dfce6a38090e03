// Rules, limits and recent log lines: what is read and not changed here.
import { ask, query } from "./api.js";
import { count, field, make, size, swap, table } from "./view.js";

export function rules(view, tell) {
  const place = make("div");
  view.append(make("h2", {}, "Rules"), place);
  const bounded = (value, show) => (value === null ? "unlimited" : show(value));
  const columns = [
    { name: "Filter", of: ({ filter }) => filter || "(all other topics)", kind: "mono" },
    { name: "Log", of: ({ log }) => log },
    { name: "History", of: (rule) => `${count(rule.history_messages_max)} messages, ${bounded(rule.history_age_max_ms, (ms) => `${count(ms / 1000)} s`)}` },
    { name: "Message", of: (rule) => size(rule.message_bytes_max), kind: "number" },
    { name: "When lagging", of: (rule) => rule.when_lagging },
    { name: "Publishers", of: (rule) => `${rule.publishers}${rule.retain ? "" : ", none retained"}` },
    { name: "Rate", of: (rule) => bounded(rule.publish_rate_max, (rate) => `${count(rate)}/s`), kind: "number" },
  ];
  const logColumns = [
    { name: "Log", of: ({ name }) => name },
    { name: "Kept", of: ({ durability }) => durability },
    { name: "Partitions", of: ({ partitions }) => count(partitions), kind: "number" },
    { name: "Epoch", of: ({ epoch }) => epoch ?? "by partition", kind: "mono" },
    { name: "Bytes", of: (log) => size(log.bytes_max), kind: "number" },
    { name: "Age", of: (log) => bounded(log.age_max_ms, (ms) => `${count(ms / 1000)} s`), kind: "number" },
  ];
  async function look() {
    const found = await ask("/api/v1/rules");
    swap(place, table("Rules", columns, found.rules, "No rules."), make("h3", {}, "Logs"), table("Logs", logColumns, found.logs, "No logs."));
    tell();
  }
  return { look, everyMs: null };
}

export function limits(view, tell) {
  const searched = make("input", { name: "search", type: "search", autocomplete: "off", oninput: () => show() });
  const place = make("div");
  view.append(make("h2", {}, "Limits in force"), make("form", { role: "search", "aria-label": "Limits", onsubmit: (event) => event.preventDefault() }, field("Part of a name", searched)), place);
  let found = [];
  const sorting = {};
  const columns = [
    { name: "Option", of: ({ option }) => option, kind: "mono", by: ({ option }) => option },
    { name: "Value", of: ({ text }) => text.replaceAll('"', ""), kind: "mono" },
    { name: "From", of: ({ origin }) => origin, by: ({ origin }) => origin },
    { name: "Changes by", of: ({ reload }) => (reload ? "reload" : "restart"), by: ({ reload }) => Number(reload) },
    { name: "Purpose", of: ({ help }) => help, kind: "wide" },
  ];
  const show = () => swap(place, table("Limits", columns, found.filter(({ option }) => option.includes(searched.value)), "No such limit.", sorting));
  async function look() {
    found = (await ask("/api/v1/limits")).limits;
    show();
    tell();
  }
  return { look, everyMs: null };
}

const LINES_MAX = 1000;

function lineOf({ message, time, level, target, number, ...fields }) {
  const rest = Object.entries(fields).map(([name, value]) => `${name}=${value}`);
  return [message, ...rest].join(" ");
}

export function logs(view, tell) {
  const level = make("select", { name: "level", onchange: () => restart() }, make("option", { value: "" }, "any"), ...["error", "warn", "info", "debug"].map((name) => make("option", {}, name)));
  const target = make("select", { name: "target", onchange: () => restart() }, make("option", { value: "" }, "any"));
  const place = make("div", {}, make("p", { class: "empty" }, "Loading the newest lines."));
  view.append(make("h2", {}, "Recent log lines"), make("form", { role: "search", "aria-label": "Log lines", onsubmit: (event) => event.preventDefault() }, field("Level", level), field("Target", target)), place);
  let lines = [];
  let after = null;
  const columns = [
    { name: "Time", of: (line) => line.time ?? null, kind: "mono" },
    { name: "Level", of: (line) => line.level ?? null },
    { name: "Target", of: (line) => line.target ?? null },
    { name: "Line", of: lineOf, kind: "mono wide pre" },
  ];
  ask("/api/v1/logging")
    .then(({ levels }) => target.append(...Object.keys(levels).map((name) => make("option", {}, name))))
    .catch(() => {});
  function restart() {
    lines = [];
    after = null;
    look().catch(() => {});
  }
  async function look() {
    try {
      const page = await ask(query("/api/v1/logs", { after, level: level.value, target: target.value }));
      after = page.next;
      lines = [...lines, ...page.lines].slice(-LINES_MAX);
      swap(place, table("Log lines, newest first", columns, [...lines].reverse(), "No lines."));
    } catch (error) {
      if (error.status !== 404) throw error;
      swap(place, make("p", { class: "empty" }, "This node stores no recent lines; see its standard output."));
    }
    tell();
  }
  return { look, everyMs: 2000 };
}
