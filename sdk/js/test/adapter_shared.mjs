// What both adapters of the scenarios share: forms of options, items and answers.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { scriptProgram, spec } from "./places.mjs";

/** Features that the scenarios may ask for; a browser's WebSocket does not show statuses. */
export const NEEDS = ["unauthorized_retry", "timeouts", "queue_bounds", "buffer", "statuses"];

export const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (two) => parseInt(two, 16));
export const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** A start as the application writes it. */
export function startOf(start) {
  if (!start) return "live";
  if (start.kind === "since") return { since: start.position };
  if (start.kind === "last") return { last: start.count };
  if (start.kind === "since_each") {
    return { sinceEach: Object.fromEntries(start.positions.map((it) => [it.partition, it.position])) };
  }
  return start.kind;
}

/** An item as the scenarios write it. */
export function itemEffect(label, item) {
  if (item.kind === "message") return { item: label, kind: "message", ...messageFields(item) };
  return { item: label, ...item };
}

export function messageFields(message) {
  return {
    position: message.position,
    topic: message.topic,
    payload: hexOf(message.bytes),
    content_type: message.contentType ?? null,
    tags: message.tags,
    retained: message.retained,
    partition: message.partition ?? null,
  };
}

export function errorEffect(label, error) {
  const { code, temporary, restart, limit } = error;
  if (code === undefined) return { answer: label, error: error.name };
  return { answer: label, error: "Refused", code, temporary, restart: restart ?? null, limit: limit ?? null };
}

/** Plays all scenarios of a mode, and runs without a script; `adapter` answers one command. Returns results by name. */
export async function play(mode, adapter, only, randomRuns = 0) {
  const folder = join(spec, "scenarios");
  const files = readdirSync(folder).filter((name) => name.endsWith(".json") && name !== "schema.json");
  const filter = only ? ["--only", only] : [];
  if (randomRuns && !only) filter.push("--random", String(randomRuns));
  const player = spawn(scriptProgram, ["--mode", mode, ...filter, ...files.map((name) => join(folder, name))], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  const results = new Map();
  let end;
  player.stderr.resume();
  try {
    for await (const line of createInterface({ input: player.stdout })) {
      const command = JSON.parse(line);
      if (command.do === "end") {
        end = command;
        break;
      }
      if (command.do === "result") results.set(command.scenario, command);
      const reply = command.do === "result" ? { effects: [] } : await adapter(command);
      player.stdin.write(JSON.stringify(reply) + "\n");
    }
  } finally {
    player.kill();
  }
  if (!end) throw new Error("crore-script has ended early");
  return { results, ...end };
}
