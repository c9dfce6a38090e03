import type { PublishInput, Published } from "./core/calls.js";
import type { Level, TokenReason } from "./core/state.js";
import type { Tag } from "./message.js";
import type { SocketConstructor } from "./platform.js";
import type { CoreSubscription } from "./core/subscription.js";
import type { Shell } from "./shell.js";

/**
 * Returns the newest token, or nothing if there is no new one. An error with the name
 * `Unauthorized` ends the client; after any other one the source is called again.
 */
export type TokenSource = (
  reason: TokenReason,
  signal: AbortSignal | undefined,
) => string | undefined | Promise<string | undefined>;

/** Keeps publications over the end of the program: see `crore/persist`. */
export interface Persist {
  readonly name: string;
  /** `publish` sends, for the client. @internal */
  (shell: Shell, publish: Persisted["publish"]): Persisted;
}

/** What a client needs of its `persist`. @internal */
export interface Persisted {
  publish(input: PublishInput, signal?: AbortSignal): Promise<Published>;
  idle(): Promise<void>;
  release(): void;
}

/** Keeps positions over the end of the program: see `crore/persist`. */
export interface Resume {
  readonly name: string;
  /** `begin` connects. @internal */
  (shell: Shell, begin: () => void): Resumed;
}

/** What a client needs of its `resume`. @internal */
export interface Resumed {
  /** Begins a named subscription. */
  begin(it: CoreSubscription, name: string): Progress;
  /** Resolves when everything is stored. */
  idle(): Promise<unknown>;
}

/** What a named subscription tells: R11, P14. @internal */
export interface Progress {
  /** It may have been granted. */
  begun(): void;
  /** The reader asks for the next item. */
  asked(): void;
}

/** Options of a client. */
export interface Options {
  /** A fixed token, or the source of tokens. */
  token?: string | TokenSource;
  /** A name for the logs of the node. */
  name?: string;
  /** The id for `once`: 1 to 64 bytes that only this publisher uses. Default: random. */
  producerId?: string | Uint8Array;
  /** `resume(storage)` of `crore/persist`: named subscriptions go on where the last program ended. */
  resume?: Resume;
  /** `persist(storage)` of `crore/persist`: `once` publications survive the program. */
  persist?: Persist;
  /**
   * The first frames, with the token, go with the handshake, which saves a round trip. What is on
   * the way has to take a head of 12 KiB, and must not log it. If such a handshake fails, the next
   * one goes without.
   */
  handshakeFrames?: boolean;
  /** Takes the events of the log: never payloads or tokens. */
  log?: (level: Level, event: string, fields: Record<string, unknown>) => void;
  /** Another WebSocket than the platform's, such as that of the package `ws`. */
  webSocket?: SocketConstructor;
  /** React Native's `AppState`: the client checks its connection when the app comes back. */
  appState?: { addEventListener(type: "change", listener: (state: string) => void): { remove(): void } };
  /** The waits between attempts, in milliseconds. */
  backoff?: { base?: number; max?: number; resetAfter?: number };
  /** The bound of what waits for a subscription's reader. */
  buffer?: { items?: number; bytes?: number };
}

/** Where a subscription begins. */
export type Start =
  | "live"
  /** The retained message or the newest one, then live. */
  | "snapshot"
  /** All messages behind a position, then live. */
  | { since: string }
  /** For filters: all messages behind a position of each partition, then live. */
  | { sinceEach: Record<number, string> }
  /** The newest messages, then live. */
  | { last: number };

export interface SubscribeOptions {
  start?: Start;
  /** Ends with an error that has `restart`, in place of a gap at the start. */
  failOnGap?: boolean;
  /** What the server does when this subscription lags. */
  policy?: "replay" | "conflate" | "drop" | "disconnect";
  /** What the client does when the reader is slow: pause at the server's log, or skip the oldest. */
  overflow?: "pause" | "skip";
  /** With `resume`: the position is stored by this name, and the next program goes on from it. */
  name?: string;
}

/** A payload: bytes, text, or a value that becomes JSON. */
export type Data = Uint8Array | ArrayBuffer | string | object | number | boolean | null;

export interface PublishOptions {
  /** In the log exactly once, repeated until it is answered. */
  once?: boolean;
  /** As `once`, by a key of 1 to 128 bytes in place of a sequence: for publishers without memory. */
  key?: string | Uint8Array;
  /** Also the topic's retained message; an empty payload clears it. */
  retain?: boolean;
  contentType?: string;
  tags?: readonly Tag[] | Record<string, string>;
  /** Only in this epoch of the log. */
  expectedEpoch?: string;
  /** Milliseconds until the call settles: 10,000, with `once` 60,000. */
  timeout?: number;
  /** Gives the call up: not sent yet, it never will be. */
  signal?: AbortSignal;
}

export interface HistoryOptions {
  /** Messages behind this position; with `reverse` before it. */
  after?: string;
  /** The newest first. */
  reverse?: boolean;
  /** At most so many messages. */
  limit?: number;
  /** `"throw"` (default): a range that is gone throws `GapError`. */
  gaps?: "throw" | "report";
  timeout?: number;
}
