"use strict";
// Draws a report of `crore bench run` from the data beside it. Values come from files of our own, but they are put in as
// text only.
const report = JSON.parse(document.getElementById("data").textContent);
const root = document.getElementById("report");

const element = (name, attributes, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};
const SVG = "http://www.w3.org/2000/svg";
const shape = (name, attributes, text) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

const is = (value) => value !== null && value !== undefined;
const count = (value) => (is(value) ? Math.round(value).toLocaleString("en-US") : "");
const figure = (value) => {
  if (!is(value)) return "";
  const size = Math.abs(value);
  if (size >= 1000) return count(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
};
// With a unit a space stands between: 50k, 20 MB.
const brief = (value, of = "") => {
  const size = Math.abs(value);
  const space = of ? " " : "";
  for (const [unit, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return `${+(value / unit).toPrecision(3)}${space}${name}${of}`;
  }
  return `${+value.toPrecision(3)}${space}${of}`;
};
const micros = (value) => {
  if (!is(value)) return "";
  const [scaled, unit] = value >= 1e6 ? [value / 1e6, "s"] : value >= 1e3 ? [value / 1e3, "ms"] : [value, "µs"];
  return `${+scaled.toPrecision(3)} ${unit}`;
};
const bytes = (value) => (is(value) ? brief(value, "B") : "");
const seconds = (value) => {
  if (value < 120) return `${+value.toFixed(1)} s`;
  const minutes = Math.floor(value / 60);
  const rest = Math.round(value % 60);
  return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
};

function table(heading, rows) {
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    row.forEach((cell, place) => {
      const isText = place > 0 && typeof cell === "object" && cell !== null && "text" in cell;
      line.append(element("td", isText ? { class: "text" } : {}, isText ? cell.text : cell));
    });
    body.append(line);
  }
  const made = element("table", heading ? {} : { class: "pairs" });
  if (heading) {
    made.append(element("thead", {}, element("tr", {}, ...heading.map((text) => element("th", {}, text)))));
  }
  made.append(body);
  return element("div", { class: "sheet scroll" }, made);
}

function section(title, ...content) {
  const kept = content.filter(is);
  if (kept.length) root.append(element("h2", {}, title), ...kept);
}

// A scale: from a value to a place, and the values that have a line.
function scale(low, high, from, to, isLog) {
  const turn = isLog ? Math.log10 : (value) => value;
  const [first, last] = [turn(low), turn(high)];
  const span = last - first || 1;
  const ticks = [];
  if (isLog) {
    for (let power = Math.floor(first); power <= Math.ceil(last); power += 1) {
      const value = 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
    }
  } else {
    const raw = (high - low || 1) / 5;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * unit).find((value) => value >= raw);
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) ticks.push(value);
  }
  const place = (value) => from + ((turn(value) - first) / span) * (to - from);
  return { place, ticks };
}

