// Connections: search, show one with its subscriptions, close it.
import { ask } from "./api.js";
import { searched } from "./search.js";
import { address, count, field, make, outcome, size, span, states, table, yesNo } from "./view.js";

export function connections(view, tell, { isLagging = false } = {}) {
  const from = make("input", { name: "address", placeholder: "192.0.2.0/24", autocomplete: "off", spellcheck: "false" });
  const sub = make("input", { name: "sub", autocomplete: "off", spellcheck: "false" });
  const protocol = make("select", { name: "protocol" }, make("option", { value: "" }, "any"), ...["native", "json", "events", "echo", "http"].map((name) => make("option", {}, name)));
  const lagging = make("input", { type: "checkbox", name: "lagging" });
  lagging.checked = isLagging;
  const wanted = () => ({ address: from.value.trim(), sub: sub.value, protocol: protocol.value, lagging: lagging.checked });
  const name = isLagging ? "lagging" : "connections";
  const columns = [
    { name: "Connection", of: ({ id }) => make("a", { href: address(name, id), "aria-label": `Show connection ${id}` }, id), by: ({ id }) => id },
    { name: "Protocol", of: ({ protocol: spoken, tls }) => `${spoken}${tls ? ", TLS" : ""}`, by: (row) => row.protocol },
    { name: "Address", of: (row) => row.address, kind: "mono", by: (row) => row.address ?? "" },
    { name: "Subject", of: (row) => row.sub, kind: "wide", by: (row) => row.sub ?? "" },
    { name: "Session", of: (row) => span(row.session_age_s), kind: "number", by: (row) => row.session_age_s },
    { name: "Subscriptions", of: ({ subscriptions }) => count(subscriptions), kind: "number", by: (row) => row.subscriptions },
    { name: "Waiting", of: ({ outbox }) => (outbox.frames ? `${count(outbox.frames)}, ${size(outbox.bytes)}` : "0"), kind: "number", by: ({ outbox }) => outbox.bytes },
    { name: "State", of: states, by: (row) => Number(row.lagging) + 2 * Number(row.blocked) + 4 * Number(row.closing) },
  ];
  const fields = [
    field("Address or network", from),
    field("Subject begins with", sub),
    field("Protocol", protocol),
    isLagging ? null : field("Lagging only", lagging, "box"),
  ];
  const empty = isLagging ? "Every client keeps up." : "No such connection.";
  const { form, results, look } = searched({ name: "Connections", path: "/api/v1/connections", member: "connections", columns, empty, wanted }, fields, tell);
  view.append(make("h2", {}, isLagging ? "Lagging clients" : "Connections"), form, ...results);
  return { look, everyMs: isLagging ? 2000 : 5000 };
}

// Fills a dialog with one connection; `done` closes it after the connection has been ended.
export async function showConnection(id, { body, done }) {
  const path = `/api/v1/connections/${encodeURIComponent(id)}`;
  const connection = await ask(path);
  const page = await ask(`${path}/subscriptions?limit=100`);
  const facts = [
    ["Protocol", connection.protocol],
    ["TLS", yesNo(connection.tls)],
    ["Address", connection.address],
    ["Subject", connection.sub],
    ["Credential expires", connection.expires === null ? null : new Date(connection.expires * 1000).toISOString()],
    ["Session", connection.session_age_s === null ? null : `for ${span(connection.session_age_s)}`],
    ["Ping", connection.ping_interval_s ? `after ${span(connection.ping_interval_s)} of silence` : "never"],
    ["Waiting for the socket", `${count(connection.outbox.frames)} frames, ${size(connection.outbox.bytes)}`],
  ].filter(([, text]) => text !== null && text !== undefined);
  const said = outcome();
  const end = (mayReturn) => async () => {
    try {
      await ask(`${path}?return=${mayReturn}`, { method: "DELETE" });
      done();
    } catch (error) {
      said.show("bad", error.message);
    }
  };
  const columns = [
    { name: "Number", of: ({ number }) => count(number), kind: "number", by: ({ number }) => number },
    { name: "Topic or filter", of: ({ topic, filter }) => (topic && !filter ? make("a", { href: address("topics", topic) }, topic) : filter), kind: "mono", by: ({ topic, filter }) => filter ?? topic ?? "" },
    { name: "Stage", of: ({ stage }) => stage, by: ({ stage }) => stage },
    { name: "Position", of: ({ position }) => position, kind: "mono" },
    { name: "When lagging", of: ({ when_lagging: policy }) => policy, by: ({ when_lagging: policy }) => policy },
  ];
  const shown = page.subscriptions.length < connection.subscriptions ? `${count(page.subscriptions.length)} of ` : "";
  body.append(
    make("dl", {}, ...facts.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]), make("dt", {}, "State"), make("dd", {}, states(connection))),
    make("h3", {}, `Subscriptions (${shown}${count(connection.subscriptions)})`),
    table("Subscriptions", columns, page.subscriptions, "No subscriptions."),
    said.line,
  );
  return {
    title: `Connection ${id}`,
    actions: [
      make("button", { class: "bad", type: "button", onclick: end(false) }, "Disconnect"),
      make("button", { type: "button", onclick: end(true) }, "Disconnect, allow reconnect"),
    ],
  };
}
