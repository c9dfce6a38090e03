// Messages per second of one connection, beside a bare WebSocket loop over the same replay in the same run: the loop
// sends the same two frames, and only counts the messages. A second is one of this process's processor time, so that
// other programs of the machine do not count. Also the core alone.
import { clientFrames, parse } from "../dist-test/inside.js";
import { Core } from "../test/core_driver.mjs";
import { Crore } from "../dist/index.js";
import { Node } from "../test/node.mjs";

const COUNT = Number(process.env.COUNT ?? 100_000);
const ROUNDS = Number(process.env.ROUNDS ?? 5);
const TARGET = 0.7;

/** Microseconds of processor time. */
const spent = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};
const rateSince = (begin) => (COUNT / (spent() - begin)) * 1e6;

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
      begin = spent();
      socket.send(clientFrames.encodeHello());
      const start = [1, ...clientFrames.placed(parse(since))];
      socket.send(clientFrames.plain(2, 1, ...clientFrames.subscribeItem(1, "bench", start, {})));
    };
    socket.onmessage = ({ data }) => {
      if (new Uint8Array(data)[0] !== 0x84 || ++count < COUNT) return;
      resolve(rateSince(begin));
      socket.close();
    };
  });
}

/** The ways to read: each calls back for every item, until `isLast` says so. */
const WAYS = {
  async "for await"(subscription, isLast) {
    for await (const item of subscription) if (isLast(item)) break;
  },
  async "messages()"(subscription, isLast) {
    for await (const item of subscription.messages()) if (isLast(item)) break;
  },
  async "each()"(subscription, isLast) {
    await subscription.each((item) => isLast(item) && subscription.close());
  },
};

async function sdk(url, way) {
  const client = new Crore(url);
  await client.ready();
  const begin = spent();
  const subscription = client.subscribe("bench", { start: { since } });
  let count = 0;
  await WAYS[way](subscription, (item) => {
    if (item.kind === "gap") throw new Error(JSON.stringify(item));
    return item.kind === "message" && ++count === COUNT;
  });
  const rate = rateSince(begin);
  if (!subscription.report().complete) throw new Error("incomplete");
  await client.close();
  return rate;
}

/** The core alone: decode, prove, buffer, take. */
function core() {
  const it = new Core({ urls: ["ws://x/crore"], producerId: new Uint8Array(16) });
  it.start(0);
  const subscription = it.subscribe(0, "bench");
  it.opened(0);
  it.received(0, Uint8Array.from("81000101000000000000000000808040808040ff07".match(/../g), (two) => parseInt(two, 16)));
  it.received(0, Uint8Array.of(0x82, 0, subscription.number, 5, 7, 0xff, 0x7f));
  it.takeOne(0, subscription);
  const begin = spent();
  // Offsets of three bytes.
  for (let offset = 1 << 14; offset < (1 << 14) + COUNT; offset++) {
    const frame = new Uint8Array(108).fill(46);
    frame.set([0x84, 0, 5, (offset & 127) | 128, ((offset >> 7) & 127) | 128, offset >> 14, 1]);
    it.received(0, frame);
    if (it.takeOne(0, subscription)?.offset !== offset) throw new Error(`message ${offset}`);
    it.outputs.length = 0;
  }
  return ((spent() - begin) / COUNT) * 1e3;
}

const median = (list) => list.sort((one, other) => one - other)[list.length >> 1];

const node = await filled();
try {
  const rates = { bare: [] };
  const nanoseconds = [];
  for (let round = 0; round < ROUNDS; round++) {
    rates.bare.push(await bare(node.url));
    for (const way of Object.keys(WAYS)) (rates[way] ??= []).push(await sdk(node.url, way));
    nanoseconds.push(core());
  }
  const bareRate = median(rates.bare);
  console.log(`bench: bare ${Math.round(bareRate)}/s`);
  for (const way of Object.keys(WAYS)) {
    const share = median(rates[way]) / bareRate;
    console.log(`bench: ${way} ${Math.round(median(rates[way]))}/s: ${Math.round(share * 100)} %`);
    if (share < TARGET) process.exitCode = 1;
  }
  console.log(`bench: core ${Math.round(median(nanoseconds))} ns for a message of 100 bytes`);
} finally {
  await node.remove();
}