// A chart: series of [x, y] with y perhaps missing. The key below tells the values where the pointer is.
function chart(title, about, series, options) {
  const shown = series.filter((one) => one.points.some((point) => is(point[1])));
  if (!shown.length) return null;
  const [width, height, left, right, top, bottom] = [560, 250, 58, 12, 10, 26];
  const all = shown.flatMap((one) => one.points.filter((point) => is(point[1])));
  const xs = all.map((point) => point[0]);
  const ys = all.map((point) => point[1]).filter((value) => !options.log || value > 0);
  if (!ys.length) return null;
  let [low, high] = [Math.min(...ys), Math.max(...ys)];
  if (options.log) {
    [low, high] = [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high))];
    if (low === high) high *= 10;
  } else {
    [low, high] = [Math.min(0, low), high > 0 ? high * 1.06 : 1];
  }
  const x = scale(Math.min(...xs), Math.max(...xs), left, width - right, options.logX);
  const y = scale(low, high, height - bottom, top, options.log);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  for (const band of options.bands || []) {
    const [from, until] = [Math.max(band.from_s, Math.min(...xs)), Math.min(band.until_s, Math.max(...xs))];
    if (until > from) {
      const at = x.place(from);
      svg.append(shape("rect", { class: "band", x: at, y: top, width: x.place(until) - at, height: height - top - bottom }));
    }
  }
  for (const value of y.ticks) {
    const at = y.place(value);
    svg.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }));
    svg.append(shape("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, options.y(value)));
  }
  for (const [value, text] of options.xTicks || x.ticks.map((value) => [value, options.x(value)])) {
    const at = x.place(value);
    if (at < left - 1 || at > width - right + 1) continue;
    const anchor = at > width - 40 ? "end" : at < left + 12 ? "start" : "middle";
    svg.append(shape("text", { x: at, y: height - 8, "text-anchor": anchor }, text));
  }
  for (const one of shown) {
    let path = "";
    let isOpen = false;
    for (const [atX, value] of one.points) {
      if (!is(value) || (options.log && value <= 0)) {
        isOpen = isOpen && options.bridge;
        continue;
      }
      path += `${isOpen ? "L" : "M"}${x.place(atX).toFixed(1)} ${y.place(value).toFixed(1)}`;
      isOpen = true;
    }
    svg.append(shape("path", { class: `c${one.color}`, d: path, "stroke-linecap": "round" }));
  }
  const cross = shape("line", { class: "cross", y1: top, y2: height - bottom });
  svg.append(cross);
  const key = element("div", { class: "key" });
  const tell = (at) => {
    key.replaceChildren();
    if (is(at)) key.append(element("b", {}, options.x(at)));
    for (const one of shown) {
      const item = element("span", {}, element("i", { class: `k${one.color}` }), one.name);
      if (is(at)) {
        const known = one.points.filter((point) => is(point[1]));
        const near = known.reduce((best, point) => (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best), known[0]);
        item.append(" ", element("b", {}, options.y(near[1])));
      }
      key.append(item);
    }
  };
  tell(null);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * width;
    const points = shown[0].points;
    const near = points.reduce((best, point) => (Math.abs(x.place(point[0]) - wanted) < Math.abs(x.place(best[0]) - wanted) ? point : best), points[0]);
    cross.setAttribute("x1", x.place(near[0]));
    cross.setAttribute("x2", x.place(near[0]));
    cross.style.visibility = "visible";
    tell(near[0]);
  });
  svg.addEventListener("pointerleave", () => {
    cross.style.visibility = "hidden";
    tell(null);
  });
  return element("div", { class: "sheet" }, element("h3", {}, title), element("p", { class: "faint small" }, about), svg, key);
}

function head() {
  const { completeness, trouble, plan, machine } = report;
  const header = element("header", {},
    element("h1", {}, report.title),
    element("p", { class: "faint" }, `crore bench run ${report.name} · ${report.began} · ${report.version}`),
    element("p", {}, report.what));
  const isGood = completeness.is_complete && !trouble;
  const verdict = trouble ? `The run did not come to its end: ${trouble}`
    : isGood ? "Complete: every message arrived once and in order" : `NOT COMPLETE: ${completeness.why.join("; ")}`;
  header.append(element("div", { class: isGood ? "verdict" : "verdict bad" }, verdict));
  const where = [machine.processor, `${machine.cores} cores`, is(machine.memory_bytes) ? bytes(machine.memory_bytes) : null,
    machine.kernel ? `Linux ${machine.kernel}` : null].filter(is).join(" · ");
  header.append(element("p", { class: "faint small" }, where));
  root.append(header);
  const { measured, memory, connect, storm } = report;
  const tiles = [
    [count(plan.size.clients), plan.size.clients === plan.clients_published ? "clients" : `clients, ${figure((plan.size.clients * 100) / plan.clients_published)} % of the full ${count(plan.clients_published)}`],
    measured ? [`${count(measured.delivered_rate)}/s`, "messages delivered"] : null,
    measured && measured.latency.count ? [micros(measured.latency.mean_us), "mean latency"] : null,
    measured && measured.latency.count ? [micros(measured.latency.p99_us), "p99 latency of all messages"] : null,
    measured && measured.latency.count ? [micros(measured.latency.max_us), "max latency of all messages"] : null,
    storm ? [micros(storm.back.max_us), "until the last client was live again"] : null,
    measured && is(measured.server_cpu) ? [`${figure(measured.server_cpu * 100)} %`, "CPU of the server (100 % is one core)"] : null,
    connect ? [`${count(connect.rate)}/s`, "connections made"] : null,
    memory && is(memory.user_slope_bytes ?? memory.user_bytes)
      ? [`${count(memory.user_slope_bytes ?? memory.user_bytes)} B`, is(memory.user_slope_bytes) ? "user space per further connection" : "user space per connection"] : null,
  ].filter(is);
  const row = element("div", { class: "tiles" }, ...tiles.map(([big, small]) => element("div", { class: "tile sheet" }, element("b", {}, big), element("span", {}, small))));
  // One row, or two of the same length as far as the number allows.
  row.style.setProperty("--columns", tiles.length <= 5 ? tiles.length : Math.ceil(tiles.length / 2));
  root.append(row);
}

