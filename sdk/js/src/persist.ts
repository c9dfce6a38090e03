/**
 * `crore/persist`: `once` publications that survive the program (U13). Id and reserved numbers are stored first, then
 * each publication before it is sent; the next start sends what is left, by the same numbers.
 *
 * Two programs with one id would fence each other. So the id belongs to a lane, and a lane to the
 * one page that holds its Web Lock; Node and React Native have one program for one storage.
 */

import type { PublishInput, Published } from "./core/calls.js";
import { bytesOf, hexOf } from "./hex.js";
import type { Persist, Persisted } from "./options.js";
import { platform, randomBytes } from "./platform.js";
import type { Shell } from "./shell.js";
import type { Storage } from "./storage.js";

export { resume, type ResumeOptions } from "./resume.js";

const RESERVED = 1_000;
const LANES_MAX = 64;

/** A lane: numbers below `first` are answered, up to `reserved` may be in use. @stored */
interface Lane {
  id: string;
  first: number;
  reserved: number;
}

/**
 * The option `persist` of a client: keeps `once` publications in a storage. Clients with other names
 * need other names here.
 */
export function persist(storage: Storage, name = ""): Persist {
  return (shell, publish) => new Persistence(storage, name, shell, publish);
}

class Persistence implements Persisted {
  private key = "";
  private lane: Lane = { id: "", first: 1, reserved: 0 };
  private next = 1;
  private readonly loaded: Promise<void>;
  private order: Promise<unknown>;
  private readonly open = new Set<number>();
  private releaseLock: (() => void) | undefined;

  constructor(
    private readonly storage: Storage,
    private readonly name: string,
    private readonly shell: Shell,
    private readonly pass: Persisted["publish"],
  ) {
    this.order = this.loaded = this.load();
    this.loaded.catch((error) => shell.blame(error));
  }

  /** Publishes: stored first, then sent, in the order of the calls. */
  async publish(input: PublishInput, signal?: AbortSignal): Promise<Published> {
    const stored = this.order.then(() => this.store(input, signal));
    this.order = stored.catch(() => {});
    // The answer is waited for outside of the chain.
    return (await stored).answer;
  }

  /** Resolves when every call before has been stored. */
  async idle(): Promise<void> {
    await this.order.catch(() => {});
  }

  release(): void {
    this.releaseLock?.();
  }

  private async store(input: PublishInput, signal?: AbortSignal): Promise<{ answer: Promise<Published> }> {
    await this.loaded;
    // Given up before it has a number: the client refuses it.
    if (signal?.aborted) return { answer: this.pass(input, signal) };
    if (this.next > this.lane.reserved) await this.reserve();
    const sequence = this.next++;
    await this.storage.set(this.entry(sequence), textOf(input));
    return { answer: this.send(sequence, input, signal) };
  }

  private async send(sequence: number, input: PublishInput, signal?: AbortSignal): Promise<Published> {
    this.open.add(sequence);
    let isAnswered = false;
    try {
      const published = await this.pass({ ...input, sequence }, signal);
      isAnswered = true;
      return published;
    } finally {
      this.open.delete(sequence);
      // What the end of the program leaves unanswered is for the next one.
      if (isAnswered || this.shell.core.shown.state !== "closed") this.forget(sequence);
    }
  }

  private forget(sequence: number): void {
    const forgotten = this.order.then(() => this.storage.delete(this.entry(sequence)));
    this.order = forgotten.catch((error) => this.shell.blame(error));
  }

  private entry(sequence: number): string {
    return `${this.key}:${sequence}`;
  }

  private async reserve(): Promise<void> {
    const first = this.open.size ? Math.min(...this.open) : this.next;
    this.lane = { id: this.lane.id, first, reserved: this.next + RESERVED - 1 };
    await this.storage.set(this.key, JSON.stringify(this.lane));
  }

  private async load(): Promise<void> {
    this.key = `crore:once:${this.name}:${await this.takeLane()}`;
    const text = await this.storage.get(this.key);
    this.lane = text ? (JSON.parse(text) as Lane) : { id: hexOf(randomBytes(16)), first: 1, reserved: 0 };
    this.shell.core.sender = bytesOf(this.lane.id);
    const left: [number, PublishInput][] = [];
    for (let sequence = this.lane.first; sequence <= this.lane.reserved; sequence++) {
      const entry = await this.storage.get(this.entry(sequence));
      if (entry) left.push([sequence, inputOf(entry)]);
    }
    this.next = this.lane.reserved + 1;
    for (const [sequence, input] of left) this.send(sequence, input).catch((error) => this.shell.blame(error));
    await this.reserve();
  }

  /** Holds the first free lane. */
  private async takeLane(): Promise<number> {
    const locks = platform.navigator?.locks;
    if (!locks) {
      if (platform.document) throw new Error("`persist` needs Web Locks in browsers");
      return 0;
    }
    for (let lane = 0; lane < LANES_MAX; lane++) {
      const name = `crore:${this.name}:${lane}`;
      const isMine = await new Promise<boolean>((resolve, reject) => {
        locks
          .request(name, { ifAvailable: true }, (lock) => {
            resolve(lock !== null);
            return lock === null ? undefined : new Promise<void>((release) => (this.releaseLock = release));
          })
          .catch(reject);
      });
      if (isMine) return lane;
    }
    throw new Error("too many pages publish under this name");
  }
}

/** A stored publication. */
function textOf(input: PublishInput): string {
  return JSON.stringify({ ...input, payload: hexOf(input.payload) });
}

function inputOf(text: string): PublishInput {
  const input = JSON.parse(text) as PublishInput & { payload: string };
  return { ...input, payload: bytesOf(input.payload), timeout: undefined };
}
