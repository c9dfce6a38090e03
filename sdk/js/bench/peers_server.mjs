// Replays messages in several protocols, each as its client expects it, as fast as the socket takes them.
import { createServer } from "node:http";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { WebSocketServer } = require("ws");
const { Server } = require("socket.io");

export const MESSAGES = Number(process.env.MESSAGES ?? 40_000);
export const IDLE = Number(process.env.IDLE ?? 1_000);

const PAYLOAD = Buffer.alloc(100, ".");
const ROOM = 1 << 20;

/** Sends a frame for each number up to MESSAGES; `frame` makes it. */
async function pour(socket, frame) {
  for (let number = 1; number <= MESSAGES && socket.readyState === 1; number++) {
    socket.send(frame(number));
    while (socket.bufferedAmount > ROOM) await new Promise((resolve) => setTimeout(resolve, 1));
    // The socket writes between turns.
    if (number % 200 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}

const varint = (value) => (value > 127 ? [(value & 127) | 128, ...varint(value >> 7)] : [value]);

/** The part of each protocol that connects, subscribes and delivers: messages flow with `?flow`. */
const PROTOCOLS = {
  crore(socket, data, isFlowing) {
    if (data[0] === 1) socket.send(Buffer.from("81000101000000000000000000808040808040ff07", "hex"));
    if (data[0] !== 2) return;
    // SUBSCRIBED with alias 5, in epoch 7 behind offset 0.
    socket.send(Buffer.from([0x82, 0, data[3], 5, 7, 0]));
    if (isFlowing) void pour(socket, (number) => Buffer.concat([Buffer.from([0x84, 0, 5, ...varint(number), 1]), PAYLOAD]));
  },
  centrifuge(socket, data, isFlowing) {
    for (const line of data.toString().split("\n")) {
      const command = line.trim() ? JSON.parse(line) : {};
      if (command.connect) socket.send(JSON.stringify({ id: command.id, connect: { client: "c", version: "0" } }));
      if (!command.subscribe) continue;
      socket.send(JSON.stringify({ id: command.id, subscribe: {} }));
      const push = JSON.stringify({ push: { channel: "bench", pub: { data: PAYLOAD.toString() } } });
      if (isFlowing) void pour(socket, () => push);
    }
  },
  mqtt(socket, data, isFlowing) {
    // A packet may come in several messages; those of the clients here are shorter than 128 bytes.
    const bytes = Buffer.concat([socket.rest ?? Buffer.alloc(0), data]);
    const length = 2 + bytes[1];
    socket.rest = bytes;
    if (!(bytes.length >= length)) return;
    socket.rest = bytes.subarray(length);
    if (bytes[0] === 0x10) socket.send(Buffer.from([0x20, 2, 0, 0]));
    if (bytes[0] !== 0x82) return;
    socket.send(Buffer.from([0x90, 3, bytes[2], bytes[3], 0]));
    const topic = Buffer.from("bench");
    const head = Buffer.from([0x30, ...varint(2 + topic.length + PAYLOAD.length), 0, topic.length]);
    const publish = Buffer.concat([head, topic, PAYLOAD]);
    if (isFlowing) void pour(socket, () => publish);
  },
};

function listen(server) {
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
}

/** Begins all servers; returns the URL of each client's. */
export async function replay() {
  const urls = {};
  const servers = [];
  for (const [name, answer] of Object.entries(PROTOCOLS)) {
    const http = createServer();
    const sockets = new WebSocketServer({ server: http, perMessageDeflate: false, handleProtocols: ([first]) => first });
    sockets.on("connection", (socket, request) => {
      socket.on("message", (data) => answer(socket, data, request.url.includes("flow")));
    });
    urls[name] = `ws://127.0.0.1:${await listen(http)}`;
    servers.push(http);
  }
  const http = createServer();
  const io = new Server(http, { transports: ["websocket"], perMessageDeflate: false });
  io.on("connection", (socket) => {
    socket.on("subscribe", async () => {
      const { transport } = socket.conn;
      for (let number = 1; number <= MESSAGES && socket.connected; number++) {
        socket.emit("bench", PAYLOAD.toString());
        while (!transport.writable) await new Promise((resolve) => setImmediate(resolve));
      }
    });
  });
  urls["socket.io-client"] = `http://127.0.0.1:${await listen(http)}`;
  for (const name of ["bare", "bare-ws", "crore-ws"]) urls[name] = urls.crore;
  const close = () => {
    io.close();
    for (const server of servers) {
      server.closeAllConnections();
      server.close();
    }
    setImmediate(() => process.exit());
  };
  return { urls, close };
}
