// Packs what npm gets: `crore` (dist/ must be built) with the packages of all platforms as optional dependencies, and the
// package with the server's program of one platform.
//   node scripts/pack.mjs FOLDER PROGRAM NOTICES LOADER PLATFORM ALL_PLATFORMS...
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const [folder, program, notices, loader, platform, ...platforms] = process.argv.slice(2);
const root = fileURLToPath(new URL("..", import.meta.url));
const { scripts, devDependencies, ...manifest } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const stage = mkdtempSync(join(tmpdir(), "crore-pack-"));

/** Packs a package: its manifest, its other files, and its program. */
function pack(manifest, copies, texts = {}) {
  const place = join(stage, manifest.name);
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  for (const [name, from] of Object.entries(copies)) cpSync(from, join(place, name), { recursive: true });
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(place, name), text);
  // The bits of files do not depend on the umask of the person who packs.
  execFileSync("chmod", ["-R", "u=rwX,go=rX", place]);
  for (const name of Object.keys(copies).filter((name) => name === "bin/crore")) chmodSync(join(place, name), 0o755);
  execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], { cwd: place, stdio: "inherit" });
}

const optionalDependencies = Object.fromEntries(platforms.map((name) => [`@crore/${name}`, manifest.version]));
const own = Object.fromEntries(manifest.files.map((name) => [name, join(root, name)]));
pack({ ...manifest, optionalDependencies }, own);

const [os, cpu] = platform.split("-");
const { version, license, repository } = manifest;
const name = `@crore/${platform}`;
const description = `The program of the Crore server for ${platform}; the package \`crore\` installs it`;
const choice = { os: [os], cpu: [cpu], libc: ["glibc"] };
const files = ["bin", "THIRD-PARTY.txt"];
pack(
  { name, version, description, license, repository, ...choice, preferUnplugged: true, files, loader },
  { "bin/crore": program, "THIRD-PARTY.txt": notices, LICENSE: join(root, "LICENSE") },
  { "README.md": `# ${name}\n\n${description}: \`npx crore serve\`.\n` },
);
rmSync(stage, { recursive: true });
