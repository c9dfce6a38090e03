// Opens a WebSocket with the npm package `ws` and prints one line of JSON: what was agreed, or the refusal.
// Usage: handshake.cjs URL [SUBPROTOCOL]...
"use strict";

const { WebSocket } = require("ws");

const [url, ...subprotocols] = process.argv.slice(2);
const socket = new WebSocket(url, subprotocols);
socket.on("open", () => {
  console.log(JSON.stringify({ open: true, subprotocol: socket.protocol }));
  socket.terminate();
});
socket.on("unexpected-response", (request, response) => {
  console.log(JSON.stringify({ open: false, status: response.statusCode }));
  request.destroy();
});
socket.on("error", (error) => console.error(error.message));
