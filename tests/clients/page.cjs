// A headless Chromium on the live page, steered by playwright-core: what a person would do and see.
// Usage: page.cjs OPERATORS_URL [LINK_URL]. Prints `{"watching":true}` when the page is live, then expects a message
// `from elsewhere` on the topic `demo/elsewhere`, and publishes one itself by hand. With LINK_URL, another way to the
// clients' port, it prints `{"seen":true}` after that message, expects that the link is cut, prints
// `{"reconnecting":true}`, and expects the gap to be shown once the link is mended.
"use strict";

const assert = require("node:assert");
const { browse } = require("./browser.cjs");

const [url, link] = process.argv.slice(2);

async function visit(page) {
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(message.text());
  });
  await page.goto(url);
  await page.locator('#state[data-state="live"]').waitFor();
  console.log(JSON.stringify({ watching: true }));

  await page.locator("#rows li", { hasText: "from elsewhere" }).waitFor();

  await page.fill("#topic", "demo/by hand");
  await page.fill("#payload", "typed by a person: <b>äöü</b>");
  await page.click("#publish button[type=submit]");
  await page.locator('#outcome[data-kind="good"]').waitFor();
  const row = page.locator("#rows li", { hasText: "typed by a person: <b>äöü</b>" });
  await row.waitFor();
  assert.match(await row.textContent(), /demo\/by hand/);

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

  // A topic that is not a topic is refused with a reason.
  await page.fill("#topic", "demo/#");
  await page.click("#publish button[type=submit]");
  await page.locator('#outcome[data-kind="bad"]').waitFor();
  const unexpected = faults.filter((text) => !text.includes("400"));
  assert.deepStrictEqual(unexpected, []);
}

async function visitByLink(page) {
  await page.route("**/page.json", async (route) => {
    const facts = await (await route.fetch()).json();
    await route.fulfill({ json: { ...facts, clients: link } });
  });
  await page.goto(url);
  await page.locator('#state[data-state="live"]').waitFor();
  console.log(JSON.stringify({ watching: true }));
  await page.locator("#rows li", { hasText: "from elsewhere" }).waitFor();
  assert.equal(await page.textContent("#gaps"), "0");
  console.log(JSON.stringify({ seen: true }));
  await page.locator('#state[data-state="waiting"]').waitFor();
  console.log(JSON.stringify({ reconnecting: true }));
  await page.locator("#rows li.note", { hasText: "Gap" }).waitFor();
  await page.locator('#gap-box[data-alarm="yes"] #gaps', { hasText: "1" }).waitFor();
  await page.locator('#state[data-state="live"]').waitFor();
}

// The page's policy knows the node's own address only.
browse(link === undefined ? visit : visitByLink, { bypassCSP: link !== undefined });
