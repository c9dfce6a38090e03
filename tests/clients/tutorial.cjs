// A headless Chromium on the page of docs/tutorial.md.
// Usage: tutorial.cjs URL LAST_UPDATE. Prints `{"state":...}` when the state changes and `{"update":...}` for each line of
// the history. After LAST_UPDATE it prints `{"table":...,"updates":...,"gaps":...}` and ends.
"use strict";

const { browse } = require("./browser.cjs");

const [url, last] = process.argv.slice(2);
// The node is killed and started again meanwhile.
const LAST_UPDATE_TIMEOUT_MS = 300_000;

async function visit(page) {
  await page.exposeFunction("report", (line) => console.log(JSON.stringify(line)));
  await page.addInitScript(() => {
    const lines = () => [...document.querySelectorAll("#history li")].map((it) => it.textContent);
    let state = "connecting";
    let reported = 0;
    const look = () => {
      const now = document.getElementById("state")?.textContent ?? state;
      if (now !== state) window.report({ state: now });
      state = now;
      for (const line of lines().slice(reported)) window.report({ update: line });
      reported = lines().length;
    };
    const all = { childList: true, characterData: true, subtree: true };
    new MutationObserver(look).observe(document, all);
  });
  await page.goto(url);
  await page.locator("#history li", { hasText: last }).waitFor({ timeout: LAST_UPDATE_TIMEOUT_MS });
  const text = (selector) => page.locator(selector).innerText();
  const [updates, gaps] = [await text("#updates"), await text("#gaps")];
  console.log(JSON.stringify({ table: await text("#now"), updates, gaps }));
}

browse(visit);
