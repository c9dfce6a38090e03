// Run by each runtime: publish, subscribe, a kill of the node, resume, once. Arguments: the URL of the node. It prints
// `up` when it is live, waits for the node to come back, and prints `done`.
import { Crore } from "../dist/index.js";

const url = (globalThis.Deno?.args ?? globalThis.process.argv.slice(2))[0];
const client = new Crore(url, { backoff: { base: 20, max: 200 }, handshakeFrames: true });
const subscription = client.subscribe("runtime/é");
const wild = client.subscribe("runtime/#");

async function next(it, wanted) {
  for (;;) {
    const item = await it.next();
    if (!item || item.kind === "gap") throw new Error(JSON.stringify(item));
    if (item.kind !== "message") continue;
    if (item.text() !== wanted) throw new Error(`${item.text()} in place of ${wanted}`);
    return;
  }
}

await client.ready();
// The runtime's WebSocket takes the first frames: the first attempt has not failed.
if (client.inspect().events.some(({ event }) => event === "waiting")) throw new Error(JSON.stringify(client.inspect().events));
await client.publish("runtime/é", "1", { once: true });
await next(subscription, "1");
await next(wild, "1");
const lost = new Promise((resolve) => client.onState((state) => state.state === "waiting" && resolve()));
console.log("up");
await lost;
await client.publish("runtime/é", "2", { once: true, tags: { a: "b" } });
await next(subscription, "2");
await next(wild, "2");
if (!subscription.report().complete) throw new Error("incomplete");
await client.close();
console.log("done");
