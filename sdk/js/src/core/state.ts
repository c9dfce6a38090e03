/**
 * The core of the client: no socket, timer, clock or random number of its own. The shell sets `now`,
 * calls the function of what happens, and asks for `wakeAt`; the core tells its host what to do.
 *
 * Rules: `spec/sdk.md`; their numbers stand beside the code.
 */

import type { Part } from "../codec/bytes.js";
import { plain, type Plain } from "../codec/client.js";
import type { GoAway } from "../codec/server.js";
import { CroreError } from "../errors.js";
import type { Level, State, TokenReason } from "../state.js";
import type { Call } from "./calls.js";
import type { CoreOptions } from "./options.js";
import type { CoreSubscription } from "./subscription.js";

/** What the core asks for. Nothing of it calls the core back before the input is done. */
export interface Host {
  /** A fraction from 0 to 1. */
  random(): number;
  /** Connects, with these frames in the handshake. */
  dial(url: string, early: Uint8Array[]): void;
  transmit(bytes: Uint8Array): void;
  /** 1006: without a close frame. */
  hangUp(code: number): void;
  askToken(id: number, reason: TokenReason): void;
  changed(state: State): void;
  /** A refusal that belongs to no call. */
  complain(error: CroreError): void;
  /** An event of the log; they are kept for `inspect` in any case. */
  logged(level: Level, event: string, fields: Record<string, unknown>): void;
  /** U15: the socket has too many unsent bytes. */
  isBlocked(): boolean;
}

/** The phases of a connection, in their order. */
export const enum Phase {
  Closed,
  Waiting,
  Token,
  Opening,
  Greeting,
  Ready,
}

/** R3: a ticket, and the numbers of its subscriptions. */
export interface Held {
  ticket: Uint8Array;
  expiresAt: number;
  renewAt: number;
  covers: Set<number>;
}

/** Times that are `Infinity` never come. */
export interface Core extends Host {
  readonly urls: readonly string[];
  readonly options: CoreOptions;
  /** Whether the shell has a source of tokens. */
  readonly hasTokenSource: boolean;
  nowMs: number;
  shown: State;
  counters: Record<"connections" | "messages" | "duplicates" | "unexpected" | "gaps" | "skips" | "repeated", number>;
  events: { at: number; event: string; fields: Record<string, unknown> }[];

  // Connection.
  phase: Phase;
  phaseSince: number;
  waitUntil: number;
  openedAt: number;
  /** C2: HELLO went with the handshake, and SUBSCRIBE of these. */
  early?: Set<number>;
  /** The last attempt failed with frames in its handshake, so the next one goes without. */
  isPlain?: boolean;
  /** C4: waits since a connection has lasted. */
  waits: number;
  /** C3: the next of the URLs. */
  turn: number;
  /** G3: URLs that come first. */
  preferred: string[];
  /** G: what GO_AWAY has said. */
  plan?: GoAway;
  /** X1: when `close` waits no longer. */
  closeAt: number;
  lastEnd: State;
  lastRequest: number;
  silenceMs: number;
  heardAt: number;
  pingedAt?: number;
  probeUntil: number;
  roundTripMs?: number;

  // Subscriptions.
  byNumber: Map<number, CoreSubscription>;
  byFilter: Map<string, CoreSubscription>;
  byAlias: Map<number, CoreSubscription>;
  lastNumber: number;

  // Calls.
  sender: Uint8Array;
  /** Not sent yet. */
  unsent: Set<Call>;
  queueBytes: number;
  /** Sent and not answered, by request: those on the wire, and `once` ones that will be repeated. */
  open: Map<number, Call>;
  onceCount: number;
  keptBytes: number;
  lastSequence: number;
  /** U8: those refused for the moment wait until then, and nothing new that is `once` is sent; or 0. */
  refusedUntil: number;
  repeatAt: number;
  hasGivenUp?: boolean;
  isFenced?: boolean;
  payloadMax: number;
  /** No call settles by its timeout before. */
  deadline: number;

  // Tickets.
  held?: Held;
  wasPresented?: boolean;
  ticketRequest?: number;
  ticketAt: number;
  ticketNotBefore: number;
  /** How long tickets of this connection live. */
  ticketMs: number;
  /** The server's clock minus the own one. */
  clockMs: number;

  // Tokens.
  bearer?: string;
  /** Why the next attempt needs a token. */
  needed?: TokenReason;
  asked?: { id: number; why: TokenReason; forAttempt: boolean; endsAt: number };
  lastAsked: number;
  /** T9: when the source is called again for a renewal. */
  askAt: number;
  askFailures: number;
  /** The renewal on the wire. */
  renewal?: number;
  isRenewalDue?: boolean;
  wasRefused?: boolean;
  /** `unauthorized` came in place of WELCOME. */
  wasUnauthorized?: boolean;
}

export const newCore = (urls: readonly string[], options: CoreOptions, sender: Uint8Array, host: Host): Core => {
  const { token } = options;
  const hasTokenSource = typeof token === "function";
  return {
    ...host,
    urls,
    options,
    hasTokenSource,
    sender,
    bearer: hasTokenSource ? undefined : (token as string | undefined),
    needed: hasTokenSource ? "first" : undefined,
    turn: urls.length > 1 ? Math.floor(host.random() * urls.length) : 0,
    shown: { state: "connecting" },
    counters: { connections: 0, messages: 0, duplicates: 0, unexpected: 0, gaps: 0, skips: 0, repeated: 0 },
    events: [],
    preferred: [],
    phase: Phase.Waiting,
    byNumber: new Map(),
    byFilter: new Map(),
    byAlias: new Map(),
    unsent: new Set(),
    open: new Map(),
    waits: 0,
    lastRequest: 0,
    lastNumber: 0,
    queueBytes: 0,
    onceCount: 0,
    keptBytes: 0,
    refusedUntil: 0,
    lastSequence: 0,
    ticketNotBefore: 0,
    lastAsked: 0,
    askFailures: 0,
    closeAt: Infinity,
    deadline: Infinity,
    ticketAt: Infinity,
    askAt: Infinity,
    // What is missing is set when a connection begins.
  } as Partial<Core> as Core;
};

/** Numbers of the rules; they are inlined. */
const enum Limit {
  EventsMax = 64,
}

/** An event of the log. */
export const note = (core: Core, event: string, fields: Record<string, unknown> = {}, level: Level = "debug"): void => {
  core.events.push({ at: core.nowMs, event, fields });
  if (core.events.length > Limit.EventsMax) core.events.shift();
  core.logged(level, event, fields);
};

/** C9: a frame about nothing. */
export const unexpected = (core: Core, type: number): void => {
  core.counters.unexpected++;
  note(core, "unexpected_frame", { type });
};

export const nextRequest = (core: Core): number => (core.lastRequest = (core.lastRequest % 0xffffffff) + 1);

/** Whether SUBSCRIBE may go out; G1. */
export const mayAsk = (core: Core): boolean => core.phase >= Phase.Greeting && !core.plan;

/** Whether requests may go out. */
export const mayRequest = (core: Core): boolean => core.phase === Phase.Ready && !core.plan;

/** A wait that doubles: C4, S6, U8. */
export const doubled = (base: number, times: number, max: number): number => Math.min(base * 2 ** times || 0, max);

export const checkOpen = (core: Core): void => {
  if (core.phase === Phase.Closed || core.closeAt < Infinity) throw new CroreError("Closed", "the client is closed");
};

/** Sends a frame that has neither flags nor options. */
export const send = (core: Core, type: Plain, ...fields: Part[]): void => core.transmit(plain(type, ...fields));
