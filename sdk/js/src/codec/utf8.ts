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
  const whole = text.replace(/[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, (it) => (it[1] ? it : "\ufffd"));
  const bytes = encodeURIComponent(whole).match(/%..|./g) ?? [];
  return Uint8Array.from(bytes, (it) => (it[1] ? parseInt(it.slice(1), 16) : it.charCodeAt(0)));
}

/** `decodeUtf8` without the platform's decoder. */
export function decodeSlowly(bytes: Uint8Array): string {
  try {
    return decodeURIComponent(Array.from(bytes, (byte) => "%" + (byte + 256).toString(16).slice(1)).join(""));
  } catch {
    throw new TypeError("not UTF-8");
  }
}
