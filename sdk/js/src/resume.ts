/**
 * R11, P14: positions of named subscriptions, and resume tickets, that survive the program. Positions are stored when
 * the reader asks for the next item; where a subscription begins counts as processed in partitions of which nothing was.
 */

import { parse, show } from "./codec/position.js";
import { cursorOf } from "./core/proof.js";
import { Phase, type Core } from "./core/state.js";
import { startAt, type CoreSubscription } from "./core/subscription.js";
import { start } from "./core/subscriptions.js";
import { bytesOf, hexOf } from "./hex.js";
import type { Progress, Resume, Resumed } from "./options.js";
import type { Shell } from "./shell.js";
import { clock } from "./platform.js";
import { newSaver, type Saver, type Storage } from "./storage.js";

export interface ResumeOptions {
  /**
   * Also stores the resume ticket, which brings all subscriptions back in one frame if they all have
   * names. It is a bearer's secret: whoever reads the storage can read what the client may.
   */
  tickets?: boolean;
}

/** Positions by partition; 0 for a topic. */
type Places = Record<string, string>;

/** A ticket with what it holds. @stored */
interface StoredTicket {
  ticket: string;
  /** By the server's clock; absent if it did not say so. */
  expires?: number;
  /** The subscriptions, by topic and options. */
  covers: Record<string, StoredCover>;
}

/** @stored */
interface StoredCover {
  /** The number on the wire. */
  number: number;
  /**
   * Up to where everything had come. The server goes on at the newer of the ticket's cursor and the client's own, so
   * the ticket is of use only if all of that was processed.
   */
  places: Places;
}

const placesOf = (it: CoreSubscription): Places => {
  const places: Places = {};
  const cursor = cursorOf(it);
  if (cursor) places[0] = show(cursor);
  it.cursors.forEach((place, partition) => (places[partition] = show(place)));
  return places;
};

const isProcessed = (come: Places, own: Places): boolean =>
  Object.entries(come).every(([partition, text]) => {
    const [place, at] = [parse(text)!, parse(own[partition] ?? "")];
    return at?.inEpoch === place.inEpoch && at.upTo >= place.upTo;
  });

/**
 * The option `resume` of a client: subscriptions with a name go on in the next program behind what this one has
 * processed.
 */
export function resume(storage: Storage, options: ResumeOptions = {}): Resume {
  return (shell, begin) => new Resumption(storage, options, shell, begin);
}

/** What the server compares with a ticket: topic and options. */
const coverOf = ({ pattern, wanted }: CoreSubscription): string =>
  JSON.stringify([pattern, !!wanted.failOnGap, wanted.policy ?? null]);

const setNumber = (core: Core, it: CoreSubscription, number: number): void => {
  core.byNumber.delete(it.number);
  it.number = number;
  core.byNumber.set(number, it);
};

class Resumption implements Resumed {
  private readonly savers = new Map<string, Saver>();
  private readonly named = new Set<CoreSubscription>();
  private readonly loading = new Set<Promise<void>>();
  private readonly restored: Promise<void>;
  private covers: StoredTicket["covers"] = {};

  constructor(
    private readonly storage: Storage,
    { tickets }: ResumeOptions,
    private readonly shell: Shell,
    begin: () => void,
  ) {
    this.restored = tickets ? this.restore(begin) : Promise.resolve();
    if (!tickets) begin();
  }

  begin(it: CoreSubscription, name: string): Progress {
    this.named.add(it);
    const key = `crore:position:${name}`;
    const loaded = this.load(it, key).finally(() => this.loading.delete(loaded));
    this.loading.add(loaded);
    return new Positions(it, this.saver(key));
  }

  async idle(): Promise<void> {
    for (const saver of this.savers.values()) await saver.idle();
  }

  private saver(key: string): Saver {
    let saver = this.savers.get(key);
    if (!saver) this.savers.set(key, (saver = newSaver(this.storage, key, this.shell.blame)));
    return saver;
  }

