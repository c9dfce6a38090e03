// The nodes of the cluster, as they report themselves. The view is offered by a node that is in one.
import { ask } from "./api.js";
import { count, make, span, swap, table } from "./view.js";

const STATES = [["gone", "bad"], ["draining", "warn"], ["living", ""]];

function stateOf({ is_living: isLiving, is_draining: isDraining }) {
  const [name, kind] = STATES[isLiving ? (isDraining ? 1 : 2) : 0];
  return make("span", { class: `tag ${kind}` }, name);
}

const seconds = (ms) => span(Math.floor(ms / 1000));

export function cluster(view, tell) {
  const place = make("div");
  view.append(make("h2", {}, "Cluster"), place);
  const sorting = {};
  const columns = [
    { name: "Node", of: ({ name, is_this_node: isOwn }) => (isOwn ? `${name} (this one)` : name), by: ({ name }) => name },
    { name: "State", of: stateOf, by: ({ is_living: isLiving }) => Number(isLiving) },
    { name: "Address", of: ({ address }) => address || null, kind: "mono" },
    { name: "Version", of: ({ version }) => version, by: ({ version }) => version },
    { name: "Connections", of: ({ connections }) => count(connections), kind: "number", by: ({ connections }) => connections },
    { name: "Records behind", of: ({ lag_records: lag }) => count(lag), kind: "number", by: ({ lag_records: lag }) => lag },
    { name: "Engine silent for", of: ({ engine_silence_ms: ms }) => seconds(ms), kind: "number", by: ({ engine_silence_ms: ms }) => ms },
    { name: "Last report", of: ({ report_age_ms: ms }) => `${seconds(ms)} ago`, kind: "number", by: ({ report_age_ms: ms }) => ms },
  ];
  async function look() {
    const { nodes, accepts_tokens: acceptsTokens, silence_ms: silence } = await ask("/api/v1/cluster");
    const living = nodes.filter(({ is_living: isLiving }) => isLiving);
    const versions = new Set(living.map(({ version }) => version)).size;
    const connections = living.reduce((all, node) => all + node.connections, 0);
    const summary = `${count(living.length)} of ${count(nodes.length)} nodes live, with ${count(connections)} connections${versions > 1 ? ` and ${versions} versions` : ""}.`;
    const warning = acceptsTokens ? null : make("p", { class: "bad" }, `This node has not read its own report for ${seconds(silence)}, so it may not know what others have revoked: it refuses tokens.`);
    swap(place, make("p", {}, summary), warning, table("Nodes", columns, nodes, "No node has reported itself yet.", sorting));
    tell();
  }
  return { look, everyMs: 2000 };
}
