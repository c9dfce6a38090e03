/** What the client needs of a platform, in browsers, Node, Deno, Bun and React Native. */

import { invalid } from "./errors.js";
import type { Level } from "./state.js";

/** The part of a WebSocket that the client uses; that of browsers and of the package `ws` have it. */
export interface SocketLike {
  binaryType: string;
  readonly bufferedAmount: number;
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(data: Uint8Array): void;
  close(code?: number, reason?: string): void;
  /** Of `ws`: without a close handshake. */
  terminate?(): void;
}

/** What the client reads of a socket's events. */
export interface SocketEvent {
  data?: ArrayBuffer | string;
  code?: number;
  message?: string;
}

export type SocketConstructor = new (url: string, protocols: string[]) => SocketLike;

/** The globals, by name: a platform may lack each of them. */
export const platform = globalThis as unknown as {
  WebSocket?: SocketConstructor;
  TextDecoder?: typeof TextDecoder;
  crypto?: { getRandomValues(bytes: Uint8Array): Uint8Array };
  addEventListener?: (type: string, listener: (event: any) => void) => void;
  removeEventListener?: (type: string, listener: (event: any) => void) => void;
  document?: { visibilityState?: string } & EventTarget;
  navigator?: { locks?: { request(name: string, options: { ifAvailable: boolean }, held: (lock: unknown) => unknown): Promise<unknown> } };
  localStorage?: { crore?: string };
};

/** Milliseconds of a clock that never goes back. */
export const clock = (): number => performance.now();

/** Random bytes for an id. */
export const randomBytes = (count: number): Uint8Array => {
  const bytes = new Uint8Array(count);
  return platform.crypto?.getRandomValues(bytes) ?? bytes.map(() => Math.random() * 256);
};

/** C1: `http` means `ws`, and no path means `/crore`. */
export const socketUrl = (url: string): string => {
  const match = /^(?:ws|http)(s?:\/\/[^/?#\s]+)\/?([^?#\s]*)(\?[^#\s]*)?$/i.exec(url);
  if (!match) throw invalid(`${url} is no URL`);
  const [, host, path, query = ""] = match;
  return `ws${host}/${path || "crore"}${query}`;
};

/** The log that `localStorage.crore` asks for, in browsers. */
export const consoleLog = (): ((level: string, event: string, fields: object) => void) | undefined => {
  try {
    if (platform.localStorage?.crore) return (level, event, fields) => console[level as Level]("crore", event, fields);
  } catch {
    // The page may not use its storage.
  }
  return undefined;
};
