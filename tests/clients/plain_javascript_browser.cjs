// Code for a browser, as it stands, in a headless Chromium, on a page of the node.
// Usage: plain_javascript_browser.cjs URL FILE LAST. Prints what the code prints and warns about, and ends behind LAST.
"use strict";

const { readFileSync } = require("node:fs");
const { browse } = require("./browser.cjs");

const [url, file, last] = process.argv.slice(2);
// The node is killed and started again meanwhile.
const LAST_LINE_TIMEOUT_MS = 300_000;

async function visit(page) {
  page.on("console", (message) => {
    // The browser itself writes errors, such as those of an attempt to connect.
    if (message.type() !== "error") console.log(message.text());
  });
  await page.goto(url);
  const ended = page.waitForEvent("console", {
    predicate: (message) => message.text() === last,
    timeout: LAST_LINE_TIMEOUT_MS,
  });
  await page.evaluate(readFileSync(file, "utf8"));
  await ended;
}

browse(visit);
