/** Decoding of the server's frames. Bytes that are no frame throw `FrameError`. */

import { Message, type Tag } from "../message.js";
import { FrameError, Reader, hexOf, malformed, textOf } from "./bytes.js";
import type { Place } from "./position.js";

/** Where a subscription begins. */
export interface Beginning {
  partition: number | undefined;
  epoch: string;
  through: number;
  replaying: boolean;
  continued: boolean;
}

export interface Welcome {
  type: "welcome";
  /** The node's number of this connection, in hex. */
  connection: string;
  pingIntervalS: number;
  timeMs: number;
  frameBytesMax: number;
  messageBytesMax: number;
  subscriptionsMax: number;
  node: string | undefined;
  resumed: number | undefined;
  ticketLifetimeS: number | undefined;
}

export interface GapRange {
  from: number;
  to: number;
  reason: string;
}

export interface ErrorFrame {
  type: "error";
  /** 0 the connection, 1 a request, 2 a subscription. */
  reference: number;
  id: number;
  code: number;
  temporary: boolean;
  message: string;
  restart: Place | undefined;
  limit: number | undefined;
}

export interface HistoryPage {
  type: "history_page";
  request: number;
  reverse: boolean;
  more: boolean;
  epoch: string;
  head: number;
  gap: GapRange | undefined;
  messages: Message[];
}

export type ServerFrame =
  | Welcome
  | { type: "subscribed"; subscription: number; alias: number | undefined; beginnings: Beginning[] }
  | { type: "unsubscribed"; subscription: number; code: number }
  | { type: "message"; alias: number; message: Message }
  | { type: "named_message"; subscription: number | undefined; message: Message }
  | { type: "caught_up"; subscription: number; partition: number | undefined; through: number }
  | ({ type: "gap"; subscription: number; partition: number | undefined; epoch: string } & GapRange)
  | {
      type: "skipped";
      subscription: number;
      partition: number | undefined;
      epoch: string | undefined;
      from: number;
      through: number;
      reason: string;
    }
  | { type: "published"; request: number; epoch: string; offset: number; duplicate: boolean }
  | HistoryPage
  | ErrorFrame
  | { type: "go_away"; code: number; returnAfterMs: number; urls: string[]; ticket: Uint8Array | undefined }
  | { type: "ticket_issued"; request: number; expiresMs: number; ticket: Uint8Array }
  | { type: "renewed"; request: number; expiresMs: number }
  | { type: "token_expires"; expiresMs: number }
  | { type: "ping"; token: string }
  | { type: "pong"; token: string };

const GAP_REASONS = ["evicted", "unknown_epoch", "beyond_head", "history_limit", "damaged"];
const SKIP_REASONS = [undefined, "conflated", undefined, "dropped"];
const NO_TAGS: readonly Tag[] = [];

/** Decodes one frame. */
export function decodeFrame(bytes: Uint8Array): ServerFrame {
  const reader = new Reader(bytes);
  const type = reader.u8();
  // A message's payload is the rest of the frame, so nothing can be left over.
  if (type === 0x84) return message(reader);
  if (type === 0x85) return namedMessage(reader);
  const decode = DECODERS[type];
  if (!decode) throw new FrameError("unsupported_frame", true);
  const frame = decode(reader);
  reader.end();
  return frame;
}

/** Attributes of a message while its options are read. */
interface Attributes {
  contentType: string | undefined;
  tags: readonly Tag[];
  subscription: number | undefined;
}

function attributesOf(reader: Reader, flags: number, isNamed = false): Attributes {
  const attributes: Attributes = { contentType: undefined, tags: NO_TAGS, subscription: undefined };
  if (flags & 128) {
    const tags: Tag[] = [];
    reader.options(
      flags,
      (key, value) => {
        if (key === 2) attributes.contentType = textOf(value);
        else if (key === 4) {
          const tag = new Reader(value);
          tags.push([tag.text(), textOf(tag.rest())]);
        } else if (key === 10 && isNamed) attributes.subscription = only32(value);
        else return false;
        return true;
      },
      4,
    );
    attributes.tags = tags;
  }
  return attributes;
}

