#!/usr/bin/env node
// The command `crore`: finds the server's program in the package of this platform, and becomes it. Where the process
// cannot become another one (Node before 22.15, Bun, Deno), the program is a child: it gets the same arguments, files and
// signals, and its end is the end of this process.
import { spawn } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { isatty } from "node:tty";

const platform = `${process.platform}-${process.arch}`;

function refuse() {
  console.error(
    `crore: no server program for ${platform} is installed. The packages have one for Linux on x86-64 with glibc ` +
      "(without --omit=optional); elsewhere use the container image, or build it with Rust: " +
      "cargo install --locked --git https://github.com/crore/crore crore",
  );
  process.exit(1);
}

/** The path of the program; undefined if it cannot run here. */
function find() {
  try {
    const manifest = createRequire(import.meta.url).resolve(`@crore/${platform}/package.json`);
    const { loader } = JSON.parse(readFileSync(manifest, "utf8"));
    // Absent with another C library (Alpine), whatever the package manager has installed.
    accessSync(loader);
    const program = join(dirname(manifest), "bin", "crore");
    accessSync(program, constants.X_OK);
    return program;
  } catch {
    return undefined;
  }
}

/** Runs the program as a child. */
function run(program, args) {
  const child = spawn(program, args, { stdio: "inherit" });
  // A terminal sends its SIGINT to the child, too; a second one would end a drain.
  const isSent = [0, 1, 2].some((file) => isatty(file));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT"]) {
    process.on(signal, () => {
      if (isSent && /INT|QUIT/.test(signal)) return;
      // Not `child.kill`: Deno takes its signal for the reason of the end.
      if (child.exitCode === null && child.pid) process.kill(child.pid, signal);
    });
  }
  child.on("error", refuse);
  child.on("exit", (code, signal) => {
    if (code !== null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

const args = process.argv.slice(2);
const program = find() ?? refuse();
if (process.execve && !process.versions.bun && !process.versions.deno) process.execve(program, [program, ...args]);
else run(program, args);
