// Everything that must pass: generated codes, build with types, tests, documentation. The last line has the counts.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
let passed = 0;
let failed = 0;

function step(name, program, args) {
  console.log(`-- ${name}`);
  const { status } = spawnSync(program, args, { stdio: "inherit" });
  if (status === 0) passed++;
  else {
    failed++;
    console.log(`-- ${name} FAILED`);
  }
  return status === 0;
}

/** Runs the tests of some files, and adds their counts. */
function tests(files, flags = []) {
  const { stdout } = spawnSync(
    process.execPath,
    [...flags, "--test", "--test-reporter=tap", "--test-timeout=600000", "--test-concurrency=4", ...files],
    { stdio: ["ignore", "pipe", "inherit"], encoding: "utf8", maxBuffer: 1 << 28 },
  );
  const count = (name) => Number(new RegExp(`^# ${name} (\\d+)$`, "m").exec(stdout)?.[1] ?? 0);
  passed += count("pass");
  const bad = count("fail") + count("cancelled");
  failed += bad;
  if (bad || !count("pass")) console.log(stdout);
  else for (const line of stdout.split("\n")) if (/^# (core|wire|vectors|size|leaks|bench)\b/.test(line)) console.log(line);
  if (!count("pass")) failed++;
}

const built =
  step("codes are up to date with spec/codes.toml", process.execPath, ["scripts/codes.mjs", "--check"]) &&
  step("build, with types", process.execPath, ["scripts/build.mjs", "--test"]);
if (built) {
  step("the client of the server's pages is up to date", process.execPath, ["scripts/page.mjs", "--check"]);
  const files = readdirSync("test").filter((name) => name.endsWith(".test.mjs") && !name.startsWith("leaks"));
  tests(files.map((name) => `test/${name}`));
  tests(["test/leaks.test.mjs"], ["--expose-gc"]);
  step("reference documentation", process.execPath, ["node_modules/typedoc/bin/typedoc"]);
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
