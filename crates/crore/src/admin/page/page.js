// The live page: watches a topic or filter by EventSource, publishes by fetch. No library, no state but what is shown.
"use strict";

// The page limits what it shows: rows in the document, and messages waiting for the next frame.
const ROWS_MAX = 400;
const WAITING_MAX = 400;
const TOPICS_COUNTED_MAX = 10000;
const TOPICS_OFFERED_MAX = 30;
const PAYLOAD_CHARACTERS_MAX = 2000;

const element = (id) => document.getElementById(id);
const rows = element("rows");
const stream = element("stream");

const facts = { clients: "", node: "" };
let source = null;
let watched = "";
let isPaused = false;
let isFollowing = true;
let waiting = [];
let isFrameAsked = false;
let mine = new Set();

const seen = { messages: 0, gaps: 0, topics: new Set() };
const seconds = new Array(60).fill(0);
let thisSecond = 0;

start();

async function start() {
  setState("waiting", "Connecting");
  try {
    const answer = await fetch("/page.json", { cache: "no-store" });
    Object.assign(facts, await answer.json());
  } catch {
    setState("refused", "No answer from the operators' port; reload to try again");
    return;
  }
  element("node").textContent = facts.node === "crore" ? facts.version : `${facts.version} · ${facts.node}`;
  document.title = `${facts.node}: live messages`;
  const wanted = new URLSearchParams(location.search).get("topic");
  if (wanted) element("filter").value = wanted;
  showCommands();
  watch(element("filter").value);
  setInterval(tick, 1000);
}

element("watch").addEventListener("submit", (event) => {
  event.preventDefault();
  const filter = element("filter").value;
  const address = new URL(location.href);
  address.searchParams.set("topic", filter);
  history.replaceState(null, "", address);
  clear();
  watch(filter);
});

element("publish").addEventListener("submit", (event) => {
  event.preventDefault();
  publish();
});

element("payload").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    element("publish").requestSubmit();
  }
});

for (const id of ["topic", "payload", "filter"]) element(id).addEventListener("input", showCommands);

element("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  element("pause").setAttribute("aria-pressed", String(isPaused));
  element("pause").textContent = isPaused ? "Continue" : "Pause";
  if (!isPaused) askForFrame();
});

element("clear").addEventListener("click", clear);

element("by-hand").open = !window.matchMedia("(max-width: 820px)").matches;
for (const button of document.querySelectorAll("[data-copies]")) button.addEventListener("click", () => copy(button));

element("follow").addEventListener("click", () => {
  isFollowing = true;
  stream.focus({ preventScroll: true });
  scrollToNewest();
});

stream.addEventListener("scroll", () => {
  isFollowing = stream.scrollHeight - stream.scrollTop - stream.clientHeight < 40;
  element("follow").hidden = isFollowing;
});

function watch(filter) {
  if (source) source.close();
  watched = filter;
  setState("waiting", "Connecting");
  const address = `${facts.clients}/events?topic=${encodeURIComponent(filter)}`;
  const opened = new EventSource(address);
  source = opened;
  opened.onopen = () => {
    if (opened === source) setState("live", `Live on ${filter}`);
  };
  opened.onmessage = (event) => {
    if (opened === source) receive(event);
  };
  for (const [kind, words] of [["crore.gap", "Gap"], ["crore.skipped", "Skipped"]]) {
    opened.addEventListener(kind, (event) => {
      if (opened !== source) return;
      seen.gaps += 1;
      put({ note: `${words}: ${event.data}` });
    });
  }
  opened.addEventListener("crore.error", (event) => {
    if (opened !== source) return;
    opened.close();
    setState("refused", refusalOf(event.data));
  });
  opened.onerror = () => {
    if (opened !== source) return;
    if (opened.readyState === EventSource.CLOSED) {
      setState("refused", "Refused");
      explainRefusal(address, opened);
    } else {
      setState("waiting", "Connection lost, reconnecting");
    }
  };
}

// An EventSource does not give the reason of a refusal; the same request by fetch does.
async function explainRefusal(address, opened) {
  const limit = new AbortController();
  try {
    const answer = await fetch(address, { headers: { accept: "text/event-stream" }, signal: limit.signal });
    const reason = answer.ok ? "The node refused the request; press Watch to try again" : await problemOf(answer);
    if (opened === source) setState("refused", reason);
  } catch {
    if (opened === source) setState("refused", `No answer from ${facts.clients}; press Watch to try again`);
  } finally {
    limit.abort();
  }
}

function refusalOf(data) {
  try {
    const { detail, code } = JSON.parse(data);
    return `${detail} (${code})`;
  } catch {
    return "the node refused this filter";
  }
}

function receive(event) {
  seen.messages += 1;
  thisSecond += 1;
  const message = messageOf(event);
  if (seen.topics.size < TOPICS_COUNTED_MAX && !seen.topics.has(message.topic)) {
    seen.topics.add(message.topic);
    if (seen.topics.size <= TOPICS_OFFERED_MAX) {
      const option = document.createElement("option");
      option.value = message.topic;
      element("known").append(option);
    }
  }
  put(message);
}

// The event's data is the JSON form of a message; other data is shown unchanged.
function messageOf(event) {
  let message = null;
  try {
    message = JSON.parse(event.data);
  } catch {
    message = null;
  }
  if (message === null || typeof message !== "object" || !("topic" in message)) {
    return { topic: watched, offset: "", time: Date.now(), text: event.data };
  }
  return {
    topic: message.topic,
    offset: message.offset ?? "",
    position: message.position ?? "",
    time: message.time_ms ?? Date.now(),
    text: textOf(message),
  };
}

