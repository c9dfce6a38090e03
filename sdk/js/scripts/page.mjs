// Writes the client for the operators' pages of the server, from dist/; with --check it only compares. The result is
// committed, so that the server is built without Node.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const target = fileURLToPath(new URL("../../../crates/crore/src/admin/page/crore.js", import.meta.url));
const { outputFiles } = await build({
  stdin: { contents: 'export { Crore } from "./dist/index.js";', resolveDir: root },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2020",
  banner: { js: "// Generated from sdk/js by `npm run page` there: Crore's client for browsers. Do not edit." },
  write: false,
});
const [{ text }] = outputFiles;
if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== text) {
    console.error("crates/crore/src/admin/page/crore.js is out of date with sdk/js; run `npm run page`");
    process.exit(1);
  }
} else writeFileSync(target, text);
