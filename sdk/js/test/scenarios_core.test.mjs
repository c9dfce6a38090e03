// Every scenario of spec/scenarios in core mode; none is skipped.
import assert from "node:assert/strict";
import test from "node:test";
import { coreAdapter } from "./adapter_core.mjs";
import { play } from "./adapter_shared.mjs";

/** Runs against a small correct node, a bad network and a restless application. */
const RANDOM_RUNS = 300;

for (const [what, handshakeFrames] of [["", false], [", with the first frames in the handshake", true]]) {
  test(`scenarios in core mode${what}`, async () => {
    const { results, passed, failed, skipped } = await play("core", coreAdapter(handshakeFrames), process.env.ONLY, RANDOM_RUNS);
    const bad = [...results.values()].filter((it) => it.result !== "passed");
    console.log(`core: ${passed} passed, ${failed} failed, ${skipped} skipped${what}`);
    assert.deepEqual(bad.map((it) => `${it.scenario}: step ${it.step}: ${it.why}`), []);
  });
}
