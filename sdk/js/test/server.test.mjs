// The package against a real node of the server.
import assert from "node:assert/strict";
import test from "node:test";
import { writeFileSync } from "node:fs";
import { connect as connectTo, createServer } from "node:net";
import { join } from "node:path";
import { Crore, CroreError, GapError } from "../dist/index.js";
import { persist, resume } from "../dist/persist.js";
import WS from "ws";
import { Node, ON_DISK, ownAddress } from "./node.mjs";

const QUICK = { backoff: { base: 20, max: 200 } };

/** A storage in memory. */
const memory = (map = new Map()) => ({
  map,
  get: async (key) => map.get(key),
  set: async (key, value) => void map.set(key, value),
  delete: async (key) => void map.delete(key),
});

/** The next message of a subscription; other items are passed over. */
async function message(subscription) {
  for (;;) {
    const item = await subscription.next();
    assert.ok(item, "the subscription has ended");
    if (item.kind === "message") return item;
    assert.notEqual(item.kind, "gap", JSON.stringify(item));
  }
}

/** Waits for a state. */
const when = (client, wanted) =>
  new Promise((resolve) => {
    const stop = client.onState((state) => {
      if (state.state !== wanted) return;
      stop();
      resolve(state);
    });
  });

async function withNode(configuration, body) {
  const node = await Node.start(configuration);
  const clients = [];
  const connect = (options = {}) => {
    const client = new Crore(node.url, { ...QUICK, ...options });
    clients.push(client);
    return client;
  };
  try {
    await body(node, connect);
  } finally {
    for (const client of clients) await client.close({ drain: 0 });
    await node.remove();
  }
}

test("messages go from a publisher to a subscriber, of every kind of data", () =>
  withNode("", async (node, connect) => {
    const client = connect({ name: "test" });
    const plain = client.subscribe("a/b");
    const wild = client.subscribe("a/#");
    await client.ready();
    assert.equal((await plain.next()).kind, "caught_up");
    const tags = { unit: "mm", room: "7" };
    const published = await client.publish("a/b", { x: 1 }, { tags });
    assert.match(published.position, /^\d+:\d+$/);
    assert.equal(published.duplicate, false);
    for (const subscription of [plain, wild]) {
      const it = await message(subscription);
      assert.deepEqual(it.json(), { x: 1 });
      assert.equal(it.contentType, "application/json");
      assert.equal(it.topic, "a/b");
      assert.equal(it.position, published.position);
      assert.equal(it.tag("room"), "7");
    }
    await client.publish("a/b", "grüße");
    assert.equal((await message(plain)).text(), "grüße");
    await client.publish("a/b", Uint8Array.of(0, 255));
    const bad = await message(plain);
    assert.deepEqual([...bad.bytes], [0, 255]);
    // S10: a bad payload fails where it is read, and nowhere else.
    assert.throws(() => bad.text(), TypeError);
    assert.throws(() => bad.json());
    await client.publish("a/b", "next");
    assert.equal((await message(plain)).text(), "next");
    assert.deepEqual({ ...plain.report(), position: 0 }, { complete: true, basis: "proved", gaps: 0, newest: [], skips: 0, messages: 4, position: 0, positions: {} });
    assert.equal(wild.report().basis, "announced");
  }));

test("S12: a subscription is ready when the server has granted it, and fails if it ends before", () =>
  withNode("", async (node, connect) => {
    const client = connect();
    const wild = client.subscribe("a/#");
    await wild.ready();
    // Another client's message comes after the begin, so it comes.
    await connect().publish("a/b", "1");
    assert.equal((await message(wild)).text(), "1");
    await wild.ready();
    await assert.rejects(client.subscribe("b/+", { start: { last: 3 } }).ready(), { name: "unsupported_start" });
    await node.kill();
    const never = client.subscribe("c");
    const ready = assert.rejects(never.ready(), { name: "Closed" });
    never.close();
    await ready;
    await wild.ready();
  }));

