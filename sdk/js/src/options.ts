import type { PublishInput, Published } from "./core/calls.js";
import type { CoreOptions } from "./core/options.js";
import type { Tag } from "./message.js";
import type { SocketConstructor } from "./platform.js";
import type { CoreSubscription } from "./core/subscription.js";
import type { Shell } from "./shell.js";
import type { Level } from "./state.js";

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
export interface Options extends CoreOptions {
  /** The id for `once`: 1 to 64 bytes that only this publisher uses. Default: random. */
  producerId?: string | Uint8Array;
  /** `resume(storage)` of `crore/persist`: named subscriptions go on where the last program ended. */
  resume?: Resume;
  /** `persist(storage)` of `crore/persist`: `once` publications survive the program. */
  persist?: Persist;
  /** Takes the events of the log: never payloads or tokens. */
  log?: (level: Level, event: string, fields: Record<string, unknown>) => void;
  /** Another WebSocket than the platform's, such as that of the package `ws`. */
  webSocket?: SocketConstructor;
  /** React Native's `AppState`: the client checks its connection when the app comes back. */
  appState?: { addEventListener(type: "change", listener: (state: string) => void): { remove(): void } };
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