/** The whole value is one varint of 32 bits. */
function only32(value: Uint8Array): number {
  const reader = new Reader(value);
  const number = reader.varint32();
  reader.end();
  return number;
}

function prevOf(reader: Reader, offset: number): number {
  const delta = reader.varint();
  if (delta === 0 || delta > offset) throw malformed();
  return offset - delta;
}

function message(reader: Reader): ServerFrame {
  const flags = reader.flags(1);
  const alias = reader.varint32();
  const offset = reader.varint();
  const prev = prevOf(reader, offset);
  const { contentType, tags } = attributesOf(reader, flags);
  const retained = (flags & 1) === 1;
  return {
    type: "message",
    alias,
    message: new Message(reader.rest(), "", "", offset, prev, retained, contentType, tags),
  };
}

function namedMessage(reader: Reader): ServerFrame {
  const flags = reader.flags(1);
  const topic = reader.topic();
  const partition = reader.varint32();
  const epoch = reader.epoch();
  const offset = reader.varint();
  const prev = prevOf(reader, offset);
  const { contentType, tags, subscription } = attributesOf(reader, flags, true);
  const retained = (flags & 1) === 1;
  const rest = reader.rest();
  return {
    type: "named_message",
    subscription,
    message: new Message(rest, topic, epoch, offset, prev, retained, contentType, tags, partition),
  };
}

function beginning(reader: Reader, flags: number, partition?: number): Beginning {
  const epoch = reader.epoch();
  const through = reader.varint();
  const replaying = (flags & 2) !== 0;
  return { partition, epoch, through, replaying, continued: (flags & 4) !== 0 };
}

function gapReason(reader: Reader): string {
  const reason = reader.u8();
  return GAP_REASONS[reason] ?? "other";
}

type Decoder = (reader: Reader) => ServerFrame;