  private async load(it: CoreSubscription, key: string): Promise<void> {
    const { core, act, blame } = this.shell;
    await this.restored;
    try {
      const text = await this.storage.get(key);
      const positions = text ? (JSON.parse(text) as Record<number, string>) : {};
      if (text) {
        startAt(it, it.isFilter ? { sinceEach: positions } : { since: positions[0]! });
        this.takeNumber(it, positions);
      }
    } catch (error) {
      blame(error);
    }
    act(() => start(core, it));
  }

  /** The ticket knows the subscription by its number. */
  private takeNumber(it: CoreSubscription, positions: Places): void {
    const { core } = this.shell;
    const cover = this.covers[coverOf(it)];
    if (!cover || it.end || core.phase !== Phase.Waiting) return;
    if (isProcessed(cover.places, positions)) setNumber(core, it, cover.number);
  }

  /** Takes the ticket of the last program, and connects when the subscriptions of this turn have their positions. */
  private async restore(begin: () => void): Promise<void> {
    const { core, blame } = this.shell;
    const key = `crore:ticket:${core.options.name ?? ""}`;
    try {
      const text = await this.storage.get(key);
      if (text) this.hold(core, JSON.parse(text) as StoredTicket);
    } catch (error) {
      blame(error);
    }
    this.watch(core, this.saver(key));
    void Promise.resolve()
      .then(() => Promise.all(this.loading))
      .then(() => {
        if (core.phase === Phase.Waiting) begin();
      });
  }

  private hold(core: Core, { ticket, expires = Infinity, covers }: StoredTicket): void {
    const expiresAt = clock() + expires - Date.now();
    core.held = { ticket: bytesOf(ticket), expiresAt, renewAt: 0, covers: new Set(Object.values(covers).map(({ number }) => number)) };
    this.covers = covers;
    // What was subscribed meanwhile gives the ticket's numbers up.
    core.lastNumber = Math.max(core.lastNumber, ...core.held.covers);
    for (const it of core.byFilter.values()) setNumber(core, it, ++core.lastNumber);
  }

  /** Stores what the core holds, whenever it may have changed. */
  private watch(core: Core, saver: Saver): void {
    const { logged } = core;
    let last: unknown = core.held;
    const look = () => {
      const { held } = core;
      if (held === last) return;
      last = held;
      saver.save(held ? this.textOf(core, held) : "");
    };
    core.logged = (...event) => {
      logged(...event);
      // The event comes before the change, or behind it.
      if (/^(ticket|go_away|ended)/.test(event[1])) void Promise.resolve().then(look);
    };
  }

  /** Only a session whose subscriptions all have names can be resumed by the next program. */
  private textOf(core: Core, { ticket, expiresAt, covers: numbers }: NonNullable<Core["held"]>): string {
    const covers: StoredTicket["covers"] = {};
    for (const number of numbers) {
      const it = core.byNumber.get(number);
      if (!it || !this.named.has(it)) return "";
      covers[coverOf(it)] = { number, places: placesOf(it) };
    }
    const expires = expiresAt < Infinity ? Math.round(expiresAt + core.clockMs) : undefined;
    return JSON.stringify({ ticket: hexOf(ticket), expires, covers } satisfies StoredTicket);
  }
}

/** The processed positions of one subscription. */
class Positions implements Progress {
  private places: Places = {};
  private saved = "{}";
  private hasBegun = false;

  constructor(
    private readonly it: CoreSubscription,
    private readonly saver: Saver,
  ) {}

  begun(): void {
    if (this.hasBegun || !this.it.hasBegun) return;
    this.hasBegun = true;
    this.places = placesOf(this.it);
    this.save();
  }

  asked(): void {
    this.it.processed.forEach((place, partition) => (this.places[partition] = show(place)));
    this.save();
  }

  private save(): void {
    const text = JSON.stringify(this.places);
    if (text !== this.saved) this.saver.save((this.saved = text));
  }
}
