/**
 * U, H: publications and pages of history, from the call to the one answer.
 *
 * `once` publications are kept until they are answered, and repeated on the next connection before
 * anything new, in the old order, with the same bytes.
 */

import { encodeHistory, encodePublish, type PublishFields } from "../codec/client.js";
import { show, type Place } from "../codec/position.js";
import type { HistoryPage, ServerFrame } from "../codec/server.js";
import { hasLength } from "../codec/topics.js";
import { CroreError, invalid } from "../errors.js";

export interface PublishInput {
  topic: string;
  payload: Uint8Array;
  retain: boolean;
  contentType: string | undefined;
  tags: PublishFields["tags"];
  expectedEpoch: string | undefined;
  /** True: the client's producer; bytes: a key. */
  once: boolean | Uint8Array;
  /** A sequence that was reserved before, for `once`. */
  sequence?: number;
  timeoutMs: number | undefined;
}

/** One request of the application. */
export interface Call {
  /** Its number on the wire; 0 before it is sent. */
  request: number;
  /** Its frame, once it has a number. */
  frame: Uint8Array | undefined;
  encode: (request: number) => Uint8Array;
  topic: string;
  payloadBytes: number;
  isPage: boolean;
  isOnce: boolean;
  isNumbered: boolean;
  until: number;
  /** It was refused for the moment and is not on its way. */
  isRefused: boolean;
  refusals: number;
  isSettled: boolean;
}

/** The acknowledgement of a publication. */
export interface Published {
  /** The position of the message. */
  position: string;
  /** The log already had it: the position is that of the first copy. */
  duplicate: boolean;
}

interface Host {
  request: () => number;
  send: (bytes: Uint8Array) => void;
  settle: (call: Call, error: CroreError | undefined, value?: Published | HistoryPage) => void;
  repeated: (count: number) => void;
}

const KEPT_MAX = 1_000; // U12
const KEPT_BYTES_MAX = 4 * 1024 * 1024;
/** Everything has a bound, calls without a connection too. */
const WAITING_BYTES_MAX = 64 * 1024 * 1024;
const REFUSALS_MAX = 10; // U8
const REFUSED_MS = 200;
const REFUSED_MS_MAX = 5_000;
const TIMEOUT_MS = 10_000; // U11
const TIMEOUT_ONCE_MS = 60_000;
const CALL_BYTES = 128;
const PRODUCER_FENCED = 403;

export class Calls {
  /** No call settles by its timeout before. */
  deadline = Infinity;
  /** When those refused for the moment are repeated. */
  retryAt: number | undefined;
  payloadMax = Infinity;
  isFenced = false;

  private readonly waiting = new Set<Call>();
  private waitingBytes = 0;
  /** Those on the wire, and those refused for the moment. */
  private readonly sent = new Map<number, Call>();
  private refusedCount = 0;
  private readonly kept = new Set<Call>();
  private onceCount = 0;
  private onceBytes = 0;
  private lastSequence = 0;
  private refusedUntil: number | undefined;
  private hasGivenUp = false;

  constructor(
    public producerId: Uint8Array,
    private readonly host: Host,
  ) {}

  /** Requests on the wire that wait for their answers. */
  get inFlight(): number {
    return this.sent.size - this.refusedCount;
  }

  /** Whether everything is settled. */
  get isIdle(): boolean {
    return this.sent.size === 0 && this.waiting.size === 0 && this.kept.size === 0;
  }