test("refusals are errors with code and name", () =>
  withNode("", async (node, connect) => {
    const client = connect();
    await assert.rejects(client.publish("$sys/x", "no"), (error) => {
      assert.ok(error instanceof CroreError);
      assert.deepEqual([error.name, error.code, error.temporary], ["forbidden", 202, false]);
      return true;
    });
    const subscription = client.subscribe("a/+", { start: { last: 3 } });
    await assert.rejects(subscription.next(), { name: "unsupported_start" });
    assert.throws(() => client.subscribe(""), { name: "InvalidArgument" });
    await assert.rejects(client.publish("", "x"), { name: "InvalidArgument" });
    const one = client.subscribe("t");
    assert.throws(() => client.subscribe("t"), { name: "AlreadySubscribed" });
    one.close();
    assert.equal(await one.next(), undefined);
    client.subscribe("t");
  }));

test("history comes page by page, in both directions", () =>
  withNode("", async (node, connect) => {
    const client = connect();
    const positions = [];
    for (let number = 0; number < 25; number++) positions.push((await client.publish("h", String(number))).position);
    const read = async (options) => {
      const texts = [];
      for await (const it of client.history("h", options)) texts.push(it.text());
      return texts;
    };
    const all = positions.map((_, number) => String(number));
    assert.deepEqual(await read(), all);
    assert.deepEqual(await read({ reverse: true }), all.slice().reverse());
    assert.deepEqual(await read({ after: positions[9], limit: 3 }), ["10", "11", "12"]);
    const page = await client.historyPage("h", { limit: 10 });
    assert.deepEqual([page.messages.length, page.more, page.gap], [10, true, undefined]);
    assert.ok(page.messages[0].time > 1e12 && page.messages[0].topic === "h");
  }));

test("a subscription survives kill -9 of the node without a gap and without a repeat", () =>
  withNode(ON_DISK, async (node, connect) => {
    const client = connect();
    const subscription = client.subscribe("a");
    await subscription.ready();
    const other = connect();
    for (let round = 0; round < 3; round++) {
      for (let number = 0; number < 20; number++) await other.publish("a", `${round}.${number}`, { once: true });
      // What was confirmed is on disk: nothing of it may be lost.
      await node.kill("SIGKILL");
      await node.start();
      for (let number = 20; number < 30; number++) await other.publish("a", `${round}.${number}`, { once: true });
      for (let number = 0; number < 30; number++) assert.equal((await message(subscription)).text(), `${round}.${number}`);
    }
    assert.equal(subscription.report().complete, true);
    assert.equal(subscription.report().messages, 90);
  }));

