/**
 * The client of Crore for browsers, Node, Deno, Bun and React Native.
 *
 * @packageDocumentation
 */
export { Crore, type Page } from "./client.js";
export { Subscription, type MessagesOptions } from "./subscription.js";
export { Message, type Tag } from "./message.js";
export { CroreError, GapError, type OwnErrorName } from "./errors.js";
export type { CaughtUp, Gap, Item, Report, Skipped } from "./items.js";
export type {
  Data,
  Options,
  Persist,
  PublishOptions,
  Resume,
} from "./options.js";
export type { HistoryOptions, Start, SubscribeOptions, TokenSource } from "./core/options.js";
export type { Storage } from "./storage.js";
export type { SocketConstructor, SocketLike } from "./platform.js";
export type { Level, State, TokenReason } from "./state.js";
export type { Published } from "./core/calls.js";
