// A headless Chromium on the live page, steered by playwright-core: what a person would do and see.
// Usage: page.cjs OPERATORS_URL [LINK_URL | restarts | token]. Prints `{"watching":true}` when the page is live, then expects a
// message `from elsewhere` on the topic `demo/elsewhere`, and publishes one itself by hand. With LINK_URL, another way to
// the clients' port, it prints `{"seen":true}` after that message, expects that the link is cut, prints
// `{"reconnecting":true}`, and expects the gap to be shown once the link is mended. With `restarts` it shows a node that
// ends and starts again: see `visitRestarts`. With `token` the node wants one, which is in the environment: see `visitWithToken`.
"use strict";

const assert = require("node:assert");
const { browse } = require("./browser.cjs");

const [url, mode] = process.argv.slice(2);
const link = ["restarts", "token"].includes(mode) ? undefined : mode;

const tell = (what) => console.log(JSON.stringify({ [what]: true }));

async function visit(page) {
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(message.text());
  });
  await page.goto(url);
  await page.locator('#state[data-state="live"]').waitFor();
  tell("watching");

  await page.locator("#rows li", { hasText: "from elsewhere" }).waitFor();

  await page.fill("#topic", "demo/by hand");
  await page.fill("#payload", "typed by a person: <b>äöü</b>");
  await page.click("#publish button[type=submit]");
  await page.locator('#outcome[data-kind="good"]').waitFor();
  const row = page.locator("#rows li", { hasText: "typed by a person: <b>äöü</b>" });
  await row.waitFor();
  assert.match(await row.textContent(), /demo\/by hand/);
  // The page knows its own message.
  await page.locator("#rows li.mine", { hasText: "typed by a person" }).waitFor();

  // Many messages: the newest stays in view.
  for (let number = 1; number <= 40; number++) {
    await page.fill("#payload", `line ${number}`);
    await page.click("#publish button[type=submit]");
    await page.locator("#rows .payload", { hasText: new RegExp(`^line ${number}$`) }).waitFor();
  }
  const isInView = await page.evaluate(() => {
    const stream = document.getElementById("stream");
    return stream.scrollHeight - stream.scrollTop - stream.clientHeight < 40;
  });
  assert.ok(isInView, "the page does not follow the newest message");

  // The commands can be copied; a page from this machine has the clipboard.
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const copy = page.getByRole("button", { name: "Copy the command that publishes" });
  await copy.click();
  await copy.filter({ hasText: "Copied" }).waitFor();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^curl -d 'line 40' 'http:/);

  // On a phone the form that publishes is on the screen, with and without messages, and nothing is
  // too wide.
  await page.setViewportSize({ width: 390, height: 844 });
  for (const _ of ["with messages", "without"]) {
    await page.evaluate(() => window.scrollTo(0, 0));
    const box = await page.locator("#publish button[type=submit]").boundingBox();
    assert.ok(box.y + box.height <= 844, `Publish ends at ${box.y + box.height}`);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
    await page.click("#clear");
  }
  await page.setViewportSize({ width: 1280, height: 720 });

  await earlier(page);
  await figures(page);
  await page.locator("#earlier").waitFor({ state: "hidden" });

  // A topic that is not a topic is refused with a reason, and so is a filter; then the page goes on.
  await page.fill("#topic", "demo/#");
  await page.click("#publish button[type=submit]");
  await page.locator('#outcome[data-kind="bad"]', { hasText: "malformed_topic" }).waitFor();
  await watch(page, "demo/#/x");
  await page.locator('#state[data-state="refused"]', { hasText: "malformed_filter" }).waitFor();
  await watch(page, "demo/+");
  await page.locator('#state[data-state="live"]', { hasText: "Live on demo/+" }).waitFor();
  await page.fill("#topic", "demo/again");
  await page.click("#publish button[type=submit]");
  await page.locator("#rows li", { hasText: "demo/again" }).waitFor();
  assert.deepStrictEqual(faults, []);
}

async function watch(page, filter) {
  await page.fill("#filter", filter);
  await page.click("#watch button[type=submit]");
}

// A topic's log before the first row, page by page, to its begin; then live messages behind it.
async function earlier(page) {
  await page.fill("#topic", "history/of one");
  for (let number = 1; number <= 60; number++) {
    await page.fill("#payload", `entry ${number}`);
    await page.click("#publish button[type=submit]");
    await page.locator('#outcome[data-kind="good"]').waitFor();
    await page.evaluate(() => (document.getElementById("outcome").dataset.kind = ""));
  }
  await watch(page, "history/of one");
  await page.locator('#state[data-state="live"]', { hasText: "history/of one" }).waitFor();
  const payloads = () => page.locator("#rows .payload").allTextContents();
  const entries = (first, last) => Array.from({ length: last - first + 1 }, (_, at) => `entry ${first + at}`);
  await page.click("#earlier");
  await page.locator("#rows li", { hasText: "entry 60" }).waitFor();
  assert.deepStrictEqual(await payloads(), entries(11, 60));
  await page.fill("#payload", "entry 61");
  await page.click("#publish button[type=submit]");
  await page.locator("#rows li", { hasText: "entry 61" }).waitFor();
  await page.click("#earlier");
  await page.locator("#earlier").waitFor({ state: "hidden" });
  assert.deepStrictEqual(await payloads(), entries(1, 61));
  await page.locator("#count", { hasText: /^1$/ }).waitFor();
}

