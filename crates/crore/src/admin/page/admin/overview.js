// Live charts, and what is in memory.
import { ask } from "./api.js";
import { chart } from "./charts.js";
import { count, make, size, span, table } from "./view.js";

const perSecond = (number) => `${count(Math.round(number))}/s`;

const duration = (us) => (us < 1000 ? `${Math.round(us)} µs` : `${(us / 1000).toFixed(us < 10000 ? 1 : 0)} ms`);

// What half of the deliveries since the look before took at most, and 99 of 100; null where there were none.
function latency({ publish_to_write: now }, { publish_to_write: before }) {
  if (now.count < before.count) return null; // another process
  const counts = now.at_most.map((atMost, place) => atMost - before.at_most[place]);
  const all = now.count - before.count;
  return all === 0 ? null : [quantile(0.5), quantile(0.99)];

  // Within a bucket as if they were spread evenly over it.
  function quantile(share) {
    const wanted = share * all;
    const place = counts.findIndex((atMost) => atMost >= wanted);
    if (place < 0) return now.bounds_us.at(-1);
    const [from, below] = place === 0 ? [0, 0] : [now.bounds_us[place - 1], counts[place - 1]];
    return from + ((now.bounds_us[place] - from) * (wanted - below)) / (counts[place] - below);
  }
}

export function overview(view, tell) {
  const of = (name) => (now) => now[name];
  const rate = (name) => (now, before, seconds) => Math.max(0, now.total[name] - before.total[name]) / seconds;
  const charts = [
    [chart("Connections", count), of("connections")],
    [chart("Published", perSecond), rate("published")],
    [chart("Delivered", perSecond), rate("delivered")],
    [chart("Connects", perSecond), rate("accepted")],
    [chart("Written", (bytes) => `${size(Math.round(bytes))}/s`), rate("written_bytes")],
    [chart("Publish to write", duration, ["p50", "p99"]), latency],
    [chart("Subscriptions lagged", perSecond), rate("lagging")],
    [chart("Memory of messages and clients", size), (now) => sum(now.memory)],
  ];
  const figures = make("dl", { class: "sheet" });
  const memory = make("div");
  view.append(
    make("h2", {}, "Overview"),
    make("div", { class: "charts" }, ...charts.map(([{ element }]) => element)),
    figures,
    make("h3", {}, "Memory by component"),
    memory,
  );
  let before = null;
  async function look() {
    const now = { ...(await ask("/api/v1/statistics")), at: performance.now() };
    tell();
    const seconds = before ? (now.at - before.at) / 1000 : 0;
    for (const [drawn, value] of charts) {
      if (value.length === 1) drawn.add(value(now));
      else if (before) drawn.add(value(now, before, seconds));
    }
    before = now;
    showFigures(figures, now);
    showMemory(memory, now);
  }
  return { look, everyMs: 1000 };
}

const sum = (components) => Object.values(components).reduce((all, bytes) => all + bytes, 0);

function showFigures(list, now) {
  const { protocols } = now;
  const rows = [
    ["Up for", span(Math.floor(now.uptime_ms / 1000))],
    ["Threads", `${now.io_threads}${now.silent_threads ? `, ${now.silent_threads} do not answer` : ""}`],
    ["Connections", `${count(now.connections)} of at most ${count(now.connections_max)}`],
    ["By protocol", Object.entries(protocols).map(([name, number]) => `${name} ${count(number)}`).join(", ")],
    ["Subscriptions", `${count(now.subscriptions)}, to ${count(now.filters)} filters`],
    ["Topics", `${count(now.topics)}, ${count(now.retained)} with a retained message`],
    ["Log", `${size(now.log_bytes)} in memory, ${size(now.disk_bytes)} on disk`],
    ["Gaps told", count(now.total.gaps)],
    ["Too slow, ended", count(now.total.slow_closed)],
  ];
  list.replaceChildren(...rows.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
}

function showMemory(place, now) {
  const all = sum(now.memory);
  const rows = Object.entries(now.memory).filter(([, bytes]) => bytes > 0).sort((one, other) => other[1] - one[1]);
  const columns = [
    { name: "Component", of: ([name]) => name, kind: "mono" },
    { name: "Bytes", of: ([, bytes]) => size(bytes), kind: "number" },
    { name: "Share", of: ([name, bytes]) => make("meter", { min: 0, max: all, value: bytes, "aria-label": `${name}: ${Math.round((bytes * 100) / all)} %` }) },
  ];
  place.replaceChildren(table("Memory by component", columns, rows, "Nothing yet."));
}
