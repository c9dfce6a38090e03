// Every scenario of wire mode, twice: over the package `ws`, which shows statuses and permits every
// close code, and over the platform's WebSocket, which does neither (C6, C8).
import assert from "node:assert/strict";
import test from "node:test";
import { WebSocket as WsSocket } from "ws";
import { play } from "./adapter_shared.mjs";
import { wireAdapter } from "./adapter_wire.mjs";

const show = (it) => `${it.scenario}: step ${it.step}: ${it.why}`;

test("scenarios in wire mode over ws", async () => {
  const { results, passed, failed, skipped } = await play("wire", wireAdapter(WsSocket), process.env.ONLY);
  console.log(`wire over ws: ${passed} passed, ${failed} failed, ${skipped} skipped`);
  assert.deepEqual([...results.values()].filter((it) => it.result !== "passed").map(show), []);
});

test("scenarios in wire mode over the platform's WebSocket", { skip: !globalThis.WebSocket }, async () => {
  const { results, passed, failed, skipped } = await play("wire", wireAdapter(), process.env.ONLY);
  console.log(`wire over the platform's: ${passed} passed, ${failed} failed, ${skipped} skipped`);
  // C6: a platform that hides the status of a refused handshake retries.
  const wanted = ["404", "403"].map((status) => `skipped a handshake refused with ${status} is final`);
  const others = [...results.values()].filter((it) => it.result !== "passed");
  assert.deepEqual(others.map((it) => (it.result === "skipped" ? `skipped ${it.scenario}` : show(it))), wanted);
});