// Without a published peer the tiles above have said it.
function comparison() {
  const { published } = report;
  if (!published || !report.comparison.length) return;
  const rows = report.comparison.map((row) => {
    const bound = row.is_bound && is(row.published) ? "< " : "";
    return [row.unit ? `${row.what}, ${row.unit}` : row.what, figure(row.ours), `${bound}${figure(row.published)}`, is(row.factor) ? `${+row.factor.toPrecision(3)}` : ""];
  });
  const on = published.machine ? ` on ${published.machine}` : "";
  const note = published.note ? ` ${published.note}` : "";
  section("Beside published figures", table(["", "this run", "published", "factor"], rows),
    element("p", { class: "faint small" }, `Published: ${published.of}${on}. Blank: not published. Factor: this run divided by published.${note}`));
}

function charts() {
  const { samples, phases, measured, hiccups } = report;
  const bands = phases.filter((phase) => phase.name === "measure");
  const line = (name, color, pick) => ({ name, color, points: samples.map((sample) => [sample.at_s, pick(sample)]) });
  const time = { x: (value) => seconds(value), bands };
  const base = samples.length ? samples[0].slab : null;
  const kernel = (sample) => (is(sample.slab) && is(base) ? Math.max(0, sample.slab - base) : null);
  const cards = [
    chart("Latency over time", "Of each interval; from the intended send time to the receipt, every message.", [
      line("max", 2, (sample) => sample.max_us), line("p99", 3, (sample) => sample.p99_us), line("p50", 1, (sample) => sample.p50_us),
    ], { ...time, y: micros, log: true, bridge: true }),
    distribution(measured, hiccups),
    chart("Connections", "Open, and live: subscribed, and nothing left to replay.", [
      line("open", 1, (sample) => sample.connections), line("live", 4, (sample) => (samples.some((one) => one.live) ? sample.live : null)),
    ], { ...time, y: (value) => brief(value) }),
    chart("Received", "Messages per second, all clients together.", [
      line("received", 1, (sample) => sample.received_rate),
    ], { ...time, y: (value) => `${brief(value)}/s` }),
    chart("Sent", "Messages per second, all publishers together.", [
      line("sent", 2, (sample) => sample.sent_rate),
    ], { ...time, y: (value) => `${brief(value)}/s` }),
    chart("CPU", "100 % is one core: user and system time of the processes.", [
      line("server", 1, (sample) => sample.server_cpu), line("load generators", 2, (sample) => sample.clients_cpu), line("stolen by the hypervisor", 3, (sample) => sample.steal),
    ], { ...time, y: (value) => `${+(value * 100).toPrecision(3)} %` }),
    chart("Memory of the server, user space", "Proportional set size: pages that processes share count in part.", [
      line("server", 1, (sample) => sample.server_pss), line("load generators", 2, (sample) => sample.clients_pss),
    ], { ...time, y: bytes }),
    chart("Memory of the kernel", "Of the whole machine, both ends of each connection: slab beyond that of the start, and TCP buffers.", [
      line("slab", 1, kernel), line("TCP buffers", 2, (sample) => sample.tcp),
    ], { ...time, y: bytes }),
  ].filter(is);
  if (cards.length) {
    section("Over time", element("p", { class: "faint small" }, "The shaded part is the measured span."), element("div", { class: "charts" }, ...cards));
  }
}

function distribution(measured, hiccups) {
  const series = [];
  // The tail is what matters: equal steps for each nine. What is 1.0 has its place behind the last step.
  const points = (steps) => {
    const last = steps.length > 1 ? steps[steps.length - 2][0] : 0;
    // What is below a microsecond is no more than the clock's own.
    return steps.map(([share, value]) => [1 / (1 - Math.min(share, 1 - (1 - last) / 2)), Math.max(value, 1)]);
  };
  if (measured && measured.distribution.length) series.push({ name: "latency", color: 1, points: points(measured.distribution) });
  if (hiccups && hiccups.distribution.length) series.push({ name: "hiccup meter", color: 3, points: points(hiccups.distribution) });
  if (!series.length) return null;
  const percent = (value) => {
    const share = 100 - 100 / value;
    return `${+share.toPrecision(Math.max(3, Math.ceil(Math.log10(value)) + 2))} %`;
  };
  const xTicks = [[1, "0 %"], [10, "90 %"], [100, "99 %"], [1e3, "99.9 %"], [1e4, "99.99 %"], [1e5, "99.999 %"], [1e6, "99.9999 %"], [1e7, "99.99999 %"]];
  return chart("Distribution", "At 99 %: the latency that 99 of 100 messages did not exceed. The hiccup meter is a thread that only wakes up each millisecond: its curve is the delay of the machine itself.", series,
    { x: percent, y: micros, log: true, logX: true, xTicks });
}

