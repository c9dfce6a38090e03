// The bundle in Chromium: the shell over a browser's WebSocket, storage, Web Locks, and the events of a page.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { Crore } from "../dist/index.js";
import { serve } from "../example/serve.mjs";
import { Node, ON_DISK } from "./node.mjs";

const program = process.env.CHROMIUM ?? "/usr/bin/chromium";

const SKIP = { skip: !existsSync(program) && "there is no Chromium" };

async function browser() {
  const profile = mkdtempSync(join(tmpdir(), "crore-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: program,
    timeout: 120_000,
    chromiumSandbox: false,
    headless: true,
    args: ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  // A machine with other work is slow.
  context.setDefaultTimeout(120_000);
  const close = async () => {
    await context.close();
    // Processes of the browser may still write.
    rmSync(profile, { recursive: true, force: true, maxRetries: 50, retryDelay: 200 });
  };
  return { context, close };
}

/** Serves a page with the package as `crore`, at a port of its own. */
async function site() {
  const { outputFiles } = await build({
    stdin: {
      contents: 'import * as crore from "./dist/index.js"; import { persist } from "./dist/persist.js"; Object.assign(globalThis, { ...crore, persist });',
      resolveDir: new URL("..", import.meta.url).pathname,
    },
    bundle: true,
    write: false,
    format: "iife",
    target: "es2020",
  });
  const server = createServer((request, response) => {
    const isScript = request.url === "/crore.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? outputFiles[0].text : '<!doctype html><title>crore</title><script src="/crore.js"></script>');
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}` };
}

test("the bundle works in Chromium", SKIP, async () => {
  const { server, url } = await site();
  const node = await Node.start(`${ON_DISK}[http]\nallowed_origins = ["${url}"]\n`);
  const { context, close } = await browser();
  try {
    const page = await context.newPage();
    await page.goto(url);
    const first = await page.evaluate(async (address) => {
      globalThis.client = new Crore(address, { backoff: { base: 20, max: 200 }, handshakeFrames: true });
      globalThis.subscription = client.subscribe("page/ü");
      globalThis.next = async () => {
        for (;;) {
          const item = await subscription.next();
          if (item.kind === "gap") throw new Error("a gap");
          if (item.kind === "message") return item.text();
        }
      };
      await client.ready();
      await client.publish("page/ü", "grüße", { once: true });
      const hasWaited = client.inspect().events.some(({ event }) => event === "waiting");
      return [await next(), hasWaited];
    }, node.url);
    // C2: with the first frames in the handshake.
    assert.deepEqual(first, ["grüße", false]);

    // A kill of the node: the page comes back by itself and misses nothing.
    await node.kill();
    await node.start();
    const second = await page.evaluate(async () => {
      await client.publish("page/ü", "again", { once: true });
      return [await next(), subscription.report().complete];
    });
    assert.deepEqual(second, ["again", true]);

    // The page is hidden for good and shown again: the socket is closed, and opened anew.
    const third = await page.evaluate(async () => {
      const before = client.inspect().counters.connections;
      dispatchEvent(new Event("pagehide"));
      const hidden = client.state.state;
      dispatchEvent(new Event("pageshow"));
      await client.ready();
      await client.publish("page/ü", "shown");
      return [hidden, await next(), client.inspect().counters.connections - before];
    });
    assert.deepEqual(third, ["waiting", "shown", 1]);

    // `online` checks the connection, which is alive.
    const alive = await page.evaluate(async () => {
      dispatchEvent(new Event("online"));
      await client.publish("page/ü", "online");
      return [await next(), client.state.state];
    });
    assert.deepEqual(alive, ["online", "live"]);

    // U13: two clients of one name hold two lanes, so that neither fences the other.
    const lanes = await page.evaluate(async (address) => {
      const storage = {
        get: (key) => localStorage.getItem(key),
        set: (key, value) => localStorage.setItem(key, value),
        delete: (key) => localStorage.removeItem(key),
      };
      const clients = [1, 2].map(() => new Crore(address, { persist: persist(storage, "tab") }));
      for (const it of [...clients, ...clients]) await it.publish("lanes", "x", { once: true });
      for (const it of clients) await it.close();
      await client.close();
      return Object.keys(localStorage).filter((key) => key.startsWith("crore:once:")).sort();
    }, node.url);
    assert.deepEqual(lanes, ["crore:once:tab:0", "crore:once:tab:1"]);

    // A browser shows no status: a refused origin is retried, not final, and the log has a hint.
    const refusing = await Node.start("");
    const refused = await page.evaluate(async (address) => {
      const events = [];
      const stranger = new Crore(address, { backoff: { base: 1, max: 5 }, log: (level, event, fields) => events.push(fields.hint) });
      while (!events.some((hint) => hint)) await new Promise((resolve) => setTimeout(resolve, 5));
      const { state } = stranger.state;
      await stranger.close();
      return state !== "closed";
    }, refusing.url);
    await refusing.remove();
    assert.equal(refused, true);
  } finally {
    await close();
    await node.remove();
    server.close();
  }
});

test("the dashboard of the example shows what is published, over a kill of the node", SKIP, async () => {
  const { server, url } = await serve(0);
  const node = await Node.start(`${ON_DISK}[http]\nallowed_origins = ["${url}"]\n`);
  const { context, close } = await browser();
  try {
    const page = await context.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(error.message));
    await page.goto(`${url}/?node=${node.url}`);
    const cellar = page.locator("#cellar");
    await cellar.getByText("live, 0 values, none missing").waitFor();
    const client = new Crore(node.url);
    for (const value of [10, 12, 11]) await client.publish("rooms/cellar/temperature", { value });
    await cellar.getByText("11.0 °C, from 10.0 to 12.0").waitFor();
    assert.equal((await cellar.locator("polyline").getAttribute("points")).split(" ").length, 3);
    await node.kill();
    await cellar.getByText("waiting").waitFor();
    await node.start();
    await client.publish("rooms/cellar/temperature", { value: 13 }, { once: true });
    await cellar.getByText("live, 4 values, none missing").waitFor();
    await page.getByRole("button").click();
    await page.locator("output").getByText(/^\d+:\d+$/).waitFor();
    await client.close();
    assert.deepEqual(errors, []);
  } finally {
    await close();
    await node.remove();
    server.close();
  }
});
