// The pictures of docs/images: a node with many clients, as the operators' pages and a report show
// it.
// Usage: screenshots.cjs CRORE_BINARY FOLDER [CLIENTS] [SECONDS]. A run of `crore bench` starts the
// node and its clients; the pictures are taken before its measured span of so many seconds ends,
// that of the report after it.
"use strict";

const assert = require("node:assert");
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const { browse } = require("./browser.cjs");

const [binary, folder, clients = "100000", seconds = "300"] = process.argv.slice(2);
const PICTURE_BYTES_MAX = 150_000;
const PATIENCE_MS = 15 * 60_000;
const WIDE = { width: 1280, height: 800 };
// For what is full of text: pictures stay small.
const NARROW = { width: 1000, height: 700 };
const PHONE = { width: 390, height: 844 };

// A run of the workload with 100 clients on each topic.
function bench(out) {
  const words = `bench run one-million --clients ${clients} --rate 20 --settle 5s --warm-up 2s --duration ${seconds}s --interval 2s --connect-rate 2000 --no-pin`;
  const run = spawn(binary, [...words.split(" "), "--out", out], { stdio: ["ignore", "inherit", "inherit"] });
  const ended = new Promise((resolve) => run.on("exit", resolve));
  return { run, ended };
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(what, find) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await find();
    if (found) return found;
    assert.ok(Date.now() < deadline, `in vain: ${what}`);
    await pause(500);
  }
}

function operatorsOf(out) {
  const log = path.join(out, "server.log");
  return fs.existsSync(log) ? fs.readFileSync(log, "utf8").match(/listening operators (http:[^\s]+?)\/?$/m)?.[1] : undefined;
}

const get = async (url) => (await fetch(url)).json();

// Some topics with names and values of people, beside those of the run.
function publishPrices(url) {
  const pairs = ["EUR-USD", "GBP-USD", "USD-JPY", "XAU-USD", "USD-CHF", "AUD-USD", "USD-CAD", "NZD-USD", "EUR-GBP", "EUR-CHF", "EUR-JPY", "XAG-USD"];
  let number = 0;
  const timer = setInterval(() => {
    // Some more often than others.
    const pair = pairs[Math.floor((((number * 7) % 64) / 64) ** 2 * pairs.length)];
    number += 1;
    const data = JSON.stringify({ bid: +(1.08 + Math.sin(number / 9) / 100).toFixed(4), ask: +(1.0802 + Math.sin(number / 9) / 100).toFixed(4) });
    const body = JSON.stringify({ topic: `prices/${pair}`, data, content_type: "application/json", retain: true });
    fetch(`${url}/api/v1/publish`, { method: "POST", headers: { "content-type": "application/json" }, body }).catch(() => {});
  }, 125);
  return () => clearInterval(timer);
}

async function picture(page, name) {
  const file = path.join(folder, `${name}.png`);
  await page.screenshot({ path: file });
  const { size } = fs.statSync(file);
  assert.ok(size <= PICTURE_BYTES_MAX, `${file} has ${size} bytes`);
  console.log(`${file} ${size} bytes`);
}

async function overview(page, url) {
  await page.setViewportSize(WIDE);
  await page.goto(`${url}/admin#/overview`);
  await page.getByRole("img", { name: /^Connections: [1-9]/ }).waitFor();
  await picture(page, "admin-overview");
  await page.emulateMedia({ colorScheme: "dark" });
  await picture(page, "admin-overview-dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(PHONE);
  await page.reload();
  await page.getByRole("img", { name: /^Connections: [1-9]/ }).waitFor();
  await picture(page, "admin-phone");
  await page.setViewportSize(WIDE);
}

async function lists(page, url) {
  await page.goto(`${url}/admin#/topics`);
  await page.getByLabel("Prefix of the name, or a filter").fill("prices/");
  await page.getByRole("button", { name: "Search" }).click();
  await page.getByRole("status").filter({ hasText: /^[0-9]+ found, of / }).waitFor();
  await page.getByRole("columnheader", { name: "Rate" }).getByRole("button").click();
  await picture(page, "admin-topics");
  await page.setViewportSize(NARROW);
  await page.goto(`${url}/admin#/topics/prices/EUR-USD`);
  await page.getByRole("dialog").getByRole("cell", { name: /bid/ }).first().waitFor();
  await picture(page, "admin-topic");
  await page.goto(`${url}/admin#/connections`);
  await page.getByRole("link", { name: /^Show connection/ }).nth(3).click();
  await page.getByRole("dialog").getByRole("cell", { name: "live" }).waitFor();
  await picture(page, "admin-connection");
  await page.setViewportSize(WIDE);
}

async function live(page, url) {
  await page.setViewportSize(NARROW);
  await page.goto(`${url}/?topic=${encodeURIComponent("prices/#")}`);
  await page.fill("#topic", "prices/EUR-USD");
  await page.fill("#payload", '{"bid":1.0812,"ask":1.0814}');
  await page.selectOption("#type", "application/json");
  await page.locator("#rows li").nth(12).waitFor();
  await picture(page, "live-page");
  await page.setViewportSize(PHONE);
  await picture(page, "live-page-phone");
  await page.setViewportSize(WIDE);
}

async function report(page, out) {
  await page.goto(pathToFileURL(path.join(out, "report.html")).href);
  await page.locator(".charts svg").first().waitFor();
  await picture(page, "report");
  await page.emulateMedia({ colorScheme: "dark" });
  await page.evaluate(() => document.querySelector(".charts").scrollIntoView());
  await picture(page, "report-dark");
}

browse(async (page) => {
  fs.mkdirSync(folder, { recursive: true });
  const out = fs.mkdtempSync(path.join(os.tmpdir(), "crore-screenshots-"));
  const { run, ended } = bench(out);
  try {
    const url = await until("the node", () => operatorsOf(out));
    const stop = publishPrices(url);
    await until("all clients", async () => (await get(`${url}/api/v1/statistics`)).connections >= Number(clients));
    const samplesMin = Math.min(150, Math.floor(Number(seconds) / 2) - 10);
    await until("the charts", async () => (await get(`${url}/api/v1/statistics/history`)).samples.length >= samplesMin);
    await overview(page, url);
    await lists(page, url);
    await live(page, url);
    stop();
    assert.equal(await ended, 0, "the run is complete");
    await report(page, out);
  } finally {
    run.kill("SIGTERM");
    await ended;
    fs.rmSync(out, { recursive: true, force: true });
  }
});
