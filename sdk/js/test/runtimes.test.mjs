// The delivered package in every runtime, over a kill of the node.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { Node, ON_DISK } from "./node.mjs";
import { runtimes } from "./places.mjs";

const SMOKE = fileURLToPath(new URL("runtime_smoke.mjs", import.meta.url));
const RUNTIMES = {
  "Node 22": ["node-22/bin/node"],
  "Node 24": ["node-24/bin/node"],
  Deno: ["@deno/linux-x64-glibc/deno", "run", "--allow-all", "--no-check", "--quiet"],
  Bun: ["@oven/bun-linux-x64-baseline/bin/bun", "run"],
};

for (const [name, [program, ...flags]] of Object.entries(RUNTIMES)) {
  test(`the package runs in ${name}`, async () => {
    const path = `${runtimes}/${program}`;
    assert.ok(existsSync(path), `${path} is missing: npm ci --prefix test/runtimes`);
    const node = await Node.start(ON_DISK);
    const child = spawn(path, [...flags, SMOKE, node.url], { stdio: ["ignore", "pipe", "inherit"] });
    const ended = new Promise((resolve) => child.once("exit", resolve));
    try {
      const lines = [];
      for await (const line of createInterface({ input: child.stdout })) {
        lines.push(line);
        if (line === "up") {
          await node.kill();
          await node.start();
        }
      }
      assert.equal(await ended, 0);
      assert.deepEqual(lines, ["up", "done"]);
    } finally {
      child.kill("SIGKILL");
      await node.remove();
    }
  });
}