/** A way to a node whose connections become black holes: both ends stay open, and nothing passes any more. */
async function way(node) {
  const pairs = [];
  const server = createServer((client) => {
    const [host, port] = node.listen.split(":");
    const other = connectTo(Number(port), host);
    const pair = { client, isHole: false };
    pairs.push(pair);
    client.on("data", (data) => pair.isHole || other.write(data));
    other.on("data", (data) => pair.isHole || client.write(data));
    for (const [one, next] of [[client, other], [other, client]]) {
      one.on("error", () => {});
      one.on("close", () => pair.isHole || next.destroy());
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const end = () => {
    for (const { client } of pairs) client.destroy();
    server.close();
  };
  return { url: `ws://127.0.0.1:${server.address().port}`, pairs, end };
}

for (const [name, webSocket] of [["Node's own WebSocket", undefined], ["that of `ws`", WS]]) {
  test(`with ${name} a client leaves a black hole, and misses nothing`, () =>
    withNode(ON_DISK, async (node, connect) => {
      const { url, pairs, end } = await way(node);
      try {
        // An event of the platform checks the connection at once.
        let wakeUp;
        const appState = { addEventListener: (_, listener) => ((wakeUp = listener), { remove() {} }) };
        const client = new Crore(url, { ...QUICK, webSocket, appState });
        const subscription = client.subscribe("a");
        await subscription.ready();
        const [hole] = pairs;
        hole.isHole = true;
        await connect().publish("a", "1");
        const ended = new Promise((resolve) => hole.client.once("close", resolve));
        wakeUp("active");
        // The old socket may still be open: Node's own waits for the answer to its close frame.
        assert.equal((await message(subscription)).text(), "1");
        assert.ok(pairs.length > 1);
        assert.equal(subscription.report().complete, true);
        if (webSocket) await ended;
        await client.close();
      } finally {
        end();
      }
    }));
}

test("once is exactly once over kills of the node", () =>
  withNode(ON_DISK, async (node, connect) => {
    const client = connect();
    const calls = [];
    const positions = new Set();
    for (let round = 0; round < 4; round++) {
      for (let number = 0; number < 100; number++) calls.push(client.publish("once", `${round}.${number}`, { once: true }));
      // Some are answered, some are on their way, some wait.
      await calls[calls.length - 90];
      await node.kill("SIGKILL");
      await node.start();
    }
    for (const { position } of await Promise.all(calls)) positions.add(position);
    assert.equal(positions.size, 400);
    const texts = [];
    for await (const it of client.history("once")) texts.push(it.text());
    assert.deepEqual(texts, Array.from({ length: 400 }, (_, at) => `${Math.floor(at / 100)}.${at % 100}`));
  }));

test("a drained node sends its clients away, and they come back to the next one", () =>
  withNode(ON_DISK, async (node, connect) => {
    const events = [];
    const client = connect({ log: (level, event) => events.push(event) });
    const subscription = client.subscribe("a");
    await client.ready();
    await client.publish("a", "before");
    const gone = when(client, "waiting");
    node.process.kill("SIGTERM");
    assert.equal((await gone).reason, "go_away");
    await node.ended;
    await node.start();
    await client.ready();
    await client.publish("a", "after");
    assert.equal((await message(subscription)).text(), "before");
    assert.equal((await message(subscription)).text(), "after");
    assert.equal(subscription.report().complete, true);
    assert.ok(events.includes("go_away"));
  }));

test("tickets resume a session in one frame", () =>
  withNode(ON_DISK, async (node, connect) => {
    const events = [];
    let ticket;
    const hasTicket = new Promise((resolve) => (ticket = resolve));
    const client = connect({
      log(level, event) {
        events.push(event);
        if (event === "ticket") ticket();
      },
    });
    const subscription = client.subscribe("a");
    const wild = client.subscribe("b/#");
    await hasTicket;
    await client.publish("a", "1");
    // Before the client knows, a publication goes into the dead socket.
    const gone = when(client, "waiting");
    await node.kill("SIGKILL");
    await gone;
    await node.start();
    await client.ready();
    await client.publish("a", "2");
    await client.publish("b/c", "3");
    assert.equal((await message(subscription)).text(), "1");
    assert.equal((await message(subscription)).text(), "2");
    assert.equal((await message(wild)).text(), "3");
    assert.ok(!events.includes("ticket_refused"), events.join(" "));
    assert.equal(subscription.report().complete && wild.report().complete, true);
  }));

/** A node that requires tokens of a secret, and gives notice of their expiry two hours before. */
async function guarded() {
  const node = new Node();
  const secret = join(node.folder, "secret");
  node.say("token", "key", "--algorithm", "HS256", "--out", secret);
  node.configuration = `[entitlement]\nmode = "tokens"\nnotice_before = "2h"\n[[token_key]]\nalgorithm = "HS256"\nsecret_file = "${secret}"\n`;
  const token = (expires, ...flags) =>
    node.say("token", "gen", "--secret-file", secret, "--algorithm", "HS256", "--expires", expires, ...flags);
  await node.start();
  return { node, token };
}

test("tokens: a source is called, a refused one is final, permissions hold", async () => {
  const { node, token } = await guarded();
  const clients = [];
  const connect = (options) => {
    clients.push(new Crore(node.url, { ...QUICK, ...options }));
    return clients.at(-1);
  };
  try {
    const reasons = [];
    const good = token("3h", "--sub", "a", "--all", "mine/#");
    const client = connect({ token: async (reason) => (reasons.push(reason), good) });
    await client.ready();
    assert.deepEqual(reasons, ["first"]);
    await client.publish("mine/x", "yes");
    await assert.rejects(client.publish("other", "no"), { name: "forbidden" });
    await assert.rejects(client.subscribe("other").next(), { name: "forbidden" });

    // T7: a fixed token that is refused is final, and so is one that a source repeats.
    await assert.rejects(connect({ token: "not.a.token" }).ready(), { name: "Closed" });
    const asked = [];
    const bad = connect({ token: (reason) => (asked.push(reason), "not.a.token") });
    await assert.rejects(bad.ready(), { name: "Closed" });
    assert.deepEqual(asked, ["first", "refused"]);

    // T7: the second token of a source is accepted.
    const tokens = ["not.a.token", good];
    await connect({ token: () => tokens.shift() }).ready();

    // T9: a source that throws is called again, `Unauthorized` is final.
    let calls = 0;
    await connect({
      token() {
        if (++calls < 3) throw new Error("the network is down");
        return good;
      },
    }).ready();
    assert.equal(calls, 3);
    const refusing = connect({ token: () => Promise.reject(new CroreError("Unauthorized", "log in again")) });
    await assert.rejects(refusing.ready(), { name: "Closed" });
    assert.equal(refusing.state.reason, "token");

    // T2, T4: a short token is renewed in place.
    let count = 0;
    const renewed = [];
    const events = [];
    const short = connect({
      token(reason) {
        renewed.push(reason);
        return token(count++ ? "3h" : "1h", "--sub", "b", "--all", "#");
      },
      log: (level, event, fields) => events.push([event, JSON.stringify(fields)]),
    });
    await short.ready();
    const subscription = short.subscribe("s");
    while (!events.some(([event]) => event === "token_renewed")) {
      await short.publish("s", "x");
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.deepEqual(renewed, ["first", "expires"]);
    assert.equal(subscription.report().complete, true);
    // T11: no token in the log or in `inspect()`.
    assert.ok(!/eyJ/.test(JSON.stringify([events, short.inspect(), client.inspect()])));
  } finally {
    for (const client of clients) await client.close({ drain: 0 });
    await node.remove();
  }
});

test("C2: the first frames go with the handshake, with the token, and a failed one is repeated without them", async () => {
  const { node, token } = await guarded();
  const good = token("3h", "--sub", "a", "--all", "#");
  const offers = [];
  class Offering extends WebSocket {
    constructor(url, protocols) {
      // The first one reaches nobody.
      super(offers.length ? url : `ws://${ownAddress()}:9`, protocols);
      offers.push(protocols);
    }
  }
  const client = new Crore(node.url, { ...QUICK, token: good, handshakeFrames: true, webSocket: Offering });
  try {
    const subscription = client.subscribe("a");
    await client.ready();
    await client.publish("a", "1");
    assert.equal((await message(subscription)).text(), "1");
    const gone = when(client, "waiting");
    await node.kill();
    await gone;
    await node.start();
    await client.ready();
    await client.publish("a", "2");
    const frames = offers.map(([protocol, ...rest]) => {
      assert.equal(protocol, "crore.v1");
      return rest.map((offer) => Buffer.from(/^crore\.frame\.([\w-]+)$/.exec(offer)[1], "base64url"));
    });
    // Attempts take turns until one succeeds. With a ticket HELLO is alone.
    assert.deepEqual(frames.slice(0, 2).map((list) => list.length), [1, 0]);
    assert.ok(frames[2].length > 0);
    assert.equal(frames[0][0][0], 1);
    assert.ok(frames[0][0].includes(good));
  } finally {
    await client.close({ drain: 0 });
    await node.remove();
  }
});

test("R11, P14: a named subscription resumes from what was processed, over a new program", () =>
  withNode(ON_DISK, async (node, connect) => {
    for (const topic of ["a", "w/#"]) {
      const storage = memory();
      const target = topic.replace("#", "x");
      const first = connect({ resume: resume(storage) });
      const subscription = first.subscribe(topic, { name: "reader" });
      assert.equal((await subscription.next()).kind === "gap", false);
      for (let number = 0; number < 5; number++) await first.publish(target, String(number));
      assert.equal((await message(subscription)).text(), "0");
      assert.equal((await message(subscription)).text(), "1");
      // The program ends while it processes 1: it was not processed.
      await first.close();
      const second = connect({ resume: resume(storage) });
      const again = second.subscribe(topic, { name: "reader" });
      assert.equal((await message(again)).text(), "1");
      for (const wanted of ["2", "3", "4"]) assert.equal((await message(again)).text(), wanted);
      assert.equal(again.report().complete, true);
      await second.close();
    }
  }));

test("R11: a named filter resumes in partitions of which nothing was processed", () =>
  withNode(ON_DISK, async (node, connect) => {
    const storage = memory();
    const first = connect({ resume: resume(storage) });
    await first.subscribe("w/#", { name: "reader" }).ready();
    await first.close();
    const other = connect();
    // Of all partitions.
    for (let number = 0; number < 8; number++) await other.publish(`w/${number}`, String(number));
    const again = connect({ resume: resume(storage) }).subscribe("w/#", { name: "reader" });
    const texts = [];
    while (texts.length < 8) texts.push((await message(again)).text());
    assert.deepEqual(texts.sort(), [..."01234567"]);
    assert.equal(again.report().complete, true);
  }));

/** One program with named subscriptions: what came of each, in their order, and what its first WELCOME has resumed. */
async function program(connect, storage, topics, { tickets, come = () => {}, read, isProcessed }, shown = []) {
  let ticket, resumed;
  const hasTicket = new Promise((resolve) => (ticket = resolve));
  const client = connect({
    resume: resume(storage, { tickets }),
    log(level, event, fields) {
      shown.push(JSON.stringify([event, fields]));
      if (event === "connected") resumed ??= fields.resumed;
      if (event === "ticket") ticket();
    },
  });
  const readers = topics.map((topic) => client.subscribe(topic, { name: topic, failOnGap: topic === "a" }));
  await Promise.all(readers.map((reader) => reader.ready()));
  await come();
  const texts = [];
  for (const reader of readers) for (let count = 0; count < read; count++) texts.push((await message(reader)).text());
  if (isProcessed) for (const reader of readers) void reader.each(() => {});
  if (tickets) await hasTicket;
  shown.push(JSON.stringify(client.inspect()));
  await client.close();
  return [texts.join(), resumed];
}

test("R11, T11: a stored ticket brings back the subscriptions of the next program in one frame, and is shown nowhere", () =>
  withNode(ON_DISK, async (node, connect) => {
    const storage = memory();
    const other = connect();
    const both = ["a", "w/#"];
    const come = async () => {
      for (const topic of ["a", "w/x"]) await other.publish(topic, "0");
    };
    const shown = [];
    const tickets = () => [...storage.map].filter(([key, value]) => key.startsWith("crore:ticket:") && value);
    assert.deepEqual(await program(connect, storage, both, { come, read: 1, isProcessed: true }, shown), ["0,0", undefined]);
    assert.deepEqual(tickets(), []);
    assert.deepEqual(await program(connect, storage, both, { tickets: true, read: 0, isProcessed: true }, shown), ["", undefined]);
    const { ticket } = JSON.parse(tickets()[0][1]);
    await come();
    assert.deepEqual(await program(connect, storage, both, { tickets: true, read: 1 }, shown), ["0,0", 2]);
    // A program with other subscriptions has no use for it.
    assert.deepEqual(await program(connect, storage, ["a"], { tickets: true, read: 1 }, shown), ["0", undefined]);
    assert.ok(ticket.length > 64 && !shown.some((text) => text.includes(ticket)));
  }));

test("R11: a stored ticket hides nothing that was not processed", () =>
  withNode(ON_DISK, async (node, connect) => {
    const storage = memory();
    const other = connect();
    // All three come before the ticket; the first program ends while it processes 0.
    const come = async () => {
      for (const text of "012") await other.publish("a", text);
    };
    assert.deepEqual(await program(connect, storage, ["a"], { tickets: true, come, read: 1 }), ["0", undefined]);
    assert.deepEqual(await program(connect, storage, ["a"], { tickets: true, read: 3 }), ["0,1,2", undefined]);
  }));

test("U13: stored publications survive the program, and are in the log once", () =>
  withNode(ON_DISK, async (node, connect) => {
    const storage = memory();
    const first = connect({ persist: persist(storage) });
    await first.publish("p", "0", { once: true });
    await node.kill("SIGKILL");
    // Without a node: stored, and never answered in this program.
    const lost = [1, 2, 3].map((number) => first.publish("p", String(number), { once: true, tags: { n: String(number) } }));
    const settled = Promise.allSettled(lost);
    await first.close({ drain: 0 });
    for (const { reason } of await settled) assert.ok(["Closed", "Unknown"].includes(reason.name), reason.name);
    assert.equal([...storage.map.keys()].length, 4, [...storage.map.keys()].join());
    await node.start();
    const second = connect({ persist: persist(storage) });
    await second.publish("p", "4", { once: true });
    const found = [];
    for await (const it of second.history("p")) found.push([it.text(), it.tag("n") ?? ""]);
    assert.deepEqual(found, [["0", ""], ["1", "1"], ["2", "2"], ["3", "3"], ["4", ""]]);
    await second.close();
    assert.equal([...storage.map.keys()].length, 1, "only the lane is left");
  }));

test("U13, U11: a stored publication that is given up is forgotten, and never sent", () =>
  withNode(ON_DISK, async (node, connect) => {
    const storage = memory();
    const client = connect({ persist: persist(storage) });
    await client.publish("p", "0", { once: true });
    const gone = when(client, "waiting");
    await node.kill("SIGKILL");
    await gone;
    const kept = client.publish("p", "kept", { once: true });
    const [early, late] = [new AbortController(), new AbortController()];
    early.abort();
    await assert.rejects(client.publish("p", "early", { once: true, signal: early.signal }), { name: "Expired" });
    const given = client.publish("p", "late", { once: true, signal: late.signal });
    while (storage.map.size < 3) await new Promise((resolve) => setImmediate(resolve));
    late.abort();
    await assert.rejects(given, { name: "Expired" });
    await node.start();
    await kept;
    const texts = [];
    for await (const it of client.history("p")) texts.push(it.text());
    assert.deepEqual(texts, ["0", "kept"]);
    await client.close();
    assert.equal(storage.map.size, 1, "only the lane is left");
  }));

test("P13: messages() throws in place of a gap and goes on; failOnGap has a restart", () =>
  withNode(ON_DISK, async (node, connect) => {
    const client = connect();
    const first = await client.publish("g", "first");
    await client.publish("g", "second");
    // A position of an epoch that never was: everything before is a gap.
    const [, offset] = first.position.split(":");
    const position = `1:${offset}`;
    const subscription = client.subscribe("g", { start: { since: position } });
    await assert.rejects(
      async () => {
        for await (const it of subscription.messages()) assert.fail(it.text());
      },
      (error) => error instanceof GapError && error.from === position && error.name === "GapError",
    );
    await client.publish("g", "third");
    const texts = [];
    for await (const it of subscription.messages()) {
      texts.push(it.text());
      if (it.text() === "third") break;
    }
    assert.equal(texts.at(-1), "third");
    assert.equal(subscription.report().complete, false);
    assert.equal(subscription.report().gaps, 1);
    subscription.close();

    const strict = client.subscribe("g", { start: { since: position }, failOnGap: true });
    await assert.rejects(strict.next(), (error) => error.name === "position_unavailable" && /^\d+:\d+$/.test(error.restart));

    const counting = client.subscribe("g", { start: { since: position } });
    const messages = counting.messages({ gaps: "report" });
    await client.publish("g", "fourth");
    for await (const it of messages) if (it.text() === "fourth") break;
    assert.equal(counting.report().gaps, 1);
  }));

test("B5: a slow reader stops no other subscription, and misses nothing", () =>
  withNode(ON_DISK, async (node, connect) => {
    const client = connect({ buffer: { items: 16 } });
    const slow = client.subscribe("slow");
    const quick = client.subscribe("quick");
    await client.ready();
    await Promise.all([slow.ready(), quick.ready()]);
    const publisher = connect();
    for (let number = 0; number < 200; number++) {
      await publisher.publish("slow", String(number));
      await publisher.publish("quick", String(number));
      assert.equal((await message(quick)).text(), String(number));
    }
    assert.ok(client.inspect().subscriptions[0].buffered <= 16);
    for (let number = 0; number < 200; number++) assert.equal((await message(slow)).text(), String(number));
    assert.equal(slow.report().complete, true);
  }));

test("X3: close in every state and twice is safe, and a call after it fails", () =>
  withNode("", async (node, connect) => {
    const url = node.url;
    const states = [
      async () => new Crore(url, QUICK),
      async () => {
        const client = new Crore(url, QUICK);
        await client.ready();
        return client;
      },
      async () => {
        const client = new Crore(`ws://${ownAddress()}:9`, QUICK);
        await when(client, "waiting");
        return client;
      },
    ];
    for (const make of states) {
      const client = await make();
      const subscription = client.subscribe("x");
      const reading = (async () => {
        for await (const item of subscription) assert.equal(item.kind, "caught_up");
      })();
      await Promise.all([client.close(), client.close()]);
      await client.close();
      await reading;
      assert.equal(client.state.state, "closed");
      await assert.rejects(client.publish("x", "y"), { name: "Closed" });
      await assert.rejects(client.historyPage("x"), { name: "Closed" });
      assert.throws(() => client.subscribe("z"), { name: "Closed" });
      await assert.rejects(client.ready(), { name: "Closed" });
    }
    connect();
  }));

test("X5: a callback that throws harms nobody, and may call the client", () =>
  withNode("", async (node, connect) => {
    const failures = [];
    const client = connect({ log: (level, event) => event === "callback_failed" && failures.push(event) });
    client.onState(() => {
      throw new Error("mine");
    });
    const subscription = client.subscribe("x");
    const seen = [];
    const done = subscription.each(async (item) => {
      if (item.kind !== "message") return;
      seen.push(item.text());
      if (item.text() === "1") await client.publish("x", "2");
      if (item.text() === "2") subscription.close();
      throw new Error("mine too");
    });
    await client.publish("x", "1");
    await done;
    assert.deepEqual(seen, ["1", "2"]);
    assert.ok(failures.length >= 3);
  }));

test("X6: inspect() is a plain object with what a person asks for", () =>
  withNode("", async (node, connect) => {
    const client = connect();
    const subscription = client.subscribe("x");
    await client.publish("x", "1");
    await message(subscription);
    const shown = client.inspect();
    assert.deepEqual(JSON.parse(JSON.stringify(shown)).state, { state: "live" });
    assert.equal(shown.subscriptions[0].topic, "x");
    assert.equal(shown.subscriptions[0].messages, 1);
    assert.equal(shown.queue.sent, 0);
    assert.ok(shown.roundTripMs >= 0);
    assert.ok(shown.events.some(({ event }) => event === "connected"));
    assert.equal(shown.counters.messages, 1);
  }));

test("U11: an aborted call that was not sent never is", () =>
  withNode("", async (node, connect) => {
    await node.kill();
    const client = connect();
    const controller = new AbortController();
    const call = client.publish("x", "never", { signal: controller.signal });
    controller.abort();
    await assert.rejects(call, { name: "Expired" });
    await assert.rejects(client.publish("x", "never", { signal: controller.signal }), { name: "Expired" });
    await node.start();
    await client.publish("x", "then");
    const texts = [];
    for await (const it of client.history("x")) texts.push(it.text());
    assert.deepEqual(texts, ["then"]);
  }));

test("U15: many publications of one turn wait for room in the socket, and all arrive in order", () =>
  withNode("", async (node, connect) => {
    const client = connect();
    await client.ready();
    const data = new Uint8Array(60_000);
    const positions = await Promise.all(Array.from({ length: 100 }, () => client.publish("big", data)));
    const offsets = positions.map(({ position }) => Number(position.split(":")[1]));
    assert.deepEqual(offsets, offsets.slice().sort((one, other) => one - other));
    assert.equal(new Set(offsets).size, 100);
  }));
