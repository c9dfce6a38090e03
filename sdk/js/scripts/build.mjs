// Builds dist/: ESM and CJS with their types. With --test also dist-test/, the inside for the tests.
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { innerNames } from "./inner_names.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
process.chdir(root);
rmSync("dist", { recursive: true, force: true });

const entryPoints = ["index", "react", "store", "persist"].map((name) => `src/${name}.ts`).filter(existsSync);
const options = { entryPoints, bundle: true, target: "es2020", platform: "neutral", external: ["react", "crore/store"] };
// Names that only the inside uses become short: bundlers of applications cannot do that.
options.mangleCache = innerNames().given;
options.mangleProps = new RegExp(`^(${Object.keys(options.mangleCache).join("|")})$`);
await build({ ...options, format: "esm", outdir: "dist" });
await build({ ...options, format: "cjs", outdir: "dist/cjs" });

const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript")), "tsc.js");
execFileSync(process.execPath, [tsc, "-p", "."], { stdio: "inherit" });
mkdirSync("dist/cjs", { recursive: true });
for (const name of readdirSync("dist")) {
  // Folders have types only.
  if (name !== "cjs" && !name.endsWith(".js")) cpSync(`dist/${name}`, `dist/cjs/${name}`, { recursive: true });
}
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');

if (process.argv.includes("--test")) {
  await build({
    entryPoints: ["test/inside.ts"],
    bundle: true,
    format: "esm",
    target: "es2020",
    platform: "neutral",
    outdir: "dist-test",
  });
}
