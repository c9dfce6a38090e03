// What needs a look, the charts of the last five minutes, and what is in memory.
import { ask, query } from "./api.js";
import { SPAN_MS, chart, whole } from "./charts.js";
import { count, make, size, span, swap, table } from "./view.js";

const perSecond = (number) => `${count(number < 10 ? +number.toFixed(1) : Math.round(number))}/s`;
const duration = (us) => (us < 1000 ? `${Math.round(us)} µs` : us < 1e6 ? `${+(us / 1000).toFixed(us < 10_000 ? 1 : 0)} ms` : `${+(us / 1e6).toFixed(1)} s`);

const of = (name) => (sample) => sample[name];
const rate = (name) => (sample) => (sample.counted[name] * 1000) / sample.interval_ms;

export function overview(view, tell) {
  const charts = [
    chart("Connections", of("connections"), count),
    chart("Published", rate("published"), perSecond),
    chart("Delivered", rate("delivered"), perSecond),
    chart("Publish to write", ({ publish_to_write_us: us }) => us && [us.p50, us.p99], duration, { of: ["p50", "p99"] }),
    chart("Connects", rate("accepted"), perSecond),
    chart("Written", rate("written_bytes"), (bytes) => `${size(Math.round(bytes))}/s`, { base: 1024 }),
    chart("Gaps, refusals", ({ counted }) => [counted.gaps, counted.refusals], count, { of: ["gaps", "refusals"] }),
    chart("Memory", of("memory_bytes"), size, { base: 1024 }),
  ];
  const statuses = make("ul", { class: "statuses", "aria-label": "Health" });
  const facts = make("dl", { class: "facts sheet" });
  const memory = make("div");
  const components = make("details", { open: !window.matchMedia("(max-width: 700px)").matches }, make("summary", {}, "Memory by component"), memory);
  view.append(make("h2", { class: "hidden" }, "Overview"), statuses, make("div", { class: "charts" }, ...charts.map(({ element }) => element)), facts, components);
  let samples = [];
  let next = 0;
  async function look() {
    const [page, now, health] = await Promise.all([
      ask(query("/api/v1/statistics/history", { from: next })),
      ask("/api/v1/statistics"),
      ask("/healthz", { expected: [503] }),
    ]);
    // The next number is lower than before in another process: what is here is of the one before.
    if (page.next < next) {
      samples = [];
      next = 0;
      return look();
    }
    next = page.next;
    samples = [...samples, ...page.samples].slice(-page.samples_max);
    tell();
    for (const { draw } of charts) draw(samples, page.interval_ms);
    swap(statuses, ...statusesOf(now, health, samples).map(status));
    swap(facts, ...factsOf(now).map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))));
    swap(memory, componentsOf(now));
  }
  return { look, everyMs: 2000 };
}

const sum = (components) => Object.values(components).reduce((all, bytes) => all + bytes, 0);
const MARKS = { good: "✓", warn: "!", bad: "✕" };

// Good, a warning or bad: by a word, a mark and a colour.
function status([name, kind, word, detail]) {
  const mark = make("span", { class: "hidden" }, { good: "good: ", warn: "warning: ", bad: "bad: " }[kind]);
  return make("li", { class: "sheet", "data-kind": kind }, make("h3", {}, name), make("strong", { class: kind }, mark, `${MARKS[kind]} ${word}`), make("span", {}, detail));
}

const PRESSURES = [
  ["good", "OK"],
  ["warn", "No replays"],
  ["bad", "New clients refused"],
  ["bad", "Publications refused"],
];

function statusesOf(now, health, samples) {
  const recent = (name) => samples.reduce((all, { counted }) => all + counted[name], 0);
  const [gaps, refusals, slow] = ["gaps", "refusals", "slow_closed"].map(recent);
  const before = samples.length === 0 ? "just started" : `last ${span(whole(Math.min(SPAN_MS, samples.reduce((all, { interval_ms: ms }) => all + ms, 0))))}`;
  const isReady = health.status === "ready";
  const [pressure, pressureWord] = PRESSURES[Math.min(now.memory_pressure, 3)];
  // Older events than the charts show are counted, without a warning.
  const counted = (name, number, all) => [name, number ? "warn" : "good", number ? count(number) : "None", all > number ? `${before}; ${count(all)} since the start` : before];
  return [
    ["Node", isReady ? "good" : "bad", isReady ? "Ready" : sentence(health.status), `up ${span(Math.floor(now.uptime_ms / 1000))}`],
    ["Memory", pressure, pressureWord, now.memory_ceiling_bytes ? `${size(now.memory_used_bytes)} of ${size(now.memory_ceiling_bytes)}` : size(now.memory_used_bytes)],
    counted("Gaps", gaps, now.total.gaps),
    counted("Refusals", refusals, now.total.refusals),
    now.lagging_streams && !slow
      ? ["Slow clients", "warn", `${count(now.lagging_streams)} lag`, "their streams are read from the log"]
      : counted("Slow clients", slow, now.total.slow_closed),
    now.silent_threads
      ? ["Threads", "bad", `${count(now.silent_threads)} silent`, `of ${count(now.io_threads)}; the figures lack their numbers`]
      : ["Threads", "good", "All answer", `${count(now.io_threads)} I/O threads`],
  ];
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function factsOf(now) {
  const protocols = Object.entries(now.protocols).filter(([, number]) => number > 0);
  return [
    ["Connections", `${count(now.connections)} of max ${count(now.connections_max)}`],
    ["By protocol", protocols.map(([name, number]) => `${name} ${count(number)}`).join(", ") || "none"],
    ["With TLS", count(now.tls_connections)],
    ["Subscriptions", `${count(now.subscriptions)}, to ${count(now.filters)} filters`],
    ["Topics", `${count(now.topics)}, ${count(now.retained)} with a retained message`],
    ["Log", `${size(now.log_bytes)} in memory, ${size(now.disk_bytes)} on disk`],
    ["Published", `${count(now.total.published)} since the start`],
    ["Delivered", `${count(now.total.delivered)} since the start`],
  ];
}

function componentsOf(now) {
  const all = sum(now.memory);
  const rows = Object.entries(now.memory).filter(([, bytes]) => bytes > 0).sort((one, other) => other[1] - one[1]);
  const columns = [
    { name: "Component", of: ([name]) => name.replaceAll("_", " ") },
    { name: "Bytes", of: ([, bytes]) => size(bytes), kind: "number" },
    { name: "Share", of: ([name, bytes]) => meter(name, (bytes * 100) / all), kind: "wide" },
  ];
  return table("Memory by component", columns, rows, "Nothing yet.");
}

function meter(name, percent) {
  const filled = make("i");
  // The policy forbids style attributes, and not this.
  filled.style.width = `${percent.toFixed(1)}%`;
  return make("span", { class: "bar", role: "meter", "aria-label": name, "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": percent.toFixed(0), title: `${percent.toFixed(1)} %` }, filled);
}