  publish(now: number, input: PublishInput): Call {
    const { topic, payload, once } = input;
    if (!hasLength(topic)) throw invalid("a topic has 1 to 255 bytes");
    if (payload.length > this.payloadMax) throw invalid(`the payload is longer than ${this.payloadMax} bytes`);
    const key = once instanceof Uint8Array ? once : undefined;
    if (key && (key.length < 1 || key.length > 128)) throw invalid("a key has 1 to 128 bytes");
    const isOnce = once !== false;
    const isNumbered = isOnce && !key;
    if (isNumbered && this.isFenced) throw new CroreError("Fenced", "another client publishes under this id");
    const bytes = payload.length + CALL_BYTES;
    if (isOnce && (this.onceCount >= KEPT_MAX || this.onceBytes + bytes > KEPT_BYTES_MAX)) {
      throw new CroreError("QueueFull", "too many publications wait for their answers", undefined, true);
    }
    const encode = (request: number) => {
      const sequence = isNumbered ? input.sequence ?? ++this.lastSequence : 0;
      const producer = isNumbered ? { id: this.producerId, sequence } : undefined;
      const { retain, contentType, tags, expectedEpoch } = input;
      return encodePublish(request, { topic, payload, retain, contentType, tags, producer, key, expectedEpoch });
    };
    if (isOnce) {
      this.onceCount++;
      this.onceBytes += bytes;
    }
    return this.add(now, topic, payload.length, false, isOnce, isNumbered, input.timeoutMs, encode);
  }

  history(
    now: number,
    topic: string,
    position: Place | undefined,
    reverse: boolean,
    limit: number,
    timeoutMs?: number,
  ): Call {
    if (!hasLength(topic)) throw invalid("a topic has 1 to 255 bytes");
    return this.add(now, topic, 0, true, false, false, timeoutMs, (request) =>
      encodeHistory(request, topic, reverse, position, limit),
    );
  }

  private add(
    now: number,
    topic: string,
    payloadBytes: number,
    isPage: boolean,
    isOnce: boolean,
    isNumbered: boolean,
    timeoutMs: number | undefined,
    encode: (request: number) => Uint8Array,
  ): Call {
    if (this.waitingBytes + payloadBytes > WAITING_BYTES_MAX) {
      throw new CroreError("QueueFull", "too many calls wait for the connection", undefined, true);
    }
    const call: Call = {
      request: 0,
      frame: undefined,
      encode,
      topic,
      payloadBytes,
      isPage,
      isOnce,
      isNumbered,
      until: now + (timeoutMs ?? (isOnce ? TIMEOUT_ONCE_MS : TIMEOUT_MS)),
      isRefused: false,
      refusals: 0,
      isSettled: false,
    };
    this.waiting.add(call);
    this.waitingBytes += payloadBytes + CALL_BYTES;
    if (call.until < this.deadline) this.deadline = call.until;
    return call;
  }

  /** Sends what waits: U1, in the order of the calls. */
  pump(_now: number): void {
    for (const call of this.waiting) {
      // U8: nothing new before what was refused.
      if (call.isOnce && this.refusedUntil !== undefined) continue;
      this.unqueue(call);
      if (call.payloadBytes > this.payloadMax) {
        this.settle(call, invalid(`the payload is longer than ${this.payloadMax} bytes`));
        continue;
      }
      call.request = this.host.request();
      call.frame = call.encode(call.request);
      if (call.isOnce) this.kept.add(call);
      this.transmit(call);
      if (!call.isOnce) call.frame = undefined;
    }
  }

  private transmit(call: Call): void {
    this.setRefused(call, false);
    this.sent.set(call.request, call);
    this.host.send(call.frame!);
  }

  private setRefused(call: Call, isRefused: boolean): void {
    if (call.isRefused !== isRefused) this.refusedCount += isRefused ? 1 : -1;
    call.isRefused = isRefused;
  }

  /** U7: everything kept goes out again. */
  repeat(): void {
    this.refusedUntil = this.retryAt = undefined;
    this.hasGivenUp = false;
    if (this.kept.size) this.host.repeated(this.kept.size);
    for (const call of this.kept) this.transmit(call);
  }

  repeatRefused(now: number): void {
    if (this.retryAt !== undefined && now >= this.retryAt) this.repeat();
  }

  /** An answer; false if it is about nothing. */
  answer(frame: ServerFrame & { type: "published" | "history_page" }): boolean {
    const call = this.sent.get(frame.request);
    if (!call || call.isPage !== (frame.type === "history_page")) return false;
    if (frame.type === "published") {
      this.settle(call, undefined, { position: show(frame), duplicate: frame.duplicate });
    } else {
      for (const message of frame.messages) message.topic = call.topic;
      this.settle(call, undefined, frame);
    }
    return true;
  }

