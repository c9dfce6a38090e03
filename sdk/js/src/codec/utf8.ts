/** UTF-8. Hermes has an encoder and had no decoder for long, so one is here too. */

import { platform } from "../platform.js";

const encoder = new TextEncoder();
const decoder = platform.TextDecoder && new platform.TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Encodes text; a lone surrogate becomes U+FFFD. */
export const encodeUtf8 = (text: string): Uint8Array => encoder.encode(text);

/** Decodes bytes; throws if they are not UTF-8. */
export const decodeUtf8 = (bytes: Uint8Array): string => (decoder ? decoder.decode(bytes) : decodeSlowly(bytes));

/** `decodeUtf8` without the platform's decoder. */
export const decodeSlowly = (bytes: Uint8Array): string =>
  decodeURIComponent(Array.from(bytes, (byte) => "%" + (byte + 256).toString(16).slice(1)).join(""));
