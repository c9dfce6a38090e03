// Where the tests find the specification and the programs that they start.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const repository = fileURLToPath(new URL("../../../", import.meta.url));

/** The folder of the specification. */
export const spec = process.env.CRORE_SPEC ?? `${repository}spec`;
/** The player of the scenarios. */
export const scriptProgram = process.env.CRORE_SCRIPT ?? built("crore-script");
/** The server. */
export const serverProgram = process.env.CRORE_SERVER ?? built("crore");

function built(name) {
  const folders = ["release", "debug"].map((profile) => `${repository}target/${profile}/${name}`);
  return folders.find(existsSync) ?? folders[1];
}

/** The folder with the runtimes: `npm ci --prefix test/runtimes`. */
export const runtimes = process.env.CRORE_RUNTIMES ?? fileURLToPath(new URL("runtimes/node_modules", import.meta.url));
