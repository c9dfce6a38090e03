// The live page: watches a topic or filter, and publishes, by Crore's client for browsers. No state but what is shown.
import { Crore } from "/crore.js";

// The page limits what it shows: rows in the document, and messages waiting for the next frame.
const ROWS_MAX = 400;
const WAITING_MAX = 400;
const TOPICS_COUNTED_MAX = 10000;
const TOPICS_OFFERED_MAX = 30;
const MINE_MAX = 100;
const EARLIER_MAX = 50;
const PAYLOAD_CHARACTERS_MAX = 2000;
// The bytes of a binary payload that are shown, in base64: 2,000 characters.
const BYTES_SHOWN_MAX = 1500;
// Between two attempts to connect, and until a publication without an answer is given up.
const BACKOFF_MS_MAX = 3_000;
const PUBLISH_MS_MAX = 15_000;

const element = (id) => document.getElementById(id);
const rows = element("rows");
const stream = element("stream");

const facts = { clients: "", node: "" };
let client = null;
let token = "";
let subscription = null;
// The newest refusal that belongs to no request.
let refusal = "";
let isPaused = false;
let isFollowing = true;
let waiting = [];
let isFrameAsked = false;
// Places of own messages that are not shown yet.
const mine = new Set();

const seen = { messages: 0, gaps: 0, topics: new Set() };
const seconds = new Array(60).fill(0);
let newly = 0;
let ticked = performance.now();

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

for (const id of ["topic", "payload", "filter", "token"]) element(id).addEventListener("input", showCommands);

element("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  element("pause").setAttribute("aria-pressed", String(isPaused));
  element("pause").textContent = isPaused ? "Continue" : "Pause";
  if (!isPaused) askForFrame();
});

element("clear").addEventListener("click", clear);

element("earlier").addEventListener("click", showEarlier);

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
  subscription?.close();
  element("earlier").hidden = true;
  setState("waiting", "Connecting");
  try {
    // A client that was refused for good stays closed, and one client has one token.
    if (client === null || client.state.state === "closed" || token !== element("token").value) connect();
    subscription = client.subscribe(filter);
    read(subscription);
    offerEarlier();
  } catch (error) {
    subscription = null;
    setState("refused", wordsOf(error));
  }
}

function connect() {
  refusal = "";
  client?.close();
  token = element("token").value;
  let lost = `No connection to ${facts.clients}, trying again`;
  let wasConnected = false;
  const log = (_, event, fields) => {
    if (event === "subscribed" && fields.topic === subscription?.topic) setState("live", `Live on ${fields.topic}`);
    wasConnected ||= event === "connected";
    if (wasConnected) lost = "Connection lost, reconnecting";
    // A browser tells no page why its connection was refused.
    else if (fields.hint) lost = `No connection to ${facts.clients}; see the node's log`;
  };
  const options = { name: "live page", token: token || undefined, backoff: { max: BACKOFF_MS_MAX }, log };
  const opened = new Crore(facts.clients, options);
  client = opened;
  opened.onError((error) => (refusal = wordsOf(error)));
  opened.onState(({ state }) => {
    if (state === "waiting" && subscription !== null && opened === client) setState("waiting", lost);
  });
}

// Shows what comes, over all connections, until another topic is watched or the node refuses.
async function read(opened) {
  try {
    for await (const item of opened) receive(item);
  } catch (error) {
    if (opened !== subscription) return;
    subscription = null;
    element("earlier").hidden = true;
    setState("refused", wordsOf(error));
    if (error.name === "forbidden" || client.state.state === "closed") askForToken();
  }
}

function askForToken() {
  element("credential").hidden = false;
  element("token").select();
}

function wordsOf({ name, message, code }) {
  if (name === "Closed" && refusal) return refusal;
  const sentence = message.charAt(0).toUpperCase() + message.slice(1);
  return code === undefined ? sentence : `${sentence} (${name})`;
}

function receive(item) {
  if (item.kind === "gap" || item.kind === "skipped") {
    seen.gaps += 1;
    putNote(item);
  }
  if (item.kind !== "message") return;
  seen.messages += 1;
  newly += 1;
  const { topic } = item;
  if (seen.topics.size < TOPICS_COUNTED_MAX && !seen.topics.has(topic)) {
    seen.topics.add(topic);
    if (seen.topics.size <= TOPICS_OFFERED_MAX) {
      const option = document.createElement("option");
      option.value = topic;
      element("known").append(option);
    }
  }
  put({ message: item, at: new Date() });
}

// What many partitions report at once is one row.
function putNote(item) {
  const newest = waiting.at(-1);
  const { kind, cause, reason } = newest?.note ?? {};
  if (kind === item.kind && cause === item.cause && reason === item.reason) newest.count += 1;
  else put({ note: item, count: 1 });
}