function textOf(message) {
  if (typeof message.data === "string") return message.data;
  if (message.data !== undefined) return JSON.stringify(message.data);
  if (typeof message.b64data === "string") {
    const bytes = Math.floor((message.b64data.replace(/=+$/, "").length * 3) / 4);
    return `${bytes} bytes: ${message.b64data}`;
  }
  return "";
}

function put(entry) {
  waiting.push(entry);
  if (waiting.length > WAITING_MAX) waiting.splice(0, waiting.length - WAITING_MAX);
  if (!isPaused) askForFrame();
}

function askForFrame() {
  if (isFrameAsked) return;
  isFrameAsked = true;
  requestAnimationFrame(draw);
}

function draw() {
  isFrameAsked = false;
  if (isPaused || waiting.length === 0) return;
  const fragment = document.createDocumentFragment();
  for (const entry of waiting) fragment.append(rowOf(entry));
  waiting = [];
  element("empty").hidden = true;
  rows.append(fragment);
  while (rows.childElementCount > ROWS_MAX) rows.firstElementChild.remove();
  if (isFollowing) scrollToNewest();
}

function rowOf(entry) {
  const row = document.createElement("li");
  if (entry.note) {
    row.className = "note";
    row.textContent = entry.note;
    return row;
  }
  const time = document.createElement("time");
  const at = new Date(entry.time);
  if (!Number.isNaN(at.getTime())) {
    time.dateTime = at.toISOString();
    time.textContent = clockOf(at);
  }
  const text =
    entry.text.length > PAYLOAD_CHARACTERS_MAX ? `${entry.text.slice(0, PAYLOAD_CHARACTERS_MAX)} …` : entry.text;
  row.append(time, span("topic", entry.topic), span("payload", text), span("offset", String(entry.offset)));
  if (entry.position) row.lastElementChild.title = `position ${entry.position}`;
  if (mine.delete(`${entry.topic} ${entry.position}`)) row.classList.add("mine");
  return row;
}

// A browser lends its clipboard to pages from this machine and over TLS only; elsewhere the command
// is selected.
async function copy(button) {
  const command = element(button.dataset.copies);
  try {
    await navigator.clipboard.writeText(command.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(command);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

function span(name, text) {
  const made = document.createElement("span");
  made.className = name;
  made.textContent = text;
  return made;
}

function clockOf(at) {
  const digits = (number, length) => String(number).padStart(length, "0");
  return `${digits(at.getHours(), 2)}:${digits(at.getMinutes(), 2)}:${digits(at.getSeconds(), 2)}.${digits(at.getMilliseconds(), 3)}`;
}

function scrollToNewest() {
  stream.scrollTop = stream.scrollHeight;
  element("follow").hidden = true;
}

function clear() {
  rows.replaceChildren();
  waiting = [];
  seen.messages = 0;
  seen.gaps = 0;
  seen.topics.clear();
  element("known").replaceChildren();
  element("empty").hidden = false;
  showFigures(0);
}

async function publish() {
  const topic = element("topic").value;
  const button = element("publish").querySelector("button");
  button.disabled = true;
  try {
    const answer = await fetch(`${facts.clients}/topics?topic=${encodeURIComponent(topic)}`, {
      method: "POST",
      headers: { "content-type": element("type").value },
      body: element("payload").value,
    });
    if (!answer.ok) {
      showOutcome("bad", await problemOf(answer));
      return;
    }
    const { epoch, offset } = await answer.json();
    if (mine.size > 100) mine = new Set();
    mine.add(`${topic} ${epoch}:${offset}`);
    showOutcome("good", `Published at ${epoch}:${offset}`);
  } catch {
    showOutcome("bad", `No answer from ${facts.clients}. The message may or may not have been published.`);
  } finally {
    button.disabled = false;
  }
}

// The title and detail of a problem body (RFC 9457), or the bare status.
async function problemOf(answer) {
  try {
    const problem = await answer.json();
    const text = [problem.title, problem.detail].filter(Boolean).join(": ");
    return `${answer.status} ${text || answer.statusText}`;
  } catch {
    return `${answer.status} ${answer.statusText}`;
  }
}

function tick() {
  seconds.push(thisSecond);
  seconds.shift();
  showFigures(thisSecond);
  thisSecond = 0;
  const top = Math.max(1, ...seconds);
  const points = seconds.map((count, place) => `${place},${(15 - (count / top) * 14).toFixed(2)}`);
  element("curve").setAttribute("points", points.join(" "));
}

function showFigures(rate) {
  element("count").textContent = seen.messages.toLocaleString("en");
  element("rate").textContent = rate.toLocaleString("en");
  const more = seen.topics.size >= TOPICS_COUNTED_MAX ? "+" : "";
  element("topics").textContent = seen.topics.size.toLocaleString("en") + more;
  element("gaps").textContent = seen.gaps.toLocaleString("en");
  element("gap-box").dataset.alarm = seen.gaps > 0 ? "yes" : "no";
}

function setState(state, text) {
  element("state").dataset.state = state;
  element("state-text").textContent = text;
}

function showOutcome(kind, text) {
  element("outcome").dataset.kind = kind;
  element("outcome").textContent = text;
}

// The readable form where the name needs no escapes and no client merges or resolves parts of it.
function pathOf(topic) {
  const isPlain = /^[A-Za-z0-9_-]+(\/[A-Za-z0-9_-]+)*$/.test(topic);
  return isPlain ? `/topics/${topic}` : `/topics?topic=${encodeURIComponent(topic)}`;
}

function showCommands() {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const query = (text) => `topic=${encodeURIComponent(text).replaceAll("%2F", "/")}`;
  element("publish-command").textContent = `curl -d ${quoted(element("payload").value)} ${quoted(facts.clients + pathOf(element("topic").value))}`;
  element("watch-command").textContent = `curl -N ${quoted(`${facts.clients}/events?${query(element("filter").value)}`)}`;
}
