// Chooses the short names of the inside so that the package packs well, by trying: `npm run names`
// after larger changes. Writes scripts/short_names.json. Names of one object stay apart.
import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build, transform } from "esbuild";
import { innerNames } from "./inner_names.mjs";

const SECONDS = Number(process.argv[2] ?? 60);
const LETTERS = "tneisaofulhcdrpmbvgykwxqjz";

const { given, objects } = innerNames();
const names = Object.keys(given);

/** The package with a mark in place of each name, cut at the marks. */
async function cut() {
  const mangleCache = Object.fromEntries(names.map((name, at) => [name, `$$${at}$`]));
  const mangleProps = new RegExp(`^(${names.join("|")})$`);
  const shared = { format: "esm", target: "es2020" };
  const bundle = { entryPoints: ["src/index.ts"], bundle: true, platform: "neutral", write: false, ...shared };
  const { outputFiles } = await build({ ...bundle, mangleCache, mangleProps });
  const { code } = await transform(outputFiles[0].text, { minify: true, ...shared });
  return code.split(/\$\$(\d+)\$/);
}

const parts = await cut();
const used = [...new Set(parts.filter((_, at) => at % 2).map(Number))];
const beside = names.map((name) => {
  const others = new Set(objects.filter((it) => it.includes(name)).flat());
  return names.flatMap((it, at) => (it !== name && others.has(it) ? [at] : []));
});
const sizeOf = (short) => gzipSync(parts.map((part, at) => (at % 2 ? short[part] : part)).join(""), { level: 9 }).length;

let best = names.map((name) => given[name]);
let size = sizeOf(best);
console.log(`${size} bytes with gzip`);
const pick = (list) => list[Math.floor(Math.random() * list.length)];
for (const end = Date.now() + SECONDS * 1_000; Date.now() < end; ) {
  const at = pick(used);
  const next = best.slice();
  const letter = pick(LETTERS);
  // A neighbour with this letter takes the old one.
  for (const other of beside[at]) if (next[other] === letter) next[other] = next[at];
  next[at] = letter;
  if (names.some((_, one) => beside[one].some((other) => next[one] === next[other]))) continue;
  const tried = sizeOf(next);
  if (tried > size) continue;
  size = tried;
  best = next;
}
console.log(`${size} bytes with gzip`);
const chosen = Object.fromEntries(names.map((name, at) => [name, best[at]]).sort());
writeFileSync("scripts/short_names.json", JSON.stringify(chosen, undefined, 2) + "\n");
