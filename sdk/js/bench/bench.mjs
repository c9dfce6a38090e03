// Messages per second of one connection, beside a bare WebSocket loop over the same replay in the same run: the loop
// sends the same two frames, and only counts the messages. Also the core alone.
import { Core, clientFrames, parse } from "../dist-test/inside.js";
import { Crore } from "../dist/index.js";
import { Node } from "../test/node.mjs";

const COUNT = Number(process.env.COUNT ?? 100_000);
const ROUNDS = 5;
const TARGET = 0.7;

/** Everything behind the first message of a log with room for all of them. */
let since;

async function filled() {
  const node = await Node.start('[[log]]\nname = "bench"\npartitions_count = 1\nbytes_max = "256MiB"\n[[rule]]\nfilter = "bench"\nlog = "bench"\nhistory_messages_max = 10000000\n');
  const client = new Crore(node.url);
  since = (await client.publish("bench", "first")).position;
  const payload = new Uint8Array(100).fill(46);
  for (let done = 0; done < COUNT; done += 500) {
    await Promise.all(Array.from({ length: Math.min(500, COUNT - done) }, () => client.publish("bench", payload)));
  }
  await client.close();
  return node;
}

/** The bare loop: the platform's WebSocket, and nothing but a count. */
function bare(url) {
  return new Promise((resolve) => {
    const socket = new WebSocket(`${url}/crore`, ["crore.v1"]);
    socket.binaryType = "arraybuffer";
    let count = 0;
    let begin;
    socket.onopen = () => {
      begin = performance.now();
      socket.send(clientFrames.encodeHello());
      socket.send(clientFrames.encodeSubscribe([{ subscription: 1, filter: "bench", start: { kind: "since", ...parse(since) }, failOnGap: false }]));
    };
    socket.onmessage = ({ data }) => {
      if (new Uint8Array(data)[0] !== 0x84 || ++count < COUNT) return;
      resolve((COUNT / (performance.now() - begin)) * 1_000);
      socket.close();
    };
  });
}

async function sdk(url) {
  const client = new Crore(url);
  await client.ready();
  const begin = performance.now();
  const subscription = client.subscribe("bench", { start: { since } });
  let count = 0;
  for await (const item of subscription) {
    if (item.kind === "gap") throw new Error(JSON.stringify(item));
    if (item.kind === "message" && ++count === COUNT) break;
  }
  const rate = (COUNT / (performance.now() - begin)) * 1_000;
  if (!subscription.report().complete) throw new Error("incomplete");
  await client.close();
  return rate;
}

/** The core alone: decode, prove, buffer, take. */
function core() {
  const it = new Core({
    urls: ["ws://x/crore"], hasTokenSource: false, producerId: new Uint8Array(16), backoff: { baseMs: 1, maxMs: 1, resetAfterMs: 1 },
    bufferItems: 1024, bufferBytes: 1 << 20, random: () => 0, logs: false,
  });
  it.start(0);
  const subscription = it.subscribe(0, "bench", { start: { kind: "live" }, failOnGap: false, skips: false });
  it.opened(0);
  it.received(0, Uint8Array.from("81000101000000000000000000808040808040ff07".match(/../g), (two) => parseInt(two, 16)));
  it.received(0, Uint8Array.of(0x82, 0, subscription.number, 5, 7, 0xff, 0x7f));
  it.takeOne(0, subscription);
  const begin = performance.now();
  // Offsets of three bytes.
  for (let offset = 1 << 14; offset < (1 << 14) + COUNT; offset++) {
    const frame = new Uint8Array(108).fill(46);
    frame.set([0x84, 0, 5, (offset & 127) | 128, ((offset >> 7) & 127) | 128, offset >> 14, 1]);
    it.received(0, frame);
    if (it.takeOne(0, subscription)?.offset !== offset) throw new Error(`message ${offset}`);
    it.outputs.length = 0;
  }
  return ((performance.now() - begin) / COUNT) * 1e6;
}

const median = (list) => list.sort((one, other) => one - other)[list.length >> 1];

const node = await filled();
try {
  const rates = { bare: [], sdk: [] };
  const nanoseconds = [];
  for (let round = 0; round < ROUNDS; round++) {
    rates.bare.push(await bare(node.url));
    rates.sdk.push(await sdk(node.url));
    nanoseconds.push(core());
  }
  const share = median(rates.sdk) / median(rates.bare);
  console.log(`bench: bare ${Math.round(median(rates.bare))}/s, crore ${Math.round(median(rates.sdk))}/s: ${Math.round(share * 100)} %`);
  console.log(`bench: core ${Math.round(median(nanoseconds))} ns for a message of 100 bytes`);
  process.exitCode = share >= TARGET ? 0 : 1;
} finally {
  await node.remove();
}
