// The page's frame: which view is shown, which dialog is open, whether the node answers. Addresses
// are `#/VIEW` and `#/VIEW/ITEM`, where the item (a connection's id, a topic's name) is shown in a
// dialog over the view.
import { ask } from "./api.js";
import { cluster } from "./cluster.js";
import { connections, showConnection } from "./connections.js";
import { limits, logs, rules } from "./lists.js";
import { overview } from "./overview.js";
import { showTopic, topics } from "./topics.js";
import { field, make, outcome } from "./view.js";

// A view is made by `view`; a dialog with an item of it is filled by `item`.
const VIEWS = {
  overview: { view: overview },
  connections: { view: connections, item: showConnection },
  lagging: { view: (place, tell) => connections(place, tell, { isLagging: true }), item: showConnection },
  topics: { view: topics, item: showTopic },
  rules: { view: rules },
  limits: { view: limits },
  logs: { view: logs },
  cluster: { view: cluster },
};

const element = (id) => document.getElementById(id);
const dialog = element("dialog");
let timer = null;
// What the address says; null before the first view.
let shown = null;
// Answers that come after their view has gone change nothing.
let turnNumber = 0;
let refresh = () => {};
// The view was shown before the dialog: to close the dialog is to go back.
let hasCome = false;

start();

async function start() {
  let refusal = "";
  const link = new URLSearchParams(location.hash.slice(1)).get("link");
  if (link) {
    // The secret works once; the history keeps no address with it.
    history.replaceState(null, "", location.pathname);
    await ask("/api/v1/session", { method: "POST", body: { link } }).catch((error) => (refusal = error.message));
  }
  try {
    const facts = await ask("/page.json");
    element("node").textContent = facts.node === "crore" ? facts.version : `${facts.version} · ${facts.node}`;
    element("cluster").hidden = !facts.is_in_cluster;
    document.title = `${facts.node}: administration`;
    const session = await ask("/api/v1/session");
    element("leave").hidden = !session.needs_api_key || !session.may_operate;
    if (session.may_operate) enter();
    else login(refusal);
  } catch (error) {
    setState("bad", error.message);
    timer = setTimeout(start, 3000);
  }
}

function enter() {
  element("views").hidden = false;
  window.addEventListener("hashchange", show);
  show();
}

function wanted() {
  const [, name, rest] = /^#\/([a-z]+)(?:\/(.+))?$/.exec(location.hash) ?? [];
  if (!Object.hasOwn(VIEWS, name ?? "")) return { name: "overview", item: null };
  let item = null;
  try {
    item = rest && VIEWS[name].item ? decodeURIComponent(rest) : null;
  } catch {
    item = null; // no text in UTF-8
  }
  return { name, item };
}

function show() {
  // The link that skips to the content.
  if (location.hash === "#view") return element("view").focus();
  const before = shown;
  shown = wanted();
  if (before?.name !== shown.name) showView(shown.name);
  if (shown.item === null) {
    hasCome = false;
    if (dialog.open) dialog.close();
  } else if (before?.item !== shown.item || !dialog.open) {
    hasCome ||= before !== null && before.name === shown.name && before.item === null;
    showItem(shown);
  }
}

function showView(name) {
  clearTimeout(timer);
  turnNumber += 1;
  const mine = turnNumber;
  for (const link of element("views").querySelectorAll("a")) {
    if (link.hash === `#/${name}`) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  const view = element("view");
  view.replaceChildren();
  const tell = () => {
    if (mine === turnNumber) setState("good", "Connected");
  };
  const { look, everyMs } = VIEWS[name].view(view, tell);
  const turn = async () => {
    clearTimeout(timer);
    try {
      await look();
    } catch (error) {
      if (mine !== turnNumber) return;
      if (error.status === 401) return login();
      setState("bad", error.message);
    }
    if (mine === turnNumber && everyMs !== null) timer = setTimeout(turn, everyMs);
  };
  refresh = turn;
  turn();
}

// The dialog closes by the address alone: so Back closes it too, and a link to it can be given to
// others.
function leaveItem() {
  if (shown?.item === null || wanted().item === null) return;
  if (hasCome) history.back();
  else location.replace(`#/${shown.name}`);
}

async function showItem({ name, item }) {
  const title = make("h2", { id: "dialog-title", tabindex: "-1", autofocus: true });
  const body = make("div", { class: "body" });
  const close = make("button", { type: "button", onclick: leaveItem }, "Close");
  const isShown = () => shown.item === item && shown.name === name;
  const done = () => {
    leaveItem();
    refresh();
  };
  try {
    const made = await VIEWS[name].item(item, { body, done });
    if (!isShown()) return;
    title.textContent = made.title;
    dialog.replaceChildren(title, body, make("div", { class: "actions" }, ...made.actions, close));
  } catch (error) {
    if (!isShown()) return;
    if (error.status === 401) return login();
    title.textContent = item;
    dialog.replaceChildren(title, make("div", { class: "body" }, make("p", {}, error.message)), make("div", { class: "actions" }, close));
  }
  if (!dialog.open) dialog.showModal();
}

dialog.addEventListener("close", leaveItem);

function login(refusal = "") {
  clearTimeout(timer);
  turnNumber += 1;
  window.removeEventListener("hashchange", show);
  if (dialog.open) dialog.close();
  element("views").hidden = true;
  element("leave").hidden = true;
  setState("waiting", "Log in with an API key");
  const key = make("input", { type: "password", name: "api_key", required: true, autocomplete: "current-password", spellcheck: "false" });
  const said = outcome();
  const submit = async (event) => {
    event.preventDefault();
    try {
      await ask("/api/v1/session", { method: "POST", body: { api_key: key.value } });
      key.value = "";
      location.reload();
    } catch (error) {
      said.show("bad", error.message);
    }
  };
  element("view").replaceChildren(
    make("h2", {}, "Log in"),
    make("form", { class: "sheet", "aria-label": "Log in", onsubmit: submit }, field("API key of an operator", key), make("button", { class: "main", type: "submit" }, "Log in"), said.line),
    make("p", {}, "Without a key: ", make("code", {}, "crore login"), ", on the node's machine, prints a link."),
  );
  if (refusal) said.show("bad", refusal);
  key.focus();
}

element("leave").addEventListener("click", async () => {
  await ask("/api/v1/session", { method: "DELETE" }).catch(() => {});
  location.reload();
});

function setState(state, text) {
  const line = element("state");
  // A status that says the same again is read aloud again.
  if (line.textContent !== text) line.textContent = text;
  line.dataset.state = state;
}
