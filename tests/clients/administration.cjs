// A headless Chromium on the administration page, steered by playwright-core: every view, by pointer and by keyboard.
// Usage: administration.cjs OPERATORS_URL [SCREENSHOTS_FOLDER]. The node has a stream of `news/one` whose subscriber is to be
// disconnected, and messages on `prices/...`. Prints `{"walked":true}`, then ends.
// With API_KEY in the environment the page asks for it first.
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { chromium } = require("playwright-core");

const [url, pictures] = process.argv.slice(2);
const apiKey = process.env.API_KEY;
const TIMEOUT_MS = 30_000;
const ARGUMENTS = [
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
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
  for (const name of ["Published", "Delivered", "Written", "Publish to write", "Memory of messages and clients"]) {
    await page.getByRole("img", { name: new RegExp(`^${name}: .* now`) }).waitFor();
  }
  await page.getByRole("meter").first().waitFor();
}

// Every view is reached by the keyboard alone, and says where it is.
async function walkByKeyboard(page) {
  for (const [place, name] of VIEWS.entries()) {
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name, exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 2, name: HEADINGS[place], exact: true }).waitFor();
    await page.locator('nav a[aria-current="page"]', { hasText: name }).waitFor();
  }
}

async function connections(page) {
  await page.getByRole("link", { name: "Connections", exact: true }).click();
  const search = page.getByRole("search", { name: "Connections" });
  await search.getByLabel("Protocol").selectOption("events");
  await search.getByRole("button", { name: "Search" }).click();
  const row = page.getByRole("button", { name: /^Show connection/ });
  await page.getByRole("status").filter({ hasText: "1 shown" }).waitFor();
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
  await search.getByLabel("Beginning of the name, or a filter").fill("prices/+");
  await search.getByRole("button", { name: "Search" }).click();
  await page.getByRole("button", { name: "Show topic prices/a", exact: true }).waitFor();
  await picture(page, "admin-topics");
  const publisher = page.getByRole("main").getByRole("form", { name: "Publish" });
  await publisher.getByLabel("Topic", { exact: true }).fill("prices/by hand");
  await publisher.getByLabel("Message", { exact: true }).fill("typed <b>by</b> hand");
  await publisher.getByRole("button", { name: "Publish" }).click();
  await publisher.getByRole("status").filter({ hasText: "Published at" }).waitFor();
  await page.getByRole("button", { name: "Show topic prices/by hand" }).click();
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
    await page.getByRole("heading", { level: 2, name: HEADINGS[place], exact: true }).waitFor();
    const [wide, width] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(wide <= width, `${name}: ${wide} of ${width} pixels`);
    if (name === "Topics") {
      await page.getByRole("button", { name: /^Show topic/ }).first().waitFor();
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
    return [...document.querySelectorAll("a, button, input, select, textarea, meter, [role=img], dialog")].filter((element) => !named(element)).map((element) => element.outerHTML);
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
  await page.goto(`${url}admin`);
  if (apiKey) await login(page);
  await overview(page);
  await haveNames(page);
  await picture(page, "admin-overview");
  const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.notEqual(light, dark);
  await picture(page, "admin-overview-dark");
  await page.emulateMedia({ colorScheme: "light" });
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
  const expected = (text) => /40[01]|404.*\/api\/v1\/logg?/.test(text);
  assert.deepStrictEqual(faults.filter((text) => !expected(text)), []);
  console.log(JSON.stringify({ walked: true }));
}

(async () => {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), "crore-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    chromiumSandbox: false,
    headless: true,
    colorScheme: "light",
    args: ARGUMENTS,
  });
  try {
    context.setDefaultTimeout(TIMEOUT_MS);
    await visit(await context.newPage());
  } finally {
    await context.close();
    fs.rmSync(profile, { recursive: true, force: true });
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
