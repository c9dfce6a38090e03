/**
 * Reading and writing the types of the protocol: varints, strings, options.
 *
 * Offsets and times are numbers, at most 2^53 - 1; a greater one is refused. Epochs may have 64
 * bits, so they are decimal texts.
 */

import { refusal } from "../errors.js";
import { decodeUtf8, encodeUtf8 } from "./utf8.js";

/** Faults of the bytes' form, by their numbers in the table of codes. */
export const enum Fault {
  Frame = 100,
  Topic = 101,
  Utf8 = 104,
  Varint = 105,
  Version = 110,
  Option = 111,
  Type = 112,
  TopicLength = 302,
}

/** The bytes are no frame. */
export const fault = (code = Fault.Frame): never => {
  throw refusal(code, false, "");
};

/** Bytes, and how many of them are read. */
export interface Reader {
  source: Uint8Array;
  at: number;
}

export const u8 = (reader: Reader): number => reader.source[reader.at++] ?? fault();

/** A varint of at most 64 bits; not exact above 2^53. */
export const wide = (reader: Reader): number => {
  let byte = u8(reader);
  let value = byte & 127;
  for (let scale = 128, count = 2; byte > 127; scale *= 128, count++) {
    byte = u8(reader);
    value += (byte & 127) * scale;
    if (!byte || (count > 9 && byte > 1)) fault(Fault.Varint);
  }
  return value;
};

/** A varint of at most 2^53 - 1. */
export const varint = (reader: Reader): number => {
  const value = wide(reader);
  return Number.isSafeInteger(value) ? value : fault(Fault.Varint);
};

export const varint32 = (reader: Reader): number => {
  const value = wide(reader);
  return value > 0xffffffff ? fault() : value;
};

/** A varint of 64 bits as decimal text. */
export const epoch = (reader: Reader): string => {
  const from = reader.at;
  const value = wide(reader);
  return Number.isSafeInteger(value) ? String(value) : decimalOf(reader.source.subarray(from, reader.at));
};

/** Decimal text of a varint's bytes, for numbers above 2^53. Rare, so it may be slow. */
const decimalOf = (varint: Uint8Array): string => Array.from(varint).reduceRight((value, byte) => value * BigInt(128) + BigInt(byte & 127), BigInt(0)).toString();

export const take = (reader: Reader, count: number): Uint8Array => {
  const from = reader.at;
  reader.at += count;
  return reader.at > reader.source.length ? fault() : reader.source.subarray(from, reader.at);
};

export const rest = (reader: Reader): Uint8Array => take(reader, reader.source.length - reader.at);

/** Bytes behind their length. */
export const block = (reader: Reader): Uint8Array => take(reader, varint(reader));

export const textOf = (bytes: Uint8Array): string => {
  try {
    return decodeUtf8(bytes);
  } catch {
    return fault(Fault.Utf8);
  }
};

export const text = (reader: Reader): string => textOf(block(reader));

/** Flags: `known` are the defined bits beside the options' bit. */
export const flagsOf = (reader: Reader, known: number): number => {
  const flags = u8(reader);
  return flags & 127 & ~known ? fault(Fault.Option) : flags;
};

/** Everything must be read. */
export const end = (reader: Reader): void => {
  if (reader.at < reader.source.length) fault();
};

/** What a frame is packed of: a varint, a text behind its length, or bytes as they are. */
export type Part = number | string | Uint8Array | readonly number[];

const coded = (part: Part): Uint8Array | readonly number[] => {
  if (typeof part === "number") {
    return part > 127 ? [(part % 128) | 128, ...coded(Math.floor(part / 128))] : [part];
  }
  if (typeof part !== "string") return part;
  const bytes = encodeUtf8(part);
  return [...coded(bytes.length), ...bytes];
};

export const pack = (parts: readonly Part[]): Uint8Array => {
  const chunks = parts.map(coded);
  const bytes = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
};

const codedWide = (value: bigint): number[] =>
  value > 127 ? [Number(value % BigInt(128)) | 128, ...codedWide(value / BigInt(128))] : [Number(value)];

/** A decimal text of 64 bits as varint. */
export const epochPart = (text: string): Part => codedWide(BigInt(text));
