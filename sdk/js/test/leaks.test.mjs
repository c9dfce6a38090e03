// Ten thousand cycles leave nothing behind: no memory, timer, listener or entry of a table.
import assert from "node:assert/strict";
import test from "node:test";
import { Crore } from "../dist/index.js";
import { Node } from "./node.mjs";

const CYCLES = 10_000;

function used() {
  for (let round = 0; round < 4; round++) gc();
  return process.memoryUsage().heapUsed;
}

test("ten thousand subscriptions, publications and aborted calls leave nothing behind", async () => {
  const node = await Node.start("[limits]\nsubscribe_rate_max = 1000000\n");
  const client = new Crore(node.url);
  await client.ready();
  const cycle = async (number) => {
    const topic = `leak/${number % 100}`;
    const subscription = client.subscribe(topic);
    const controller = new AbortController();
    const published = client.publish(topic, "x", { signal: controller.signal, once: number % 2 === 0 });
    const reading = subscription.next();
    await published;
    await reading;
    controller.abort();
    subscription.close();
  };
  for (let number = 0; number < 5_000; number++) await cycle(number);
  const before = used();
  for (let number = 0; number < CYCLES; number++) await cycle(number);
  const grown = used() - before;
  console.log(`leaks: ${CYCLES} cycles, ${Math.round(grown / 1024)} KiB more on the heap`);
  // The heap itself moves by some hundred KiB; 100 bytes for each cycle would be a leak.
  assert.ok(grown < CYCLES * 100, `${grown} bytes`);
  const shown = client.inspect();
  assert.deepEqual([shown.subscriptions.length, shown.queue.sent, shown.queue.waiting, shown.queue.once], [0, 0, 0, 0]);
  await client.close();
  await node.remove();
});

test("closed clients leave no timer and no socket behind", async () => {
  const node = await Node.start("");
  const resources = () => process.getActiveResourcesInfo().filter((it) => /Timeout|TCPSocket/.test(it)).length;
  const run = async (count) => {
    for (let number = 0; number < count; number++) {
      const client = new Crore(node.url);
      client.subscribe("x");
      await client.ready();
      await client.close();
      // The close handshake ends on its own.
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await run(200);
  const before = used();
  const open = resources();
  await run(300);
  while (resources() > open) await new Promise((resolve) => setImmediate(resolve));
  const grown = (used() - before) / 300;
  console.log(`leaks: ${Math.round(grown)} bytes for each closed client`);
  // A client that stayed would be ten times as much.
  assert.ok(grown < 4_000, `${grown} bytes for each client`);
  await node.remove();
});
