// The package as it will be published: size, types, bundlers, and the example of the README.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { Node } from "./node.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const require = createRequire(import.meta.url);
/** The bound of the main entry, in bytes with gzip. */
const SIZE_MAX = 12 * 1024;

/** A folder in which the package is installed, as an application has it. */
function application() {
  const folder = mkdtempSync(join(tmpdir(), "crore-app-"));
  mkdirSync(join(folder, "node_modules"));
  for (const name of ["react", "react-dom", "scheduler"]) symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
  const packed = JSON.parse(execFileSync("npm", ["pack", "--json", "--pack-destination", folder, "--ignore-scripts"], { cwd: root }));
  mkdirSync(join(folder, "node_modules/crore"));
  execFileSync("tar", ["xzf", join(folder, packed[0].filename), "--strip-components=1", "-C", join(folder, "node_modules/crore")]);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  return { folder, files: packed[0].files.map(({ path }) => path), tarball: join(folder, packed[0].filename) };
}

const app = application();
test.after(() => rmSync(app.folder, { recursive: true, force: true }));

const minified = async (stdin) => {
  const { outputFiles } = await build({
    stdin: { contents: stdin, resolveDir: app.folder },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2020",
    platform: "browser",
    external: ["react"],
    write: false,
  });
  return outputFiles[0].contents;
};

test("the main entry is small", async () => {
  const code = await minified('export * from "crore"');
  const size = gzipSync(code, { level: 9 }).length;
  console.log(`size: ${size} bytes with gzip, ${code.length} without`);
  assert.ok(size <= SIZE_MAX, `${size} bytes`);
  // No global of Node, and no regular expression or syntax beyond ES2020, is in it.
  assert.ok(!/\b(Buffer|process|require)\b/.test(Buffer.from(code).toString()));
});

test("crore/react without the rest is below one kilobyte", async () => {
  const { outputFiles } = await build({
    stdin: { contents: 'export * from "crore/react"', resolveDir: app.folder },
    bundle: true, minify: true, format: "esm", external: ["react"], write: false,
  });
  const size = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  console.log(`size: crore/react with crore/store ${size} bytes with gzip`);
  assert.ok(size <= 1_100, `${size} bytes`);
});

test("only what belongs in it is packed", () => {
  for (const path of app.files) assert.match(path, /^(bin\/crore\.mjs$|dist\/|README\.md|CHANGELOG\.md|LICENSE|package\.json)/);
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  assert.ok(!scripts.install && !scripts.postinstall && !scripts.prepare);
});

test("publint finds nothing", async () => {
  const { publint } = await import("publint");
  const { messages } = await publint({ pkgDir: root, strict: true });
  assert.deepEqual(messages, []);
});

test("arethetypeswrong finds nothing", async () => {
  const cli = join(root, "node_modules/@arethetypeswrong/cli/dist/index.js");
  // Packages with `exports` are beyond TypeScript's oldest resolution.
  const run = spawnSync(process.execPath, [cli, app.tarball, "--profile", "node16", "--format", "ascii"], { encoding: "utf8" });
  assert.equal(run.status, 0, run.stdout + run.stderr);
});

test("ESM and CJS have the same names, and no state is doubled by subpaths", async () => {
  const script = `
    const { createRequire } = await import("node:module");
    const require = createRequire(process.cwd() + "/x.js");
    for (const path of ["crore", "crore/store", "crore/react", "crore/persist"]) {
      const esm = Object.keys(await import(path)).sort().join();
      const cjs = Object.keys(require(path)).filter((it) => it !== "__esModule").sort().join();
      if (esm !== cjs) throw new Error(path + ": " + esm + " and " + cjs);
      console.log(path, esm);
    }`;
  const printed = execFileSync(process.execPath, ["--input-type=module", "-e", script], { cwd: app.folder, encoding: "utf8" });
  assert.match(printed, /^crore Crore,CroreError,GapError,Message,Subscription$/m);
});

