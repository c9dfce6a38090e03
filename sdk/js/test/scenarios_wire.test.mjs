// Every scenario of wire mode, twice: over the package `ws`, which shows statuses and permits every
// close code, and over the platform's WebSocket, which does neither (C6, C8).
import assert from "node:assert/strict";
import test from "node:test";
import { WebSocket as WsSocket } from "ws";
import { play } from "./adapter_shared.mjs";
import { wireAdapter } from "./adapter_wire.mjs";

/** C6: a platform that hides the status of a refused handshake retries. */
const isOfPlatform = ({ why }) => /"then":(403|404)|"status":(403|404)/.test(why);

const show = (it) => `${it.scenario}: step ${it.step}: ${it.why}`;

test("scenarios in wire mode over ws", async () => {
  const { results, passed, failed, skipped } = await play("wire", wireAdapter(WsSocket), process.env.ONLY);
  console.log(`wire over ws: ${passed} passed, ${failed} failed, ${skipped} skipped`);
  assert.deepEqual([...results.values()].filter((it) => it.result !== "passed").map(show), []);
});

test("scenarios in wire mode over the platform's WebSocket", { skip: !globalThis.WebSocket }, async () => {
  const { results, passed, failed, skipped } = await play("wire", wireAdapter(), process.env.ONLY);
  console.log(`wire over the platform's: ${passed} passed, ${failed} retry what hides its status, ${skipped} skipped`);
  const bad = [...results.values()].filter((it) => it.result !== "passed");
  assert.deepEqual(bad.filter((it) => !isOfPlatform(it)).map(show), []);
});
