// The inside of the package, for its tests.
export * as clientFrames from "../src/codec/client.js";
export { epochPart } from "../src/codec/bytes.js";
export { decode } from "../src/codec/server.js";
export { errorName } from "../src/codes.js";
export { decodeSlowly, decodeUtf8, encodeUtf8 } from "../src/codec/utf8.js";
export { parse, show } from "../src/codec/position.js";
export { checkLength, isWild, matches } from "../src/codec/topics.js";
export * as calls from "../src/core/calls.js";
export * as connection from "../src/core/connection.js";
export * as frames from "../src/core/frames.js";
export * as proof from "../src/core/proof.js";
export * as state from "../src/core/state.js";
export * as subscription from "../src/core/subscription.js";
export * as subscriptions from "../src/core/subscriptions.js";
export * as tokens from "../src/core/tokens.js";
export { CroreError } from "../src/errors.js";