// What is counted: a fresh page, then five messages of two topics.
async function figures(page) {
  await watch(page, "figures/#");
  await page.locator('#state[data-state="live"]', { hasText: "figures/#" }).waitFor();
  for (let number = 1; number <= 5; number++) {
    await page.fill("#topic", `figures/${number % 2}`);
    await page.click("#publish button[type=submit]");
    await page.locator(`#rows li:nth-child(${number})`).waitFor();
  }
  for (const [figure, expected] of [["count", "5"], ["topics", "2"], ["gaps", "0"]]) {
    await page.locator(`#${figure}`, { hasText: new RegExp(`^${expected}$`) }).waitFor();
  }
  const height = () => page.evaluate(() => Math.max(...document.getElementById("curve").getAttribute("points").split(" ").map((point) => 15 - point.split(",")[1])));
  while ((await height()) < 14) await page.waitForTimeout(100);
}

// Hides the page: none of its timers and handlers runs until it is shown again. Headless pages are always visible, so the
// debugger stops the page, and this script tells it its visibility.
async function sleep(page) {
  const say = (state) =>
    page.evaluate((value) => {
      Object.defineProperty(document, "visibilityState", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
  await say("hidden");
  const session = await page.context().newCDPSession(page);
  await session.send("Debugger.enable");
  const paused = new Promise((resolve) => session.once("Debugger.paused", resolve));
  await session.send("Debugger.pause");
  await paused;
  return async () => {
    await session.send("Debugger.resume");
    await session.detach();
    await say("visible");
  };
}

// The node ends and starts again twice: while the page publishes a message by hand, and while the page sleeps as a hidden
// one does. The test publishes `first 1` to `first 50` after the first start, and `second 1` to `second 50` after the
// second one; then it sends SIGUSR2, and the page wakes up. Nothing is missing, nothing comes twice, and nothing is a gap.
async function visitRestarts(page) {
  await page.goto(url);
  await page.locator('#state[data-state="live"]').waitFor();
  tell("watching");
  await page.locator("#rows li", { hasText: "from elsewhere" }).waitFor();
  tell("seen");
  await page.locator('#state[data-state="waiting"]').waitFor();
  await page.fill("#payload", "typed while the node was away");
  await page.click("#publish button[type=submit]");
  await page.locator("#outcome", { hasText: "Waiting for the node" }).waitFor();
  tell("reconnecting");
  await page.locator('#outcome[data-kind="good"]').waitFor();
  await page.locator("#rows li.mine", { hasText: "typed while the node was away" }).waitFor();
  await page.locator("#rows li", { hasText: "first 50" }).waitFor();

  const woken = new Promise((resolve) => process.once("SIGUSR2", resolve));
  const wake = await sleep(page);
  tell("sleeping");
  await woken;
  await wake();
  await page.locator("#rows li", { hasText: "second 50" }).waitFor();
  await page.locator('#state[data-state="live"]').waitFor();

  const shown = await page.locator("#rows li .payload").allTextContents();
  const numbered = (word) => Array.from({ length: 50 }, (_, at) => `${word} ${at + 1}`);
  for (const word of ["first", "second"]) assert.deepStrictEqual(shown.filter((text) => text.startsWith(word)), numbered(word));
  assert.equal(shown.filter((text) => text.startsWith("typed")).length, 1);
  assert.equal(await page.locator("#rows li.note").count(), 0);
  await page.locator("#count", { hasText: /^102$/ }).waitFor();
  assert.equal(await page.textContent("#gaps"), "0");
}

// The node refuses the page at first, then a wrong token, then accepts TOKEN, which may use `demo/#` only.
async function visitWithToken(page) {
  await page.goto(url);
  const field = page.getByLabel("Token or API key");
  const refused = page.locator('#state[data-state="refused"]', { hasText: "unauthorized" });
  for (const attempt of ["", "no token", process.env.TOKEN]) {
    await field.fill(attempt);
    await page.click("#watch button[type=submit]");
    await (attempt === process.env.TOKEN ? page.locator('#state[data-state="live"]') : refused).waitFor();
  }
  await page.click("#publish button[type=submit]");
  await page.locator("#rows li.mine", { hasText: "Hello from the live page" }).waitFor();
  await watch(page, "other");
  await page.locator('#state[data-state="refused"]', { hasText: "forbidden" }).waitFor();
  await watch(page, "demo/+");
  await page.locator('#state[data-state="live"]').waitFor();
  // The command names no secret.
  assert.match(await page.textContent("#watch-command"), /^curl -H "Authorization: Bearer \$TOKEN" -N 'http/);
}

async function visitByLink(page) {
  await page.route("**/page.json", async (route) => {
    const facts = await (await route.fetch()).json();
    await route.fulfill({ json: { ...facts, clients: link } });
  });
  await page.goto(url);
  await page.locator('#state[data-state="live"]').waitFor();
  tell("watching");
  await page.locator("#rows li", { hasText: "from elsewhere" }).waitFor();
  assert.equal(await page.textContent("#gaps"), "0");
  tell("seen");
  await page.locator('#state[data-state="waiting"]').waitFor();
  tell("reconnecting");
  await page.locator("#rows li.note", { hasText: "Gap" }).waitFor();
  await page.locator('#gap-box[data-alarm="yes"] #gaps', { hasText: "1" }).waitFor();
  await page.locator('#state[data-state="live"]').waitFor();
}

// The page's policy knows the node's own address only.
browse({ undefined: visit, restarts: visitRestarts, token: visitWithToken }[mode] ?? visitByLink, { bypassCSP: link !== undefined });
