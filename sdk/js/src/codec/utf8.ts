/**
 * UTF-8. `TextEncoder` and `TextDecoder` where the platform has them; Hermes had no decoder for
 * long, so the slow path is here too.
 */

const encoder = typeof TextEncoder === "undefined" ? undefined : new TextEncoder();
const decoder =
  typeof TextDecoder === "undefined"
    ? undefined
    : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Encodes text; a lone surrogate becomes U+FFFD. */
export function encodeUtf8(text: string): Uint8Array {
  return encoder ? encoder.encode(text) : encodeSlowly(text);
}

/** Decodes bytes; throws a `TypeError` if they are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string {
  if (bytes.length < 32) {
    const text = asciiOf(bytes);
    if (text !== undefined) return text;
  }
  return decoder ? decoder.decode(bytes) : decodeSlowly(bytes);
}

/** Short texts are mostly ASCII, and a call of the platform's decoder is slower than this loop. */
function asciiOf(bytes: Uint8Array): string | undefined {
  let text = "";
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte > 127) return undefined;
    text += String.fromCharCode(byte);
  }
  return text;
}

/** `encodeUtf8` without the platform's encoder. */
export function encodeSlowly(text: string): Uint8Array {
  const bytes: number[] = [];
  for (const char of text) {
    let point = char.codePointAt(0)!;
    if (point >= 0xd800 && point < 0xe000) point = 0xfffd;
    if (point < 0x80) bytes.push(point);
    else if (point < 0x800) bytes.push(0xc0 | (point >> 6), 0x80 | (point & 63));
    else {
      if (point < 0x10000) bytes.push(0xe0 | (point >> 12));
      else bytes.push(0xf0 | (point >> 18), 0x80 | ((point >> 12) & 63));
      bytes.push(0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
    }
  }
  return Uint8Array.from(bytes);
}

/** `decodeUtf8` without the platform's decoder. */
export function decodeSlowly(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at++]!;
    const more = first < 0x80 ? 0 : first >> 5 === 6 ? 1 : first >> 4 === 14 ? 2 : first >> 3 === 30 ? 3 : 9;
    let point = more ? first & (0x3f >> more) : first;
    for (let left = more; left > 0; left--) {
      const next = bytes[at++];
      if (next === undefined || next >> 6 !== 2) throw new TypeError("not UTF-8");
      point = (point << 6) | (next & 63);
    }
    const least = [0, 0x80, 0x800, 0x10000][more]!;
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
      throw new TypeError("not UTF-8");
    }
    text += String.fromCodePoint(point);
  }
  return text;
}
