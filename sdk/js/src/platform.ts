/** What the client needs of a platform, in browsers, Node, Deno, Bun and React Native. */

import { invalid } from "./errors.js";

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

export type SocketConstructor = new (url: string, protocols: string[]) => SocketLike;

/** The globals, by name: a platform may lack each of them. */
export const platform = globalThis as unknown as {
  WebSocket?: SocketConstructor;
  performance?: { now(): number };
  crypto?: { getRandomValues(bytes: Uint8Array): Uint8Array };
  AbortController?: typeof AbortController;
  addEventListener?: (type: string, listener: (event: any) => void) => void;
  removeEventListener?: (type: string, listener: (event: any) => void) => void;
  document?: { visibilityState?: string } & EventTarget;
  navigator?: { locks?: { request(name: string, options: object, held: (lock: unknown) => unknown): Promise<unknown> } };
  localStorage?: { crore?: string };
  console?: Record<string, (...values: unknown[]) => void>;
};

/** Milliseconds of a clock that never goes back, where there is one. */
export function clock(): number {
  return platform.performance ? platform.performance.now() : Date.now();
}

/** Random bytes for an id. */
export function randomBytes(count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  if (platform.crypto) return platform.crypto.getRandomValues(bytes);
  return bytes.map(() => Math.floor(Math.random() * 256));
}

/** C1: `http` means `ws`, and no path means `/crore`. */
export function socketUrl(url: string): string {
  const match = /^(ws|http)(s?):\/\/([^/?#\s]+)([^?#\s]*)(\?[^#\s]*)?$/i.exec(url);
  if (!match) throw invalid(`${url} is not a URL of a node, such as ws://localhost:8800`);
  const path = match[4] === "" || match[4] === "/" ? "/crore" : match[4];
  return `ws${match[2]!.toLowerCase()}://${match[3]}${path}${match[5] ?? ""}`;
}

/** The log that `localStorage.crore` asks for, in browsers. */
export function consoleLog(): ((level: string, event: string, fields: object) => void) | undefined {
  try {
    if (!platform.localStorage?.crore) return undefined;
  } catch {
    return undefined;
  }
  return (level, event, fields) => platform.console?.[level]?.("crore", event, fields);
}