  private settle(call: Call, error: CroreError | undefined, value?: Published | HistoryPage): void {
    if (call.isSettled) return;
    call.isSettled = true;
    this.setRefused(call, false);
    this.unqueue(call);
    if (call.request && this.sent.get(call.request) === call) this.sent.delete(call.request);
    this.kept.delete(call);
    if (call.isOnce) {
      this.onceCount--;
      this.onceBytes -= call.payloadBytes + CALL_BYTES;
      if (this.refusedUntil !== undefined) this.planRepeat();
    }
    this.host.settle(call, error, value);
  }

  private unqueue(call: Call): void {
    if (this.waiting.delete(call)) this.waitingBytes -= call.payloadBytes + CALL_BYTES;
  }

  /** Those refused are repeated once all others have their answers. */
  private planRepeat(): void {
    let areAll = true;
    let isAny = false;
    for (const call of this.kept) {
      if (call.isRefused) isAny = true;
      else areAll = false;
    }
    if (!isAny) this.refusedUntil = undefined;
    this.retryAt = areAll ? this.refusedUntil : undefined;
  }

  /** ERROR about a request; false if it is about nothing. */
  refuse(now: number, request: number, error: CroreError): boolean {
    const call = this.sent.get(request);
    if (!call) return false;
    if (error.temporary && call.isOnce) {
      if (call.isRefused) return false;
      if (this.putOff(now, call)) return true;
    }
    if (error.code === PRODUCER_FENCED && call.isNumbered) this.fence(error);
    this.settle(call, error);
    return true;
  }

  /** U8 */
  private putOff(now: number, call: Call): boolean {
    if (this.refusedUntil === undefined && !this.hasGivenUp && call.refusals >= REFUSALS_MAX) {
      this.hasGivenUp = true;
      return false;
    }
    const delay = Math.min(REFUSED_MS * 2 ** call.refusals, REFUSED_MS_MAX);
    call.refusals = Math.min(call.refusals + 1, REFUSALS_MAX);
    this.setRefused(call, true);
    this.refusedUntil = Math.max(this.refusedUntil ?? 0, now + delay);
    this.planRepeat();
    return true;
  }

  /** U9 */
  private fence(error: CroreError): void {
    this.isFenced = true;
    for (const call of [...this.kept, ...this.waiting]) if (call.isNumbered) this.settle(call, error);
  }

  /** The end of a connection: U2. */
  connectionLost(): void {
    for (const call of Array.from(this.sent.values())) if (!call.isOnce) this.settle(call, unknown());
    this.sent.clear();
    for (const call of this.kept) this.setRefused(call, false);
    this.retryAt = this.refusedUntil = undefined;
    this.hasGivenUp = false;
  }

  /** Gives a call up: U11. */
  expire(call: Call): void {
    this.settle(call, call.request ? unknown() : new CroreError("Expired", "the call was not sent in time"));
  }

  expireDue(now: number): void {
    this.deadline = Infinity;
    for (const calls of [this.waiting, this.kept, this.sent.values()]) {
      for (const call of Array.from(calls)) {
        if (call.until <= now) this.expire(call);
        else if (call.until < this.deadline) this.deadline = call.until;
      }
    }
  }

  /** X2: the end of the client. */
  end(): void {
    for (const call of [...this.sent.values(), ...this.kept]) this.settle(call, unknown());
    for (const call of Array.from(this.waiting)) this.settle(call, new CroreError("Closed", "the client is closed"));
    this.deadline = Infinity;
  }

  inspect(): Record<string, number> {
    return { waiting: this.waiting.size, sent: this.inFlight, once: this.onceCount, onceBytes: this.onceBytes };
  }
}

function unknown(): CroreError {
  return new CroreError("Unknown", "the answer never came: the request may have been carried out");
}
