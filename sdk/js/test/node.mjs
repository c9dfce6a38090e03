// A node of the server for the tests: ephemeral ports, read from the lines that it prints.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { serverProgram } from "./places.mjs";

/** The node takes every variable that begins with CRORE_ as an option. */
const bare = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("CRORE_")));

/**
 * An address that no other program has: between two starts of a node nobody takes its port there. Nor does a client
 * that keeps connecting: its socket has 127.0.0.1, where a connect may reach itself.
 */
export function ownAddress() {
  const [one, two, three] = crypto.getRandomValues(new Uint8Array(3));
  return `127.${1 + (one % 254)}.${two}.${1 + (three % 254)}`;
}

/** A node that may be stopped and started again at the same address. */
export class Node {
  constructor(configuration = "") {
    this.folder = mkdtempSync(join(tmpdir(), "crore-js-"));
    this.configuration = configuration.replaceAll("FOLDER", this.folder);
    this.listen = `${ownAddress()}:0`;
  }

  static async start(configuration) {
    const node = new Node(configuration);
    await node.start();
    return node;
  }

  /** Resolves when the node is ready. */
  start() {
    const file = join(this.folder, "crore.toml");
    writeFileSync(file, this.configuration);
    const flags = ["serve", "--config", file, "--listen", this.listen, "--admin-listen", "127.0.0.1:0"];
    this.process = spawn(serverProgram, flags, {
      env: { ...bare, RUNTIME_DIRECTORY: join(this.folder, "run") },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.ended = new Promise((resolve) => this.process.once("exit", resolve));
    const lines = [];
    return new Promise((resolve, reject) => {
      this.ended.then((code) => reject(new Error(`the node has ended with ${code}:\n${lines.join("\n")}`)));
      createInterface({ input: this.process.stdout }).on("line", (line) => {
        lines.push(line);
        const address = /listening clients http:\/\/([^ /]+)/.exec(line);
        if (address) this.listen = address[1];
        const operators = /listening operators http:\/\/([^ /]+)/.exec(line);
        if (operators) this.operators = operators[1];
        if (/(^|\s)ready$/.test(line)) resolve(this);
      });
    });
  }

  get url() {
    return `ws://${this.listen}`;
  }

  /** Ends the process by a signal, and waits for it. */
  async kill(signal = "SIGKILL") {
    this.process.kill(signal);
    await this.ended;
  }

  /** Ends everything of it. */
  async remove() {
    if (this.process.exitCode === null && this.process.signalCode === null) await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** What a command of the server's program prints. */
  say(...flags) {
    return execFileSync(serverProgram, flags, { encoding: "utf8", env: bare }).trim();
  }
}

/** A log on disk. */
export const ON_DISK =
  '[node]\ndata_dir = "FOLDER/data"\ndrain_window = "1s"\n[[log]]\nname = "kept"\ndurability = "disk"\npartitions_count = 4\nage_max = "1d"\n';
