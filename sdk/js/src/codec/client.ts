/** Encoding of the client's frames. */

import { epochPart, pack, type Part } from "./bytes.js";
import type { Place } from "./position.js";
import type { Tag } from "../message.js";
import { encodeUtf8 } from "./utf8.js";

type Option = [key: number, value: string | Uint8Array | undefined];
type Maybe<T> = T | undefined;

const POLICIES = ["replay", "conflate", "drop", "disconnect"];

/** Flags, fields, and the options that have a value; bit 7 of the flags announces them. */
const body = (flags: number, fields: readonly Part[], options: readonly Option[] = []): Part[] => {
  const given: Part[] = [];
  let count = 0;
  for (const [key, value] of options) {
    if (value === undefined) continue;
    count++;
    if (typeof value === "string") given.push(key, value);
    else given.push(key, value.length, value);
  }
  return count ? [[flags | 128], ...fields, count, ...given] : [flags, ...fields];
};

/** Types of the client's frames that have neither flags nor options. */
export const enum Plain {
  Subscribe = 2,
  Unsubscribe = 3,
  Credit = 6,
  Ping = 7,
  Pong = 8,
  Renew = 9,
  Ticket = 10,
}

/** A frame without flags and options. */
export const plain = (type: Plain, ...fields: Part[]): Uint8Array => pack([type, 0, ...fields]);

export const placed = ({ inEpoch: epoch, upTo: offset }: Place): Part[] => [epochPart(epoch), offset];

/** A newer cursor beside a ticket; for a filter, of one partition. */
export const cursorParts = (subscription: number, place: Place, partition = -1): Part[] => [
  subscription,
  partition + 1,
  ...placed(place),
];

export const encodeHello = (
  token: Maybe<string>,
  name: Maybe<string>,
  ticket?: Uint8Array,
  cursors: readonly Part[] = [],
  pingIntervalS = 0,
): Uint8Array => {
  const options: Option[] = [[1, token], [6, name], [3, ticket], [17, cursors.length ? pack(cursors) : undefined]];
  return pack([1, ...body(0, [1, pingIntervalS], options)]);
};

/** An item of SUBSCRIBE. */
export const subscribeItem = (
  subscription: number,
  filter: string,
  start: readonly Part[],
  { failOnGap, policy }: { failOnGap?: boolean; policy?: string },
  credit?: number,
): Part[] => {
  const options: Option[] = [
    [5, credit ? pack([credit]) : undefined],
    [7, policy && pack([POLICIES.indexOf(policy)])],
  ];
  return [subscription, ...body(failOnGap ? 1 : 0, [filter, ...start], options)];
};

export interface PublishFields {
  topic: string;
  payload: Uint8Array;
  retain?: boolean;
  contentType?: string;
  tags: readonly Tag[];
  expectedEpoch?: string;
}

/** `producer`: id and sequence. */
export const encodePublish = (
  request: number,
  fields: PublishFields,
  producer?: Uint8Array,
  sequence = 0,
  key?: Uint8Array,
): Uint8Array => {
  const { topic, payload, contentType, tags, expectedEpoch } = fields;
  const options: Option[] = [
    [2, contentType],
    ...tags.map(([name, value]): Option => [4, pack([name, encodeUtf8(value)])]),
    [11, producer && pack([sequence, producer])],
    [13, key],
    [15, expectedEpoch && pack([epochPart(expectedEpoch)])],
  ];
  return pack([4, ...body(fields.retain ? 1 : 0, [request, topic], options), payload]);
};

export const encodeHistory = (
  request: number,
  topic: string,
  reverse: Maybe<boolean>,
  position: Maybe<Place>,
  recordsMax: number,
  bytesMax = 0,
): Uint8Array => {
  const place = position ? placed(position) : [];
  return pack([5, (reverse ? 1 : 0) | (position ? 2 : 0), request, topic, ...place, recordsMax, bytesMax]);
};