function digests() {
  const { measured, hiccups, connect, storm } = report;
  const rows = [];
  let hasFew = false;
  // Of few values a high percentile is the greatest one.
  const least = { p95_us: 20, p99_us: 100, p999_us: 1000 };
  const add = (name, digest) => {
    if (!digest || !digest.count) return;
    const cell = (field) => {
      if (digest.count >= (least[field] ?? 0)) return micros(digest[field]);
      hasFew = true;
      return "max";
    };
    rows.push([name, count(digest.count), ...["min_us", "mean_us", "stdev_us", "p50_us", "p95_us", "p99_us", "p999_us", "max_us"].map(cell)]);
  };
  if (measured) {
    add("delivery", measured.latency);
    add("last of all receivers", measured.last_receiver);
    add("acknowledgement to the publisher", measured.acknowledgement);
    add("publisher behind its schedule", measured.send_delay);
  }
  if (hiccups) add("hiccup meter", hiccups.late);
  if (storm) add("until live again", storm.back);
  if (connect) add("connect and handshake", connect.time);
  const parts = [rows.length ? table(["", "count", "min", "mean", "stdev", "p50", "p95", "p99", "p99.9", "max"], rows) : null];
  if (hasFew) parts.push(element("p", { class: "faint small" }, "max: there are too few values for this percentile; it is the maximum."));
  if (measured && measured.sample) {
    const { clients, messages, p50_us: p50, p95_us: p95, p99_us: p99 } = measured.sample;
    parts.push(element("p", { class: "faint small" }, `A sample of ${count(clients)} clients (${count(messages)} messages of the measured span): p50 ${micros(p50)}, p95 ${micros(p95)}, p99 ${micros(p99)}.`));
  }
  section("All times", ...parts);
}

function storm() {
  const found = report.storm;
  if (!found) return;
  const rows = [
    ["outage of", found.has_killed_server ? "the server: killed, and started again with its log on disk" : "all clients; the server went on"],
    ["away for", seconds(found.away_s)],
    ["ready again after its start", is(found.restart_s) ? seconds(found.restart_s) : ""],
    ["clients live again", count(found.back.count)],
    ["p50 / p99 / the last", `${micros(found.back.p50_us)} / ${micros(found.back.p99_us)} / ${micros(found.back.max_us)}`],
    ["the last, since the server was ready", is(found.last_since_ready_s) ? seconds(found.last_since_ready_s) : ""],
    ["messages recovered", count(found.recovered)],
    ["connects that failed", count(found.connects_failed)],
    ["CPU of the server per client", is(found.server_cpu_us) ? micros(found.server_cpu_us) : ""],
  ];
  section("The storm", table(null, rows.filter((row) => row[1] !== "")));
}

function steps() {
  if (!report.steps.length) return;
  const rows = report.steps.map((step) => [count(step.rate), count(step.sent_rate), micros(step.latency.p50_us), micros(step.latency.p99_us), micros(step.latency.max_us), { text: step.is_good ? "sustained" : step.why }]);
  section("Steps to the sustainable rate", table(["asked, /s", "sent, /s", "p50", "p99", "max", ""], rows),
    is(report.sustainable_rate) ? element("p", {}, `Sustained: ${count(report.sustainable_rate)} messages/s; measured at half of it.`) : null);
}

function costs() {
  const { connect, memory, measured } = report;
  const rows = [];
  const add = (name, value) => {
    if (value) rows.push([name, value]);
  };
  if (connect) {
    add("connections made", `${count(connect.connections)} in ${seconds(connect.seconds)}`);
    add("CPU of the server per connection", is(connect.server_cpu_us) ? micros(connect.server_cpu_us) : "");
    add("CPU of the load generator per connection", is(connect.client_cpu_us) ? micros(connect.client_cpu_us) : "");
    add("connects that failed", connect.failed ? count(connect.failed) : "");
  }
  if (memory) {
    add("user space before the first connection", bytes(memory.start_pss));
    add("user space with all connections", bytes(memory.settled_pss));
    add("user space at the end", bytes(memory.end_pss));
    add("user space per connection, fixed part included", is(memory.user_bytes) ? `${count(memory.user_bytes)} B` : "");
    add("user space per further connection", is(memory.user_slope_bytes) ? `${count(memory.user_slope_bytes)} B` : "");
    add(report.plan.own_tcp ? "kernel memory per connection" : "kernel memory per socket", is(memory.kernel_bytes) ? `${count(memory.kernel_bytes)} B` : "");
    add("load generator per connection", is(memory.client_bytes) ? `${count(memory.client_bytes)} B` : "");
    add("CPU of the server while idle", is(memory.idle_cpu) ? `${figure(memory.idle_cpu * 100)} % of a core` : "");
    add("threads of the server", count(memory.threads));
  }
  if (measured) {
    add("CPU of the server while measured", is(measured.server_cpu) ? `${figure(measured.server_cpu * 100)} % of a core, ${is(measured.server_system_cpu) ? `${figure(measured.server_system_cpu * 100)} % in the kernel` : ""}` : "");
    add("CPU of the server per delivery", is(measured.delivery_cpu_us) ? micros(measured.delivery_cpu_us) : "");
    add("CPU of the load generators", is(measured.clients_cpu) ? `${figure(measured.clients_cpu * 100)} % of a core` : "");
    add("CPU of the machine", is(measured.machine_cpu) ? `${figure(measured.machine_cpu * 100)} % of a core` : "");
    add("stolen by the hypervisor", is(measured.steal) ? `${figure(measured.steal * 100)} % of a core` : "");
  }
  section("What it cost", rows.length ? table(null, rows) : null);
}

