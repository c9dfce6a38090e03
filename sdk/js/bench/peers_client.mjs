// One client of bench/peers.mjs, in a process of its own. Arguments: client, what to measure, URL.
import { createRequire } from "node:module";
import { PerformanceObserver } from "node:perf_hooks";
import { Crore } from "../dist/index.js";
import { IDLE, MESSAGES } from "./peers_server.mjs";

const require = createRequire(import.meta.url);
const [name, what, url] = process.argv.slice(2);
const flowing = what === "idle" ? "" : "?flow";

/** The bare loop over the frames of crore: it sends the same two frames, and counts. */
const bare = (Socket) => (got) =>
  new Promise((resolve) => {
    const socket = new Socket(`${url}/${flowing}`, ["crore.v1"]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      socket.send(Uint8Array.of(1, 0, 1, 0));
      socket.send(Uint8Array.of(2, 0, 1, 1, 0, 5, 98, 101, 110, 99, 104, 0));
    };
    socket.onmessage = ({ data }) => {
      const [type] = new Uint8Array(data);
      if (type === 0x82) resolve(socket);
      else if (type === 0x84) got();
    };
  });

const crore = (webSocket) => async (got) => {
  const client = new Crore(`${url}/${flowing}`, { webSocket });
  const subscription = client.subscribe("bench");
  void subscription.each((item) => {
    if (item.kind === "message") got();
    else if (item.kind === "gap") throw new Error("a gap");
  });
  await client.ready();
  return client;
};

/** Begins a client that calls `got` for each message; resolves when it is subscribed. */
const CLIENTS = {
  bare: bare(globalThis.WebSocket),
  "bare-ws": (got) => bare(require("ws"))(got),
  crore: crore(),
  "crore-ws": (got) => crore(require("ws"))(got),
  centrifuge: async (got) => {
    const { Centrifuge } = require("centrifuge");
    const client = new Centrifuge(`${url}/${flowing}`);
    const subscription = client.newSubscription("bench");
    subscription.on("publication", got);
    const subscribed = new Promise((resolve) => subscription.on("subscribed", resolve));
    subscription.subscribe();
    client.connect();
    await subscribed;
    return client;
  },
  mqtt: (got) =>
    new Promise((resolve) => {
      const client = require("mqtt").connect(`${url}/${flowing}`, { protocolVersion: 4 });
      client.on("message", got);
      client.on("connect", () => client.subscribe("bench", () => resolve(client)));
    }),
  "socket.io-client": (got) =>
    new Promise((resolve) => {
      const socket = require("socket.io-client").io(url, { transports: ["websocket"], forceNew: true });
      socket.on("bench", got);
      socket.on("connect", () => {
        if (flowing) socket.emit("subscribe");
        resolve(socket);
      });
    }),
};

const used = () => {
  for (let round = 0; round < 4; round++) gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

/** Messages for a second of processor time, from the first to the last one. */
async function rate() {
  let count = 0;
  let begin;
  const end = new Promise((resolve) => {
    const got = () => {
      begin ??= process.cpuUsage();
      if (++count < MESSAGES) return;
      const { user, system } = process.cpuUsage(begin);
      resolve(((MESSAGES - 1) / (user + system)) * 1e6);
    };
    void CLIENTS[name](got);
  });
  return end;
}

/** Bytes on the heap for a message while no garbage is collected: the young generation is large. */
async function allocated() {
  let collections = 0;
  new PerformanceObserver((list) => (collections += list.getEntries().length)).observe({ entryTypes: ["gc"] });
  const FIRST = MESSAGES / 4;
  const LAST = MESSAGES / 2;
  let count = 0;
  let before;
  return new Promise((resolve) => {
    const got = () => {
      count++;
      if (count === FIRST) {
        collections = 0;
        before = process.memoryUsage().heapUsed;
      } else if (count === LAST) {
        const grown = process.memoryUsage().heapUsed - before;
        // The observer reports in a later turn.
        setTimeout(() => resolve(collections ? NaN : grown / (LAST - FIRST)), 20);
      }
    };
    void CLIENTS[name](got);
  });
}

/** Bytes for each of many connected clients, its socket included. */
async function idle() {
  const all = [await CLIENTS[name](() => {})];
  const before = used();
  for (let done = 0; done < IDLE; done += 50) {
    all.push(...(await Promise.all(Array.from({ length: 50 }, () => CLIENTS[name](() => {})))));
  }
  return (used() - before) / (all.length - 1);
}

process.send(await { rate, allocated, idle }[what](), () => process.exit());
