/** Decoding of the server's frames. Bytes that are no frame throw the error of their fault. */

import { Message, type Tag } from "../message.js";
import { Fault, block, end, epoch, fault, flagsOf, rest, take, text, textOf, u8, varint, varint32, wide, type Reader } from "./bytes.js";

/** The types of the server's frames. */
export const enum Type {
  Ping = 0x07,
  Pong = 0x08,
  Welcome = 0x81,
  Subscribed,
  Unsubscribed,
  Message,
  NamedMessage,
  CaughtUp,
  Gap,
  Skipped,
  Published,
  HistoryPage,
  Error,
  GoAway,
  Renewed,
  TicketIssued,
  TokenExpires,
}

/** Options by their keys in the table of the protocol. */
export interface Options {
  2?: string;
  4?: Tag[];
  6?: string;
  8?: Uint8Array;
  10?: number;
  12?: number;
  14?: number;
  18?: Uint8Array;
}

/** Where a subscription begins. */
export type Beginning = [flags: number, partition: number, epoch: string, through: number];

/** The bits of a beginning's flags. */
export const enum Begin {
  Replaying = 2,
  Continued = 4,
}

type Maybe<T> = T | undefined;

/** Type, flags, and the fields in their order; the absent ones are undefined. */
export type Frame =
  | [type: Type.Ping | Type.Pong, flags: number, token: string, options: Options]
  | [
      type: Type.Welcome,
      flags: number,
      version: number,
      connection: string,
      pingIntervalS: number,
      timeMs: number,
      frameBytesMax: number,
      messageBytesMax: number,
      subscriptionsMax: number,
      options: Options,
    ]
  | [type: Type.Subscribed, flags: number, subscription: number, alias: Maybe<number>, beginnings: Beginning[]]
  | [type: Type.Unsubscribed, flags: number, subscription: number, code: number, options: Options]
  | [type: Type.Message, flags: number, alias: number, message: Message]
  | [type: Type.NamedMessage, flags: number, subscription: Maybe<number>, lineage: Maybe<Uint8Array>, message: Message]
  | [type: Type.CaughtUp, flags: number, subscription: number, partition: Maybe<number>, through: number, options: Options]
  | [
      type: Type.Gap,
      flags: number,
      subscription: number,
      partition: Maybe<number>,
      epoch: string,
      from: number,
      to: number,
      reason: number,
      options: Options,
    ]
  | [
      type: Type.Skipped,
      flags: number,
      subscription: number,
      partition: Maybe<number>,
      epoch: Maybe<string>,
      from: number,
      through: number,
      reason: number,
      options: Options,
    ]
  | [type: Type.Published, flags: number, request: number, epoch: string, offset: number, options: Options]
  | HistoryPage
  | ErrorFrame
  | GoAway
  | [type: Type.Renewed, flags: number, request: number, expiresMs: number, options: Options]
  | [type: Type.TicketIssued, flags: number, request: number, expiresMs: number, ticket: Uint8Array, options: Options]
  | [type: Type.TokenExpires, flags: number, expiresMs: number, options: Options];

export type GoAway = [type: Type.GoAway, flags: number, code: number, returnAfterMs: number, options: Options, urls: string[]];

export type HistoryPage = [
  type: Type.HistoryPage,
  flags: number,
  request: number,
  epoch: string,
  head: number,
  gapFrom: Maybe<number>,
  gapTo: Maybe<number>,
  gapReason: Maybe<number>,
  options: Options,
  messages: Message[],
];

/** `reference`: 0 the connection, 1 a request, 2 a subscription; `id`: its number. */
export type ErrorFrame = [
  type: Type.Error,
  flags: number,
  reference: number,
  id: number,
  code: number,
  message: string,
  restartEpoch: Maybe<string>,
  restartOffset: Maybe<number>,
  limit: Maybe<number>,
  options: Options,
];

/** The names of a gap's reason; others may come. */
export const gapCause = (reason: number): string => ["evicted", "unknown_epoch", "beyond_head", "history_limit", "damaged"][reason] ?? "other";

export const skipReason = (reason: number): string => [, "conflated", , "dropped"][reason] ?? "other";

/**
 * The layouts from WELCOME on: the flags that the type defines, then a letter of `FIELDS` for each
 * field. A field behind a number is there if the flags have one of its bits.
 */
const LAYOUTS =
  "0Vcuwwwuo 7us 0uuo  1n 1u1uvo 1u1uevvbo 1u1u1evvbo 1uevo 7uev4v4v4bor 7buut2e2v4wo 0uwol 0uwo 0uwko 0wo".split(" ");

/** The options that a type may have, beside a lineage. */
const KNOWN: Record<number, number[]> = {
  [Type.Welcome]: [6, 12, 14],
  [Type.Message]: [2, 4],
  [Type.NamedMessage]: [2, 4, 10],
  [Type.GoAway]: [8],
};

