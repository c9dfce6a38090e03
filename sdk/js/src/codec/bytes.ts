/**
 * Reading and writing the types of the protocol: varints, strings, options.
 *
 * Offsets and times are numbers, at most 2^53 - 1; a greater one is refused. Epochs may have 64
 * bits, so they are decimal texts.
 */

import { decodeUtf8, encodeUtf8 } from "./utf8.js";

/** Bytes that are no frame; `unsupported`: of a newer version of the protocol. */
export class FrameError extends Error {
  constructor(
    /** The name in the table of codes. */
    readonly error: string,
    readonly unsupported = false,
  ) {
    super(error);
  }
}

/** A fault of the bytes' form. */
export function malformed(error = "malformed_frame"): FrameError {
  return new FrameError(error);
}

/** Reads from the front of bytes; throws `FrameError` at their end. */
export class Reader {
  at = 0;
  constructor(readonly bytes: Uint8Array) {}

  get isEmpty(): boolean {
    return this.at >= this.bytes.length;
  }

  u8(): number {
    const byte = this.bytes[this.at++];
    if (byte === undefined) throw malformed();
    return byte;
  }

  /** A varint of at most 2^53 - 1. */
  varint(): number {
    let value = this.u8();
    if (value < 128) return value;
    value &= 127;
    for (let scale = 128, count = 2; ; scale *= 128, count++) {
      const byte = this.u8();
      if (count === 10 && byte > 1) throw malformed("malformed_varint");
      value += (byte & 127) * scale;
      if (byte < 128) {
        if (byte === 0) throw malformed("malformed_varint");
        if (value > Number.MAX_SAFE_INTEGER) throw malformed("number_too_large");
        return value;
      }
    }
  }

  varint32(): number {
    const value = this.varint();
    if (value > 0xffffffff) throw malformed();
    return value;
  }

  /** A varint of 64 bits as decimal text. */
  epoch(): string {
    const from = this.at;
    try {
      return String(this.varint());
    } catch (error) {
      if ((error as FrameError).error !== "number_too_large") throw error;
      return decimalOf(this.bytes.subarray(from, this.at));
    }
  }

  /** A varint that is only a bound: a greater number than 2^53 is no fault. */
  bound(): number {
    return Number(this.epoch());
  }

  take(count: number): Uint8Array {
    const from = this.at;
    this.at += count;
    if (this.at > this.bytes.length) throw malformed();
    return this.bytes.subarray(from, this.at);
  }

  rest(): Uint8Array {
    return this.take(this.bytes.length - this.at);
  }

  block(): Uint8Array {
    return this.take(this.varint());
  }

  text(): string {
    return textOf(this.block());
  }

  topic(): string {
    const bytes = this.block();
    if (bytes.length === 0) throw malformed("malformed_topic");
    if (bytes.length > 255) throw malformed("topic_too_long");
    return textOf(bytes);
  }

  /** Flags: `known` are the defined bits beside the options' bit. */
  flags(known: number): number {
    const flags = this.u8();
    if (flags & 0x7f & ~known) throw new FrameError("unsupported_option", true);
    return flags;
  }

  /**
   * The options, if bit 7 of the flags announces them. `option` takes one by its key and returns
   * false if it does not know the key; `repeatable` may come more than once.
   */
  options(flags: number, option?: (key: number, value: Uint8Array) => boolean | void, repeatable = 0): void {
    if (!(flags & 128)) return;
    const seen: number[] = [];
    for (let left = this.varint(); left > 0; left--) {
      const key = this.varint();
      const value = this.block();
      const isKnown = option !== undefined && option(key, value) !== false;
      if (!isKnown) {
        if (key & 1) throw new FrameError("unsupported_option", true);
      } else if (key !== repeatable) {
        if (seen.includes(key)) throw malformed();
        seen.push(key);
      }
    }
  }

  end(): void {
    if (!this.isEmpty) throw malformed();
  }
}

/** UTF-8 of a frame. */
export function textOf(bytes: Uint8Array): string {
  try {
    return decodeUtf8(bytes);
  } catch {
    throw malformed("malformed_utf8");
  }
}

/** Hex digits of bytes. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Decimal text of a varint's bytes, for numbers above 2^53. Rare, so it may be slow. */
function decimalOf(varint: Uint8Array): string {
  return Array.from(varint).reduceRight((value, byte) => value * BigInt(128) + BigInt(byte & 127), BigInt(0)).toString();
}

/** Builds one frame. */
export class Writer {
  private bytes: Uint8Array;
  private length = 0;

  constructor(room = 64) {
    this.bytes = new Uint8Array(room);
  }

  private room(count: number): void {
    const needed = this.length + count;
    if (needed <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, this.bytes.length * 2));
    grown.set(this.bytes);
    this.bytes = grown;
  }

  u8(byte: number): this {
    this.room(1);
    this.bytes[this.length++] = byte;
    return this;
  }

  varint(value: number): this {
    while (value >= 128) {
      this.u8((value % 128) | 128);
      value = Math.floor(value / 128);
    }
    return this.u8(value);
  }

  /** A decimal text of 64 bits as varint. */
  epoch(text: string): this {
    if (text.length < 16) return this.varint(Number(text));
    let value = BigInt(text);
    for (; value > 127; value /= BigInt(128)) this.u8(Number(value % BigInt(128)) | 128);
    return this.u8(Number(value));
  }

  raw(bytes: Uint8Array): this {
    this.room(bytes.length);
    this.bytes.set(bytes, this.length);
    this.length += bytes.length;
    return this;
  }

  block(bytes: Uint8Array): this {
    return this.varint(bytes.length).raw(bytes);
  }

  text(text: string): this {
    return this.block(encodeUtf8(text));
  }

  /** Flags and the options that have a value. The bit stands before the fields, so it comes first. */
  options(options: [number, Uint8Array][]): this {
    if (options.length) {
      this.varint(options.length);
      for (const [key, value] of options) this.varint(key).block(value);
    }
    return this;
  }

  done(): Uint8Array {
    return this.bytes.subarray(0, this.length);
  }
}
