// A headless Chromium on the administration page of a node in a cluster: the view of its nodes.
// Usage: cluster_page.cjs OPERATORS_URL OWN_NAME NAME... Prints `{"shown":true}`, then ends.
"use strict";

const assert = require("node:assert");
const { browse } = require("./browser.cjs");

const [url, own, ...names] = process.argv.slice(2);

async function visit(page) {
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(`${message.text()} ${message.location().url}`);
  });
  await page.setViewportSize({ width: 1200, height: 800 });
  await page.goto(`${url}admin`);
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Cluster" }).click();
  await page.getByText(new RegExp(`^${names.length} of ${names.length} nodes live, with [0-9]+ connections\\.$`)).waitFor();
  for (const name of names) {
    const row = page.getByRole("row", { name: name === own ? `${name} (this one)` : name });
    await row.getByRole("cell", { name: "living", exact: true }).waitFor();
  }
  // On a phone nothing stands beyond the edge of the screen.
  await page.setViewportSize({ width: 360, height: 740 });
  const [wide, width] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(wide <= width, `${wide} of ${width} pixels`);
  assert.deepStrictEqual(faults, []);
  console.log(JSON.stringify({ shown: true }));
}

browse(visit);