/** Decodes one frame. */
export const decode = (bytes: Uint8Array): Frame => {
  const reader = { source: bytes, at: 0 };
  const type = u8(reader);
  // The commonest first. Its payload is the rest, so that nothing can be left over.
  if (type === Type.Message) {
    const flags = flagsOf(reader, 1);
    return [type, flags, varint32(reader), message(reader, flags, "", "")];
  }
  const isPing = type === Type.Ping || type === Type.Pong;
  const layout = isPing ? "0eo" : LAYOUTS[type - Type.Welcome] ?? fault(Fault.Type);
  const flags = flagsOf(reader, Number(layout[0]));
  const frame: any[] = [type, flags];
  let bits = 255;
  for (const letter of layout.slice(1)) {
    const field = FIELDS[letter];
    if (!field) bits = Number(letter);
    else {
      frame.push(flags & bits || bits > 7 ? field(reader, flags, frame) : undefined);
      bits = 255;
    }
  }
  end(reader);
  if (type === Type.Error && (frame[2] > 2 || (!frame[2] && frame[3]))) fault();
  return frame as Frame;
};

const list = <T>(reader: Reader, read: () => T): T[] => {
  const all: T[] = [];
  for (let left = varint(reader); left > 0; left--) all.push(read());
  return all;
};

const NONE: Options = {};
const NO_TAGS: readonly Tag[] = [];

/** The options, if bit 7 of the flags announces them. Of those not known here, odd ones are refused. */
const options = (reader: Reader, flags: number, known: readonly number[]): Options => {
  if (flags < 128) return NONE;
  const found: Record<number, any> = {};
  for (let left = varint(reader); left > 0; left--) {
    const key = varint(reader);
    const value = block(reader);
    if (key !== 18 && !known.includes(key)) {
      if (key & 1) fault(Fault.Option);
    } else if (key === 4) {
      const tag = { source: value, at: 0 };
      (found[4] ??= []).push([text(tag), textOf(rest(tag))]);
    } else if (key in found) fault();
    else found[key] = key % 10 === 8 ? value : key < 8 ? textOf(value) : only32(value);
  }
  return found;
};

/** The whole value is one varint of 32 bits. */
const only32 = (bytes: Uint8Array): number => {
  const reader = { source: bytes, at: 0 };
  const value = varint32(reader);
  end(reader);
  return value;
};

/**
 * The part that MESSAGE, NAMED_MESSAGE and a record of history have in common. The epoch of a MESSAGE is its
 * lineage until its subscription is known.
 */
const message = (
  reader: Reader,
  flags: number,
  topic: string,
  epoch: string,
  partition?: number,
  isRecord?: boolean,
  frame?: any[],
): Message => {
  const offset = varint(reader);
  const delta = varint(reader);
  if (!delta || delta > offset) fault();
  const time = isRecord ? wide(reader) : undefined;
  const found: any = options(reader, flags, KNOWN[frame ? Type.NamedMessage : Type.Message]!);
  frame?.push(found[10], found[18]);
  const bytes = isRecord ? block(reader) : rest(reader);
  return new Message(bytes, topic, epoch || found[18], offset, offset - delta, !!(flags & 1), found[2], found[4] ?? NO_TAGS, partition, time);
};

const named = (reader: Reader, flags: number, frame: any[]): Message => {
  const bytes = block(reader);
  if (!bytes.length) fault(Fault.Topic);
  if (bytes.length > 255) fault(Fault.TopicLength);
  const topic = textOf(bytes);
  const partition = varint32(reader);
  return message(reader, flags, topic, epoch(reader), partition, false, frame);
};

/** Behind SUBSCRIBED's subscription: the alias, which a filter has not, and the beginnings. */
const subscribed = (reader: Reader, flags: number, frame: any[]): Beginning[] => {
  const isFilter = flags & 1;
  if (isFilter && flags & 6) fault(Fault.Option);
  const alias = isFilter ? undefined : varint32(reader);
  frame.push(alias);
  const beginning = (flags: number, partition: number): Beginning => {
    const it: Beginning = [flags, partition, epoch(reader), varint(reader)];
    options(reader, flags, []);
    return it;
  };
  if (!isFilter) return [beginning(flags, 0)];
  options(reader, flags, []);
  return list(reader, () => beginning(flagsOf(reader, 6), varint32(reader)));
};

const FIELDS: Record<string, (reader: Reader, flags: number, frame: any[]) => unknown> = {
  b: u8,
  u: varint32,
  v: varint,
  w: wide,
  e: epoch,
  t: text,
  k: block,
  o: (reader, flags, frame) => options(reader, flags, KNOWN[frame[0]] ?? []),
  V: (reader) => u8(reader) === 1 || fault(Fault.Version),
  c: (reader) => take(reader, 8).reduceRight((hex, byte) => hex + (byte + 256).toString(16).slice(1), ""),
  l: (reader) => list(reader, () => text(reader)),
  n: named,
  s: subscribed,
  r: (reader, _, frame) =>
    list(reader, () => message(reader, flagsOf(reader, 1), "", frame[3], undefined, true)),
};
