// The npm package `ws` against an echo: every kind of message comes back as it was, and the close is clean.
// Usage: web_socket.cjs URL [compressed]. With the second argument messages must be compressed, without it they must not.
// Exits with 0 if all is as it should be.
"use strict";

const assert = require("node:assert");
const { once } = require("node:events");
const { WebSocket } = require("ws");

const url = process.argv[2];
const COMPRESSED = process.argv[3] === "compressed";
const CLIENTS_COUNT = 50;

function bytes(length) {
  const buffer = Buffer.allocUnsafe(length);
  for (let index = 0; index < length; index++) buffer[index] = (index * 31 + length) & 0xff;
  return buffer;
}

async function open() {
  const socket = new WebSocket(url, { perMessageDeflate: { threshold: 16 }, maxPayload: 32 << 20 });
  await once(socket, "open");
  assert.strictEqual(socket.extensions, COMPRESSED ? "permessage-deflate" : "");
  return socket;
}

async function echo(socket, payload) {
  const answer = once(socket, "message");
  socket.send(payload);
  const [data, isBinary] = await answer;
  assert.strictEqual(isBinary, typeof payload !== "string");
  assert.ok(data.equals(Buffer.from(payload)), `a message of ${payload.length} came back changed`);
}

async function messages() {
  const socket = await open();
  for (const text of ["", "hello", "κόσμε 🌍", "x".repeat(125), "x".repeat(126)]) {
    await echo(socket, text);
  }
  for (const length of [0, 1, 125, 126, 65535, 65536, 1 << 20, 4 << 20]) {
    await echo(socket, bytes(length));
  }
  socket.close(1000, "done");
  const [code, reason] = await once(socket, "close");
  assert.strictEqual(code, 1000);
  assert.ok(["", "done"].includes(reason.toString()));
}

async function fragments() {
  const socket = await open();
  const answer = once(socket, "message");
  const pong = once(socket, "pong");
  socket.send("one ", { fin: false });
  socket.ping("between");
  socket.send("two ", { fin: false });
  socket.send("three", { fin: true });
  assert.strictEqual((await pong)[0].toString(), "between");
  assert.strictEqual((await answer)[0].toString(), "one two three");
  socket.terminate();
}

async function order() {
  const socket = await open();
  const received = [];
  const all = new Promise((resolve) => {
    socket.on("message", (data) => {
      received.push(Number(data.toString()));
      if (received.length === 1000) resolve();
    });
  });
  for (let number = 0; number < 1000; number++) socket.send(String(number));
  await all;
  received.forEach((number, index) => assert.strictEqual(number, index));
  socket.close();
  await once(socket, "close");
}

async function many() {
  const sockets = await Promise.all(Array.from({ length: CLIENTS_COUNT }, open));
  await Promise.all(sockets.map((socket, index) => echo(socket, `client ${index}`)));
  sockets.forEach((socket) => socket.close());
  await Promise.all(sockets.map((socket) => once(socket, "close")));
}

(async () => {
  await messages();
  await fragments();
  await order();
  await many();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
