// Connections: search, look at one and what it is subscribed to, end it.
import { ask } from "./api.js";
import { searched } from "./search.js";
import { count, field, make, openDialog, outcome, size, span, states, table, yesNo } from "./view.js";

export function connections(view, tell, { isLagging = false } = {}) {
  const address = make("input", { name: "address", placeholder: "192.0.2.0/24", autocomplete: "off", spellcheck: "false" });
  const sub = make("input", { name: "sub", autocomplete: "off", spellcheck: "false" });
  const protocol = make("select", { name: "protocol" }, make("option", { value: "" }, "any"), ...["native", "events", "echo", "http"].map((name) => make("option", {}, name)));
  const lagging = make("input", { type: "checkbox", name: "lagging" });
  lagging.checked = isLagging;
  const wanted = () => ({ address: address.value.trim(), sub: sub.value, protocol: protocol.value, lagging: lagging.checked });
  const columns = [
    { name: "Connection", of: ({ id }) => make("button", { class: "link", type: "button", "aria-label": `Show connection ${id}`, onclick: () => showConnection(id, again) }, id) },
    { name: "Protocol", of: ({ protocol: spoken, tls }) => `${spoken}${tls ? ", TLS" : ""}` },
    { name: "Address", of: ({ address: from }) => from, kind: "mono" },
    { name: "Subject", of: (row) => row.sub },
    { name: "Subscriptions", of: ({ subscriptions }) => count(subscriptions), kind: "number" },
    { name: "Waiting", of: ({ outbox }) => (outbox.frames ? `${count(outbox.frames)}, ${size(outbox.bytes)}` : "0"), kind: "number" },
    { name: "State", of: states },
  ];
  const fields = [
    field("Address or network", address),
    field("Subject begins with", sub),
    field("Protocol", protocol),
    isLagging ? null : field("Lagging only", lagging, "box"),
  ];
  const empty = isLagging ? "Every client keeps up." : "No such connection.";
  const { form, results, look, again } = searched({ name: "Connections", path: "/api/v1/connections", member: "connections", columns, empty, wanted }, fields, tell);
  view.append(make("h2", {}, isLagging ? "Lagging clients" : "Connections"), form, ...results);
  return { look, everyMs: isLagging ? 2000 : null };
}

async function showConnection(id, changed) {
  const path = `/api/v1/connections/${id}`;
  let connection;
  let page;
  try {
    connection = await ask(path);
    page = await ask(`${path}/subscriptions?limit=100`);
  } catch (error) {
    openDialog(`Connection ${id}`, (body, close) => body.append(make("p", {}, error.message), make("button", { type: "button", onclick: close }, "Close")));
    return;
  }
  openDialog(`Connection ${id}`, (body, close) => {
    const facts = [
      ["Protocol", connection.protocol],
      ["TLS", yesNo(connection.tls)],
      ["Address", connection.address],
      ["Subject", connection.sub],
      ["Credential expires", connection.expires === null ? null : new Date(connection.expires * 1000).toISOString()],
      ["Session", connection.session_age_s === null ? null : `for ${span(connection.session_age_s)}`],
      ["Asked for a sign of life", connection.ping_interval_s ? `after ${span(connection.ping_interval_s)} of silence` : "never"],
      ["Waiting for its socket", `${count(connection.outbox.frames)} frames, ${size(connection.outbox.bytes)}`],
    ].filter(([, text]) => text !== null && text !== undefined);
    const said = outcome();
    const end = (mayReturn) => async () => {
      try {
        await ask(`${path}?return=${mayReturn}`, { method: "DELETE" });
        close();
        changed();
      } catch (error) {
        said.show("bad", error.message);
      }
    };
    const columns = [
      { name: "Number", of: ({ number }) => count(number), kind: "number" },
      { name: "Topic or filter", of: ({ topic, filter }) => filter ?? topic, kind: "mono" },
      { name: "Stage", of: ({ stage }) => stage },
      { name: "Position", of: ({ position }) => position, kind: "mono" },
      { name: "When lagging", of: ({ when_lagging: policy }) => policy },
    ];
    body.append(
      make("dl", {}, ...facts.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]), make("dt", {}, "State"), make("dd", {}, states(connection))),
      make("h3", {}, `Subscriptions (${count(connection.subscriptions)})`),
      table("Subscriptions", columns, page.subscriptions, "It is subscribed to nothing."),
      said.line,
      make(
        "div",
        { class: "actions" },
        make("button", { class: "bad", type: "button", onclick: end(false) }, "Disconnect"),
        make("button", { type: "button", onclick: end(true) }, "Disconnect, may return"),
        make("button", { type: "button", onclick: close }, "Close"),
      ),
    );
  });
}
