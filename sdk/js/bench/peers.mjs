// The package beside other clients: size of the bundle, messages for a second of processor time, bytes
// allocated for a message, memory of an idle client. One server replays each protocol; each client
// has a process of its own, and all are of one run:
//
//   npm ci --prefix bench --ignore-scripts && npm run build && node bench/peers.mjs
//
// ably needs its service, so only its size is here.
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { IDLE, MESSAGES, replay } from "./peers_server.mjs";

const ROUNDS = Number(process.env.ROUNDS ?? 3);
const here = fileURLToPath(new URL(".", import.meta.url));
const median = (list) => list.sort((one, other) => one - other)[list.length >> 1];

const SIZES = {
  crore: 'export * from "../dist/index.js"',
  centrifuge: 'export * from "centrifuge"',
  "socket.io-client": 'export * from "socket.io-client"',
  "ably/modular": 'export { BaseRealtime, WebSocketTransport, FetchRequest } from "ably/modular"',
  ably: 'export * from "ably"',
  mqtt: 'export { default } from "mqtt"',
};

console.log("bundled and minified by esbuild for browsers, with gzip -9");
for (const [name, contents] of Object.entries(SIZES)) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: here },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2020",
    platform: "browser",
    write: false,
    logLevel: "error",
  });
  const [{ contents: code }] = outputFiles;
  console.log(`size: ${name}: ${gzipSync(code, { level: 9 }).length} bytes, ${code.length} without gzip`);
}

/** What a client in a process of its own has measured. */
function measured(client, what, url) {
  const flags = ["--expose-gc", "--min-semi-space-size=128", "--max-semi-space-size=128", "--no-warnings"];
  const child = fork(`${here}peers_client.mjs`, [client, what, url], { execArgv: flags });
  return new Promise((resolve, reject) => {
    child.once("message", resolve);
    child.once("exit", (code) => code && reject(new Error(`${client} has ended with ${code}`)));
  });
}

const CLIENTS = ["bare", "crore", "centrifuge", "bare-ws", "crore-ws", "mqtt", "socket.io-client"];
const { urls, close } = await replay();
const rates = new Map(CLIENTS.map((name) => [name, []]));
for (let round = 0; round < ROUNDS; round++) {
  for (const name of CLIENTS) rates.get(name).push(await measured(name, "rate", urls[name]));
}
for (const name of CLIENTS) {
  const rate = median(rates.get(name));
  const bare = median(rates.get(/^(bare|crore|centrifuge)$/.test(name) ? "bare" : "bare-ws"));
  const allocated = await measured(name, "allocated", urls[name]);
  const idle = await measured(name, "idle", urls[name]);
  console.log(
    `peer: ${name}: ${Math.round(rate)} messages for a second (${Math.round((rate / bare) * 100)} % of a bare loop over its WebSocket), ` +
      `${allocated === null ? "?" : Math.round(allocated)} bytes allocated for a message, ${(idle / 1024).toFixed(1)} KiB for an idle client`,
  );
}
console.log(`${MESSAGES} messages of 100 bytes, ${ROUNDS} rounds; ${IDLE} idle clients with one subscription each`);
close();