function textOfNote({ note: { kind, from, to, through, cause, reason, partition }, count }) {
  const what = kind === "gap" ? "Gap: messages are missing" : "Skipped: messages were left out";
  const why = (cause ?? reason).replaceAll("_", " ");
  if (count > 1) return `${what} at ${count} places (${why})`;
  const after = from === undefined ? "" : ` after ${from}`;
  const until = to ?? through;
  const where = partition === undefined ? "" : `, partition ${partition}`;
  return `${what}${after}${until === undefined ? "" : `, up to ${until}`}${where} (${why})`;
}

function textOf(message) {
  try {
    return message.text();
  } catch {
    const bytes = message.bytes.subarray(0, BYTES_SHOWN_MAX);
    return `${message.bytes.length} bytes: ${btoa(String.fromCharCode(...bytes))}`;
  }
}

// A filter has no history of its own.
function offerEarlier() {
  element("earlier").hidden = subscription === null || /[+#]/.test(subscription.topic);
}

// Shows what the topic's log has before the first row.
async function showEarlier() {
  const { topic } = subscription;
  const button = element("earlier");
  button.disabled = true;
  try {
    const after = rows.querySelector("[data-position]")?.dataset.position;
    const page = await client.historyPage(topic, { after, reverse: true, limit: EARLIER_MAX });
    // What came meanwhile becomes rows first, or waits for the end of a pause.
    await new Promise(requestAnimationFrame);
    if (subscription?.topic !== topic) return;
    const shown = new Set([...rows.children].map((row) => row.dataset.position));
    for (const { message } of waiting) shown.add(message?.position);
    const fresh = page.messages.reverse().filter(({ position }) => !shown.has(position));
    const made = fresh.map((message) => rowOf({ message, at: new Date(message.time) }));
    if (page.gap) made.unshift(rowOf({ note: page.gap, count: 1 }));
    prepend(made);
    button.hidden = !page.more || rows.childElementCount >= ROWS_MAX;
  } catch (error) {
    prepend([rowOf({ failure: error })]);
  } finally {
    button.disabled = false;
  }
}

// The rows that are in view stay where they are.
function prepend(made) {
  const before = stream.scrollHeight;
  if (made.length > 0) element("empty").hidden = true;
  rows.prepend(...made);
  stream.scrollTop += stream.scrollHeight - before;
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
  if (entry.note || entry.failure) {
    row.className = "note";
    row.textContent = entry.note ? textOfNote(entry) : wordsOf(entry.failure);
    return row;
  }
  const { message } = entry;
  const { topic, offset, position } = message;
  const time = document.createElement("time");
  time.dateTime = entry.at.toISOString();
  time.textContent = clockOf(entry.at);
  time.title = message.time === undefined ? "when it came to this page" : "when the node received it";
  const whole = textOf(message);
  const text = whole.length > PAYLOAD_CHARACTERS_MAX ? `${whole.slice(0, PAYLOAD_CHARACTERS_MAX)} …` : whole;
  row.append(time, span("topic", topic), span("payload", text), span("offset", String(offset)));
  row.lastElementChild.title = `position ${position}`;
  row.dataset.position = position;
  if (mine.delete(`${topic} ${position}`)) row.classList.add("mine");
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
  offerEarlier();
}

// The client repeats a publication over reconnects until the node answers; it is in the log once.
async function publish() {
  const topic = element("topic").value;
  const button = element("publish").querySelector("button");
  button.disabled = true;
  try {
    if (client === null || client.state.state === "closed") connect();
    if (client.state.state !== "live") showOutcome("waiting", "Waiting for the node");
    const options = { contentType: element("type").value, once: true, timeout: PUBLISH_MS_MAX };
    const { position } = await client.publish(topic, element("payload").value, options);
    markMine(topic, position);
    showOutcome("good", `Published at ${position}`);
  } catch (error) {
    showOutcome("bad", wordsOf(error));
  } finally {
    button.disabled = false;
  }
}

// The message may be here before the answer.
function markMine(topic, position) {
  const isIt = ({ dataset, children }) => dataset.position === position && children[1].textContent === topic;
  const row = [...rows.children].find(isIt);
  if (mine.size >= MINE_MAX) mine.clear();
  if (row) row.classList.add("mine");
  else mine.add(`${topic} ${position}`);
}

// The timers of a hidden page are late: what came is spread over the seconds that have passed.
function tick() {
  const now = performance.now();
  const passed = Math.max(1, Math.round((now - ticked) / 1000));
  ticked = now;
  const rate = Math.round(newly / passed);
  newly = 0;
  for (let second = 0; second < Math.min(passed, seconds.length); second++) {
    seconds.push(rate);
    seconds.shift();
  }
  showFigures(rate);
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
  // The token itself stays in the page.
  const curl = element("token").value ? 'curl -H "Authorization: Bearer $TOKEN"' : "curl";
  const query = (text) => `topic=${encodeURIComponent(text).replaceAll("%2F", "/")}`;
  element("publish-command").textContent = `${curl} -d ${quoted(element("payload").value)} ${quoted(facts.clients + pathOf(element("topic").value))}`;
  element("watch-command").textContent = `${curl} -N ${quoted(`${facts.clients}/events?${query(element("filter").value)}`)}`;
}
