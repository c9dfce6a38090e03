// The inside of the package, for its tests.
export * as clientFrames from "../src/codec/client.js";
export { decodeFrame } from "../src/codec/server.js";
export { FrameError } from "../src/codec/bytes.js";
export { decodeSlowly, decodeUtf8, encodeSlowly, encodeUtf8 } from "../src/codec/utf8.js";
export { parse, show } from "../src/codec/position.js";
export { hasLength, isWild, matches } from "../src/codec/topics.js";
export { Core } from "../src/core/core.js";
export { Proof } from "../src/core/proof.js";
export { CroreError } from "../src/errors.js";