const ENTRY = `
  import { Crore } from "crore";
  import { useTopic } from "crore/react";
  import { topicStore } from "crore/store";
  import { persist } from "crore/persist";
  globalThis.all = { Crore, useTopic, topicStore, persist };`;

test("esbuild bundles it for browsers", async () => {
  const code = Buffer.from(await minified(ENTRY)).toString();
  assert.match(code, /crore\.v1/);
});

test("webpack bundles it", async () => {
  const { default: webpack } = await import("webpack");
  writeFileSync(join(app.folder, "entry.js"), ENTRY);
  const stats = await new Promise((resolve, reject) =>
    webpack(
      { mode: "production", context: app.folder, entry: "./entry.js", output: { path: join(app.folder, "out") }, externals: { react: "React" } },
      (error, stats) => (error ? reject(error) : resolve(stats)),
    ),
  );
  assert.deepEqual(stats.toJson().errors.map((it) => it.message), []);
  assert.deepEqual(stats.toJson().warnings.map((it) => it.message), []);
  assert.match(readFileSync(join(app.folder, "out/main.js"), "utf8"), /crore\.v1/);
});

test("Metro's resolver finds every entry", () => {
  const { resolve } = require("metro-resolver");
  const { existsSync, statSync } = require("node:fs");
  const contextOf = (isESMImport) => ({
    allowHaste: false,
    assetExts: new Set(),
    sourceExts: ["js", "json"],
    mainFields: ["react-native", "browser", "main"],
    unstable_enablePackageExports: true,
    unstable_conditionNames: ["react-native"],
    unstable_conditionsByPlatform: {},
    unstable_logWarning: (message) => assert.fail(message),
    nodeModulesPaths: [],
    extraNodeModules: {},
    disableHierarchicalLookup: false,
    originModulePath: join(app.folder, "entry.js"),
    preferNativePlatform: true,
    isESMImport,
    doesFileExist: (path) => existsSync(path) && statSync(path).isFile(),
    fileSystemLookup: (path) =>
      existsSync(path) ? { exists: true, realPath: path, type: statSync(path).isDirectory() ? "d" : "f" } : { exists: false },
    getPackage: (path) => (existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : null),
    getPackageForModule(path) {
      const rootPath = join(app.folder, "node_modules/crore");
      if (!path.startsWith(rootPath)) return null;
      const packageJson = JSON.parse(readFileSync(join(rootPath, "package.json"), "utf8"));
      return { packageJson, rootPath, packageRelativePath: path.slice(rootPath.length + 1) };
    },
    redirectModulePath: (path) => path,
    resolveAsset: () => undefined,
    resolveHasteModule: () => undefined,
    resolveHastePackage: () => undefined,
    customResolverOptions: {},
    dev: false,
  });
  for (const name of ["crore", "crore/react", "crore/store", "crore/persist"]) {
    for (const isESMImport of [true, false]) {
      const { type, filePath } = resolve(contextOf(isESMImport), name, "android");
      assert.equal(type, "sourceFile", name);
      assert.ok(filePath.includes(isESMImport ? "crore/dist/" : "crore/dist/cjs/"), `${name}: ${filePath}`);
    }
  }
});

test("the first example of the README runs as it stands", async () => {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const example = /```js\n([^]*?)```/.exec(readme)[1];
  const lines = example.split("\n").filter((line) => line.trim());
  assert.ok(lines.length <= 10, `${lines.length} lines`);
  const node = await Node.start("");
  try {
    writeFileSync(join(app.folder, "example.mjs"), example.replace("ws://localhost:8800", node.url));
    const program = spawn(process.execPath, ["example.mjs"], { cwd: app.folder, stdio: ["ignore", "pipe", "inherit"] });
    const line = await new Promise((resolve, reject) => {
      program.stdout.once("data", resolve);
      program.once("exit", (code) => reject(new Error(`the example has ended with ${code}`)));
    });
    program.kill();
    assert.match(String(line), /^\d+:\d+ \{ bid: 1\.08 \}/);
  } finally {
    await node.remove();
  }
});
