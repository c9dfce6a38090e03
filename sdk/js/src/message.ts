import { decodeUtf8 } from "./codec/utf8.js";

/** A key and a value that the publisher gave, in its order; keys may repeat. */
export type Tag = readonly [key: string, value: string];

/** One message of a topic. */
export class Message {
  /** Tells a message from the other items of a subscription. */
  readonly kind = "message";
  /** The payload. */
  readonly bytes: Uint8Array;
  /** The topic that it was published to. */
  topic: string;
  /** The epoch of its log, as decimal text. */
  epoch: string;
  /** Its offset in the log. */
  readonly offset: number;
  /** The topic has no message between this offset and the message's own. */
  readonly prev: number;
  /** Whether it was published as the topic's retained message. */
  readonly retained: boolean;
  /** The media type, if the publisher gave one. */
  readonly contentType: string | undefined;
  /** The tags of the publisher. */
  readonly tags: readonly Tag[];
  /** The partition; known for messages of filters. */
  readonly partition: number | undefined;
  /** When the server received it, in milliseconds since 1970; known in history. */
  readonly time: number | undefined;

  /** @internal */
  constructor(
    bytes: Uint8Array,
    topic: string,
    epoch: string,
    offset: number,
    prev: number,
    retained: boolean,
    contentType: string | undefined,
    tags: readonly Tag[],
    partition?: number,
    time?: number,
  ) {
    this.bytes = bytes;
    this.topic = topic;
    this.epoch = epoch;
    this.offset = offset;
    this.prev = prev;
    this.retained = retained;
    this.contentType = contentType;
    this.tags = tags;
    this.partition = partition;
    this.time = time;
  }

  /** The position, `<epoch>:<offset>`: a subscription or a page of history may begin behind it. */
  get position(): string {
    return this.epoch + ":" + this.offset;
  }

  /** The payload as text; throws if it is not UTF-8. */
  text(): string {
    return decodeUtf8(this.bytes);
  }

  /** The payload as JSON; throws if it is none. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }

  /** The value of a tag, the first one if the key repeats. */
  tag(key: string): string | undefined {
    return this.tags.find((tag) => tag[0] === key)?.[1];
  }
}
