// A headless Chromium on the administration page, steered by playwright-core: every view, by pointer and by keyboard.
// Usage: administration.cjs OPERATORS_URL [SCREENSHOTS_FOLDER]. The node has a stream of `news/one` whose subscriber is to be
// disconnected, and messages on `prices/...`. Prints `{"walked":true}`, then ends.
// With API_KEY in the environment the page asks for it first.
"use strict";

const assert = require("node:assert");
const path = require("node:path");
const { TIMEOUT_MS, browse } = require("./browser.cjs");

const [url, pictures] = process.argv.slice(2);
const apiKey = process.env.API_KEY;
const VIEWS = ["Overview", "Connections", "Lagging", "Topics", "Rules", "Limits", "Logs"];
const HEADINGS = ["Overview", "Connections", "Lagging clients", "Topics", "Rules", "Limits in force", "Recent log lines"];

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: path.join(pictures, `${name}.png`) });
}

async function login(page) {
  const key = page.getByLabel("API key of an operator");
  await key.fill("crore_not_a_key");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("status").filter({ hasText: "API key with operate" }).waitFor();
  await key.fill(apiKey);
  await key.press("Enter");
  await page.getByRole("button", { name: "Log out" }).waitFor();
}

async function overview(page) {
  await page.getByRole("img", { name: /^Connections: [1-9]/ }).waitFor();
  for (const name of ["Published", "Delivered", "Written", "Publish to write", "Memory"]) {
    await page.getByRole("img", { name: new RegExp(`^${name}: .* now`) }).waitFor();
  }
  await page.getByRole("meter").first().waitFor();
  // Good or bad stands first, as a word.
  const health = page.getByRole("list", { name: "Health" });
  for (const [name, word] of [["Node", "Ready"], ["Memory", "OK"], ["Gaps", "None"], ["Threads", "All answer"]]) {
    await health.getByRole("listitem").filter({ has: page.getByRole("heading", { name, exact: true }) }).filter({ hasText: `good: ✓ ${word}` }).waitFor();
  }
  await page.getByRole("status").filter({ hasText: /^Connected$/ }).waitFor();
}

// The node has kept samples: the curves are there when the page is, not point by point from then
// on.
async function chartsAtLoad(page) {
  const history = () => page.evaluate(async () => (await fetch("/api/v1/statistics/history")).json());
  const deadline = Date.now() + TIMEOUT_MS;
  let kept = await history();
  while (kept.samples.length < 3) {
    assert.ok(Date.now() < deadline, "the node takes samples");
    await page.waitForTimeout(200);
    kept = await history();
  }
  await page.reload();
  await page.getByRole("img", { name: /^Connections: [1-9]/ }).waitFor();
  const [points, axis] = await page.evaluate(() => {
    const chart = document.querySelector(".chart");
    return [chart.querySelector("path").getAttribute("d").match(/[ML]/g).length, [...chart.querySelectorAll(".axis span")].map((label) => label.textContent)];
  });
  assert.ok(points >= 3, `${points} points at load`);
  assert.deepStrictEqual(axis, ["−5 min", "−4", "−3", "−2", "−1", "now"]);
}

// A column's head sorts by it, and says so; the focus stays there.
async function sorting(page) {
  const names = () => page.getByRole("link", { name: /^Show topic/ }).allTextContents();
  const head = page.getByRole("columnheader", { name: "Topic" });
  const button = head.getByRole("button", { name: "Topic" });
  await button.click();
  assert.equal(await head.getAttribute("aria-sort"), "ascending");
  const rising = await names();
  await button.press("Enter");
  assert.equal(await head.getAttribute("aria-sort"), "descending");
  assert.deepStrictEqual(await names(), [...rising].reverse());
  assert.ok(rising.length >= 3, rising);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Topic");
}

// A topic has an address: it can be opened at once, Back closes it, and so does Escape.
async function addresses(page) {
  const dialog = page.getByRole("dialog", { name: "Topic prices/a" });
  const link = page.getByRole("link", { name: "Show topic prices/a", exact: true });
  const at = async (hash) => {
    await page.waitForFunction((wanted) => location.hash === wanted, hash);
  };
  await link.click();
  await dialog.waitFor();
  await at("#/topics/prices/a");
  await page.goBack();
  await dialog.waitFor({ state: "hidden" });
  await at("#/topics");
  await page.goForward();
  await dialog.waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  await at("#/topics");
  // Another page of the browser, by the address alone. There is no list to go back to: it is put in
  // place.
  const other = await page.context().newPage();
  await other.goto(`${url}admin#/topics/prices/a`);
  const alone = other.getByRole("dialog", { name: "Topic prices/a" });
  await alone.getByRole("cell", { name: "1.5", exact: true }).waitFor();
  await alone.getByRole("button", { name: "Close" }).click();
  await alone.waitFor({ state: "hidden" });
  await other.waitForFunction(() => location.hash === "#/topics");
  // An item that is not there is told, an address that is none leads to the overview.
  await other.goto(`${url}admin#/connections/ffff`);
  await other.getByRole("dialog").getByText("does not exist or is closed").waitFor();
  await other.goto(`${url}admin/#/constructor/x`);
  await other.getByRole("heading", { level: 2, name: "Overview" }).waitFor({ state: "attached" });
  assert.equal(new URL(other.url()).pathname, "/admin");
  await other.close();
}

