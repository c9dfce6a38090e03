// Publish/subscribe in a few lines on the package `ws`: what one would write oneself. `node ws.cjs PORT`, with the package
// found through NODE_PATH.
//
// To /subscribe: the first text is the topic, answered by "ok". To /publish: a byte with the length of the topic's
// name, the name, the payload.
'use strict';
const { createServer } = require('node:http');
const { WebSocketServer } = require('ws');

const topics = new Map();
const sockets = new WebSocketServer({
  noServer: true,
  clientTracking: false,
  perMessageDeflate: false,
  skipUTF8Validation: true,
});

function subscribe(socket) {
  let members = null;
  socket.on('message', (data) => {
    if (members) return;
    const topic = data.toString();
    members = topics.get(topic);
    if (!members) topics.set(topic, (members = new Set()));
    members.add(socket);
    socket.send('ok');
    socket.on('close', () => {
      members.delete(socket);
      if (members.size === 0) topics.delete(topic);
    });
  });
  socket.on('error', () => socket.terminate());
}

function publish(socket) {
  socket.on('message', (data) => {
    const end = 1 + data[0];
    const payload = data.subarray(end);
    for (const member of topics.get(data.toString('latin1', 1, end)) ?? []) member.send(payload);
  });
  socket.on('error', () => socket.terminate());
}

const server = createServer();
server.on('upgrade', (request, socket, head) => {
  const accept = request.url === '/publish' ? publish : subscribe;
  sockets.handleUpgrade(request, socket, head, accept);
});
server.listen({ port: Number(process.argv[2]), host: '127.0.0.1', backlog: 4096 });
