// The page's frame: which view is shown, who is logged in, whether the node answers.
import { ask } from "./api.js";
import { connections } from "./connections.js";
import { limits, logs, rules } from "./lists.js";
import { overview } from "./overview.js";
import { topics } from "./topics.js";
import { field, make, outcome } from "./view.js";

const VIEWS = {
  overview,
  connections,
  lagging: (view, tell) => connections(view, tell, { isLagging: true }),
  topics,
  rules,
  limits,
  logs,
};

const element = (id) => document.getElementById(id);
let timer = null;
// Answers that come after their view has gone say nothing any more.
let shown = 0;

start();

async function start() {
  try {
    const facts = await ask("/page.json");
    element("node").textContent = `${facts.node} ${facts.version}`;
    document.title = `${facts.node}: administration`;
    const session = await ask("/api/v1/session");
    element("leave").hidden = !session.needs_api_key || !session.may_operate;
    if (session.may_operate) enter();
    else login();
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

function show() {
  const wanted = location.hash.slice(1);
  // The link that skips to the content.
  if (wanted === "view") return element("view").focus();
  clearTimeout(timer);
  shown += 1;
  const mine = shown;
  const name = wanted in VIEWS ? wanted : "overview";
  for (const link of element("views").querySelectorAll("a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const view = element("view");
  view.replaceChildren();
  const tell = () => {
    if (mine === shown) setState("good", "the node answers");
  };
  const { look, everyMs } = VIEWS[name](view, tell);
  const turn = async () => {
    try {
      await look();
    } catch (error) {
      if (mine !== shown) return;
      if (error.status === 401) return login();
      setState("bad", error.message);
    }
    if (mine === shown && everyMs !== null) timer = setTimeout(turn, everyMs);
  };
  turn();
}

function login() {
  clearTimeout(timer);
  shown += 1;
  element("views").hidden = true;
  element("leave").hidden = true;
  setState("waiting", "an API key is needed");
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
  );
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
