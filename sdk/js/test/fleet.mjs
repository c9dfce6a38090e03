// Runs many clients for the harness of tests/src/fleet, whose README has the lines.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Crore } from "../dist/index.js";
import { persist } from "../dist/persist.js";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const say = (of, line) => process.stdout.write(JSON.stringify({ of, ...line }) + "\n");

/** A file for each key. */
function storage(folder) {
  mkdirSync(folder, { recursive: true });
  const place = (key) => join(folder, encodeURIComponent(key));
  return {
    get(key) {
      try {
        return readFileSync(place(key), "utf8");
      } catch {
        return undefined;
      }
    },
    set(key, value) {
      writeFileSync(place(key) + ".new", value);
      renameSync(place(key) + ".new", place(key));
    },
    delete: (key) => rmSync(place(key), { force: true }),
  };
}

// Slow readers stop while the harness wants it.
let passage = Promise.resolve();
let open = () => {};

function shown(item) {
  switch (item.kind) {
    case "message":
      return { item: "message", topic: item.topic, at: item.position, data: item.text() };
    case "caught_up":
      return { item: "caught_up", at: item.position, partition: item.partition };
    default:
      return { item: item.kind, from: item.from, to: item.to, through: item.through, cause: item.cause, partition: item.partition };
  }
}

class Client {
  constructor(number) {
    this.number = number;
    this.work = plan.clients[number];
    this.calls = this.work.calls;
    const options = { name: `${plan.name}.${number}` };
    if (this.work.once) options.persist = persist(storage(join(plan.folder, String(number))));
    this.client = new Crore(plan.url, options);
    if (this.work.subscribe) this.reading = this.read();
  }

  async read() {
    const { subscribe, since, slow } = this.work;
    this.subscription = this.client.subscribe(subscribe, { start: since ? { since } : "live" });
    try {
      for await (const item of this.subscription) {
        say(this.number, shown(item));
        if (slow) await passage;
      }
    } catch (error) {
      say(this.number, { ended: String(error) });
    }
  }

  publish(count) {
    for (let left = count; left > 0; left--) {
      const call = ++this.calls;
      const topic = this.work.publish[call % this.work.publish.length];
      this.client.publish(topic, `${plan.name}.${this.number}.${call}`, { once: this.work.once }).then(
        ({ position }) => say(this.number, { call, at: position }),
        (error) => say(this.number, { call, error: error.name }),
      );
    }
  }

  async end() {
    if (this.subscription) {
      const { complete, gaps, skips, messages, position, positions } = this.subscription.report();
      this.subscription.close();
      await this.reading;
      say(this.number, { report: { complete, gaps, skips, messages, position, positions } });
    }
    await this.client.close();
  }
}

const clients = plan.clients.map((_, number) => new Client(number));
for await (const line of createInterface({ input: process.stdin })) {
  const [command, count] = line.split(" ");
  if (command === "publish") for (const it of clients) if (it.work.publish) it.publish(Number(count));
  if (command === "pause") passage = new Promise((resolve) => (open = resolve));
  if (command === "resume") open();
  if (command === "end") {
    await Promise.all(clients.map((it) => it.end()));
    process.stdin.destroy();
    break;
  }
}