const DECODERS: Record<number, Decoder> = {
  0x07: (reader) => ping(reader, "ping"),
  0x08: (reader) => ping(reader, "pong"),
  0x81: (reader) => {
    const flags = reader.flags(0);
    if (reader.u8() !== 1) throw new FrameError("unsupported_version", true);
    const frame: Welcome = {
      type: "welcome",
      connection: hexOf(reader.take(8).slice().reverse()),
      pingIntervalS: reader.varint32(),
      timeMs: reader.bound(),
      frameBytesMax: reader.bound(),
      messageBytesMax: reader.bound(),
      subscriptionsMax: reader.varint32(),
      node: undefined,
      resumed: undefined,
      ticketLifetimeS: undefined,
    };
    reader.options(flags, (key, value) => {
      if (key === 6) frame.node = textOf(value);
      else if (key === 12) frame.resumed = only32(value);
      else if (key === 14) frame.ticketLifetimeS = only32(value);
      else return false;
      return true;
    });
    return frame;
  },
  0x82: (reader) => {
    const flags = reader.flags(7);
    const isFilter = (flags & 1) === 1;
    if (isFilter && flags & 6) throw new FrameError("unsupported_option", true);
    const subscription = reader.varint32();
    const beginnings: Beginning[] = [];
    let alias: number | undefined;
    if (!isFilter) {
      alias = reader.varint32();
      beginnings.push(beginning(reader, flags));
    }
    reader.options(flags);
    if (isFilter) {
      for (let left = reader.varint(); left > 0; left--) {
        const flags = reader.flags(6);
        beginnings.push(beginning(reader, flags, reader.varint32()));
        reader.options(flags);
      }
    }
    return { type: "subscribed", subscription, alias, beginnings };
  },
  0x83: (reader) => {
    const flags = reader.flags(0);
    const subscription = reader.varint32();
    const code = reader.varint32();
    reader.options(flags);
    return { type: "unsubscribed", subscription, code };
  },
  0x86: (reader) => {
    const flags = reader.flags(1);
    const subscription = reader.varint32();
    const partition = flags & 1 ? reader.varint32() : undefined;
    const through = reader.varint();
    reader.options(flags);
    return { type: "caught_up", subscription, partition, through };
  },
  0x87: (reader) => {
    const flags = reader.flags(1);
    const subscription = reader.varint32();
    const partition = flags & 1 ? reader.varint32() : undefined;
    const epoch = reader.epoch();
    const from = reader.varint();
    const to = reader.varint();
    const reason = gapReason(reader);
    reader.options(flags);
    return { type: "gap", subscription, partition, epoch, from, to, reason };
  },
  0x88: (reader) => {
    const flags = reader.flags(1);
    const subscription = reader.varint32();
    const partition = flags & 1 ? reader.varint32() : undefined;
    const epoch = flags & 1 ? reader.epoch() : undefined;
    const from = reader.varint();
    const through = reader.varint();
    const number = reader.u8();
    const reason = SKIP_REASONS[number] ?? "other";
    reader.options(flags);
    return { type: "skipped", subscription, partition, epoch, from, through, reason };
  },
  0x89: (reader) => {
    const flags = reader.flags(1);
    const request = reader.varint32();
    const epoch = reader.epoch();
    const offset = reader.varint();
    reader.options(flags);
    return { type: "published", request, epoch, offset, duplicate: (flags & 1) === 1 };
  },
  0x8a: (reader) => {
    const flags = reader.flags(7);
    const request = reader.varint32();
    const epoch = reader.epoch();
    const head = reader.varint();
    const hasGap = (flags & 4) !== 0;
    const gap = hasGap
      ? { from: reader.varint(), to: reader.varint(), reason: gapReason(reader) }
      : undefined;
    reader.options(flags);
    const messages: Message[] = [];
    for (let left = reader.varint(); left > 0; left--) {
      const flags = reader.flags(1);
      const offset = reader.varint();
      const prev = prevOf(reader, offset);
      const time = reader.bound();
      const { contentType, tags } = attributesOf(reader, flags);
      const retained = (flags & 1) === 1;
      const bytes = reader.block();
      messages.push(
        new Message(bytes, "", epoch, offset, prev, retained, contentType, tags, undefined, time),
      );
    }
    const reverse = (flags & 1) === 1;
    return { type: "history_page", request, reverse, more: (flags & 2) !== 0, epoch, head, gap, messages };
  },
  0x8b: (reader) => {
    const flags = reader.flags(7);
    const reference = reader.u8();
    const id = reader.varint32();
    if (reference > 2 || (reference === 0 && id !== 0)) throw malformed();
    const code = reader.varint32();
    const message = reader.text();
    const restart = flags & 2 ? { epoch: reader.epoch(), offset: reader.varint() } : undefined;
    const limit = flags & 4 ? reader.bound() : undefined;
    reader.options(flags);
    return { type: "error", reference, id, code, temporary: (flags & 1) === 1, message, restart, limit };
  },
  0x8c: (reader) => {
    const flags = reader.flags(0);
    const code = reader.varint32();
    const returnAfterMs = reader.bound();
    let ticket: Uint8Array | undefined;
    reader.options(flags, (key, value) => {
      if (key !== 8) return false;
      ticket = value.slice();
      return true;
    });
    const urls: string[] = [];
    for (let left = reader.varint(); left > 0; left--) urls.push(reader.text());
    return { type: "go_away", code, returnAfterMs, urls, ticket };
  },
  0x8d: (reader) => {
    const flags = reader.flags(0);
    const request = reader.varint32();
    const expiresMs = reader.bound();
    reader.options(flags);
    return { type: "renewed", request, expiresMs };
  },
  0x8e: (reader) => {
    const flags = reader.flags(0);
    const request = reader.varint32();
    const expiresMs = reader.bound();
    const ticket = reader.block().slice();
    reader.options(flags);
    return { type: "ticket_issued", request, expiresMs, ticket };
  },
  0x8f: (reader) => {
    const flags = reader.flags(0);
    const expiresMs = reader.bound();
    reader.options(flags);
    return { type: "token_expires", expiresMs };
  },
};

function ping(reader: Reader, type: "ping" | "pong"): ServerFrame {
  const flags = reader.flags(0);
  const token = reader.epoch();
  reader.options(flags);
  return { type, token };
}