function completeness() {
  const found = report.completeness;
  const rows = [
    ["messages sent", count(found.sent)],
    ["deliveries expected", count(found.expected)],
    ["different messages received", count(found.received)],
    ["due / received of the measured span", `${count(found.expected_measured)} / ${count(found.received_measured)}`],
    ["lost / repeated / out of order", `${count(found.faults.lost)} / ${count(found.faults.repeated)} / ${count(found.faults.out_of_order)}`],
    ["proofs of the server that failed", count(found.faults.proof_failed)],
    ["announced gaps / skips", `${count(found.gaps)} / ${count(found.skipped)}`],
    ["connections lost", count(found.connections_lost)],
    ["publications refused or unacknowledged", count(found.unacknowledged)],
    ["publications sent again", count(found.repeated_sends)],
  ];
  if (found.audit) {
    const { streams, complete, faulty, unanswered } = found.audit;
    rows.push(["streams audited", `${count(streams)}: ${count(complete)} complete, ${count(faulty)} faulty, ${count(unanswered)} unanswered`]);
  }
  section("Completeness", table(null, rows));
}

function configuration() {
  const { plan, limits } = report;
  const rows = [
    ["command", { text: element("code", {}, report.command_line) }],
    ["topics, clients on each", `${count(plan.size.topics)}, ${count(plan.size.group)}`],
    ["published / delivered", `${figure(plan.size.rate)}/s / ${figure(plan.size.deliveries_rate)}/s`],
    ["bytes of a message", count(plan.message_bytes)],
    ["transport", `${plan.transport}${plan.has_tls ? " over TLS" : ""}`],
    ["network of the subscribers", plan.own_tcp ? `Crore's own TCP over ${plan.own_tcp}` : "the kernel's sockets"],
    ["acknowledged", plan.is_once ? "yes, and exactly once" : plan.has_acknowledgements ? "yes" : "no"],
    ["settle, warm-up, measure", `${seconds(plan.settle_s)}, ${seconds(plan.warm_up_s)}, ${seconds(plan.duration_s)}`],
    ["connects", plan.connect_rate ? `${count(plan.connect_rate)}/s` : "as fast as it goes"],
    ["cores of the server / of its clients", plan.server_cores ? `${plan.server_cores} / ${plan.client_cores}` : "not pinned"],
    ["threads of the server / of its subscribers", `${is(plan.io_threads) ? count(plan.io_threads) : "?"} / ${count(plan.client_threads)}`],
    ["connections of the publishers", count(plan.publisher_connections)],
    ["source addresses", { text: plan.local_addresses || "the kernel's choice" }],
    plan.foreign_url ? ["server", { text: plan.foreign_url }] : null,
  ].filter(is);
  const server = plan.server_configuration
    ? element("div", { class: "sheet" }, element("h3", {}, "The server's configuration"), element("pre", {}, plan.server_configuration)) : null;
  const list = limits.length
    ? element("div", { class: "sheet" }, element("h3", {}, "What limits the size on this machine"),
      element("ul", {}, ...limits.map((limit) => element("li", {}, `${count(limit.clients)} clients by ${limit.why}`)))) : null;
  const gap = () => element("p", {});
  section("How it was done", table(null, rows), server && gap(), server, list && gap(), list);
  if (report.notes.length) section("Notes", element("ul", {}, ...report.notes.map((note) => element("li", {}, note))));
}

head();
comparison();
charts();
storm();
steps();
digests();
costs();
completeness();
configuration();