// Every view is reached by the keyboard alone, and says where it is.
async function walkByKeyboard(page) {
  for (const [place, name] of VIEWS.entries()) {
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name, exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 2, name: HEADINGS[place], exact: true }).waitFor({ state: "attached" });
    await page.locator('nav a[aria-current="page"]', { hasText: name }).waitFor();
  }
}

async function connections(page) {
  await page.getByRole("link", { name: "Connections", exact: true }).click();
  const search = page.getByRole("search", { name: "Connections" });
  await search.getByLabel("Protocol").selectOption("events");
  await search.getByRole("button", { name: "Search" }).click();
  const row = page.getByRole("link", { name: /^Show connection/ });
  await page.getByRole("status").filter({ hasText: /^1 found, of [1-9][0-9]* connections$/ }).waitFor();
  await picture(page, "admin-connections");
  await row.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: /^Connection [0-9a-f]+$/ });
  await dialog.getByRole("cell", { name: "news/one" }).waitFor();
  await picture(page, "admin-connection");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  await row.click();
  await dialog.getByRole("button", { name: "Disconnect", exact: true }).click();
  await page.getByText("No such connection.").waitFor();
}

async function topics(page) {
  await page.getByRole("link", { name: "Topics", exact: true }).click();
  const search = page.getByRole("search", { name: "Topics" });
  await search.getByLabel("Prefix of the name, or a filter").fill("prices/+");
  await search.getByRole("button", { name: "Search" }).click();
  await page.getByRole("link", { name: "Show topic prices/a", exact: true }).waitFor();
  await page.getByRole("status").filter({ hasText: /^3 found, of [0-9]+ topics$/ }).waitFor();
  await page.getByRole("row", { name: /prices\/a / }).getByRole("cell", { name: /^[0-9.]+\/s$/ }).waitFor();
  await sorting(page);
  await addresses(page);
  await picture(page, "admin-topics");
  const publisher = page.getByRole("main").getByRole("form", { name: "Publish" });
  await publisher.getByLabel("Topic", { exact: true }).fill("prices/by hand");
  await publisher.getByLabel("Message", { exact: true }).fill("typed <b>by</b> hand");
  await publisher.getByRole("button", { name: "Publish" }).click();
  await publisher.getByRole("status").filter({ hasText: "Published at" }).waitFor();
  await page.getByRole("link", { name: "Show topic prices/by hand" }).click();
  const dialog = page.getByRole("dialog", { name: "Topic prices/by hand" });
  await dialog.getByRole("cell", { name: "typed <b>by</b> hand" }).waitFor();
  await picture(page, "admin-topic");
  await dialog.getByRole("button", { name: "Close" }).click();
  await publisher.getByLabel("Topic", { exact: true }).fill("not/a/#/topic");
  await publisher.getByRole("button", { name: "Publish" }).click();
  await publisher.locator('[data-kind="bad"]').waitFor();
}

async function lists(page) {
  await page.getByRole("link", { name: "Rules", exact: true }).click();
  await page.getByRole("cell", { name: "(all other topics)" }).waitFor();
  await page.getByRole("link", { name: "Limits", exact: true }).click();
  await page.getByLabel("Part of a name").fill("topics_max");
  await page.getByRole("cell", { name: "limits.topics_max", exact: true }).waitFor();
}

// On a phone nothing stands beyond the edge of the screen.
async function onAPhone(page) {
  await page.setViewportSize({ width: 360, height: 740 });
  for (const [place, name] of VIEWS.entries()) {
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 2, name: HEADINGS[place], exact: true }).waitFor({ state: "attached" });
    const [wide, width] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(wide <= width, `${name}: ${wide} of ${width} pixels`);
    if (name === "Topics") {
      await page.getByRole("link", { name: /^Show topic/ }).first().waitFor();
      await picture(page, "admin-phone");
    }
  }
  await page.setViewportSize({ width: 1200, height: 800 });
}

// Whatever can be used has a name.
async function haveNames(page) {
  const nameless = await page.evaluate(() => {
    const named = (element) =>
      element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") || element.labels?.length || element.textContent.trim();
    return [...document.querySelectorAll("a, button, input, select, textarea, meter, [role=meter], [role=img], dialog[open]")].filter((element) => !named(element)).map((element) => element.outerHTML);
  });
  assert.deepStrictEqual(nameless, []);
}

async function visit(page) {
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(`${message.text()} ${message.location().url}`);
  });
  await page.setViewportSize({ width: 1200, height: 800 });
  await page.goto(`${url}admin/`);
  assert.equal(new URL(page.url()).pathname, "/admin");
  if (apiKey) await login(page);
  await overview(page);
  await chartsAtLoad(page);
  await overview(page);
  await haveNames(page);
  await picture(page, "admin-overview");
  const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.notEqual(light, dark);
  await picture(page, "admin-overview-dark");
  await page.emulateMedia({ colorScheme: "light" });
  // This node is in no cluster.
  await page.getByRole("link", { name: "Cluster" }).waitFor({ state: "hidden" });
  await walkByKeyboard(page);
  await connections(page);
  await topics(page);
  await haveNames(page);
  await lists(page);
  await onAPhone(page);
  if (apiKey) {
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("API key of an operator").waitFor();
  }
  // What was refused on purpose, and what this node does not have, is told by the browser too.
  const expected = (text) => /40[01]|404.*\/api\/v1\/(logg?|connections\/ffff)/.test(text);
  assert.deepStrictEqual(faults.filter((text) => !expected(text)), []);
  console.log(JSON.stringify({ walked: true }));
}

browse(visit);
