/** Encoding of the client's frames. */

import { Writer } from "./bytes.js";
import type { Place } from "./position.js";
import type { Tag } from "../message.js";
import { encodeUtf8 } from "./utf8.js";

/** A cursor beside a ticket; for a filter, of one partition. */
export interface ResumeCursor extends Place {
  subscription: number;
  partition: number | undefined;
}

/** Where a subscription shall begin. */
export type WireStart =
  | { kind: "live" | "snapshot" }
  | ({ kind: "since" } & Place)
  | { kind: "last"; count: number }
  | { kind: "since_each"; positions: ({ partition: number } & Place)[] };

export interface SubscribeItem {
  subscription: number;
  filter: string;
  start: WireStart;
  failOnGap: boolean;
  replayCredit: number | undefined;
  policy: number | undefined;
}

type Option = [number, Uint8Array];
type Maybe<T> = T | undefined;

const STARTS = ["live", "since", "last", "snapshot", "since_each"];

function head(type: number, options: readonly Option[] = [], flags = 0, room = 64): Writer {
  return new Writer(room).u8(type).u8(options.length ? flags | 128 : flags);
}

function textOption(options: Option[], key: number, text: Maybe<string>): void {
  if (text !== undefined) options.push([key, encodeUtf8(text)]);
}

export function encodeHello(
  token: Maybe<string>,
  name: Maybe<string>,
  ticket?: Uint8Array,
  cursors: readonly ResumeCursor[] = [],
  pingIntervalS = 0,
): Uint8Array {
  const options: Option[] = [];
  textOption(options, 1, token);
  textOption(options, 6, name);
  if (ticket) options.push([3, ticket]);
  if (cursors.length) {
    const list = new Writer();
    for (const cursor of cursors) {
      list.varint(cursor.subscription).varint(cursor.partition === undefined ? 0 : cursor.partition + 1);
      list.epoch(cursor.epoch).varint(cursor.offset);
    }
    options.push([17, list.done()]);
  }
  return head(1, options).u8(1).varint(pingIntervalS).options(options).done();
}

export function encodeSubscribe(items: readonly SubscribeItem[]): Uint8Array {
  const writer = head(2).varint(items.length);
  for (const { subscription, filter, start, failOnGap, replayCredit, policy } of items) {
    const options: Option[] = [];
    if (replayCredit !== undefined) options.push([5, new Writer().varint(replayCredit).done()]);
    if (policy !== undefined) options.push([7, Uint8Array.of(policy)]);
    writer.varint(subscription).u8((failOnGap ? 1 : 0) | (options.length ? 128 : 0)).text(filter);
    writer.u8(STARTS.indexOf(start.kind));
    if (start.kind === "since") writer.epoch(start.epoch).varint(start.offset);
    else if (start.kind === "last") writer.varint(start.count);
    else if (start.kind === "since_each") {
      writer.varint(start.positions.length);
      for (const it of start.positions) writer.varint(it.partition).epoch(it.epoch).varint(it.offset);
    }
    writer.options(options);
  }
  return writer.done();
}

export function encodeUnsubscribe(subscriptions: readonly number[]): Uint8Array {
  const writer = head(3).varint(subscriptions.length);
  for (const subscription of subscriptions) writer.varint(subscription);
  return writer.done();
}

export interface PublishFields {
  topic: string;
  payload: Uint8Array;
  retain: boolean;
  contentType: Maybe<string>;
  tags: readonly Tag[];
  producer: Maybe<{ id: Uint8Array; sequence: number }>;
  key: Maybe<Uint8Array>;
  expectedEpoch: Maybe<string>;
}

export function encodePublish(request: number, fields: PublishFields): Uint8Array {
  const { topic, payload, producer, key, expectedEpoch } = fields;
  const options: Option[] = [];
  textOption(options, 2, fields.contentType);
  for (const [name, value] of fields.tags) {
    options.push([4, new Writer().text(name).raw(encodeUtf8(value)).done()]);
  }
  if (producer) options.push([11, new Writer().varint(producer.sequence).raw(producer.id).done()]);
  if (key) options.push([13, key]);
  if (expectedEpoch !== undefined) options.push([15, new Writer(10).epoch(expectedEpoch).done()]);
  const writer = head(4, options, fields.retain ? 1 : 0, payload.length + topic.length + 24);
  return writer.varint(request).text(topic).options(options).raw(payload).done();
}

export function encodeHistory(
  request: number,
  topic: string,
  reverse: boolean,
  position: Maybe<Place>,
  recordsMax: number,
  bytesMax = 0,
): Uint8Array {
  const writer = head(5, [], (reverse ? 1 : 0) | (position ? 2 : 0)).varint(request).text(topic);
  if (position) writer.epoch(position.epoch).varint(position.offset);
  return writer.varint(recordsMax).varint(bytesMax).done();
}

export function encodeCredit(subscription: number, messages: number): Uint8Array {
  return head(6).varint(subscription).varint(messages).done();
}

export function encodePing(token: string): Uint8Array {
  return head(7).epoch(token).done();
}

export function encodePong(token: string): Uint8Array {
  return head(8).epoch(token).done();
}

export function encodeRenew(request: number, token: string): Uint8Array {
  return head(9).varint(request).text(token).done();
}

export function encodeTicket(request: number): Uint8Array {
  return head(10).varint(request).done();
}
