/**
 * U, H: publications and pages of history, from the call to the one answer.
 *
 * `once` publications are kept until they are answered, and repeated on the next connection before
 * anything new, in the old order, with the same bytes.
 */

import { encodeHistory, encodePublish, type PublishFields } from "../codec/client.js";
import type { Place } from "../codec/position.js";
import type { HistoryPage } from "../codec/server.js";
import { checkLength } from "../codec/topics.js";
import { CroreError, checkSize, invalid } from "../errors.js";
import type { HistoryOptions } from "./options.js";
import { checkOpen, doubled, mayRequest, nextRequest, note, type Core } from "./state.js";

export interface PublishInput extends PublishFields {
  /** True: the client's producer; bytes: a key. */
  once?: boolean | Uint8Array;
  /** A sequence that was reserved before, for `once`. */
  sequence?: number;
  timeout?: number;
}

type Settle<T> = (error: CroreError | undefined, value?: T) => void;

/** One request of the application. */
export interface Call {
  topicName: string;
  /** What it weighs in the queue. */
  weight: number;
  toFrame: (request: number) => Uint8Array;
  /** Gone when it is settled: U14. */
  settle: Settle<any> | undefined;
  isPage?: boolean;
  isOnce?: boolean;
  isNumbered?: boolean;
  /** Its number on the wire; 0 before it is sent. */
  wireNumber: number;
  endsAt: number;
  refusals: number;
  isOnWire?: boolean;
  /** Of `once`, once it has a number. */
  frame?: Uint8Array;
}

/** The acknowledgement of a publication. */
export interface Published {
  /** The position of the message. */
  position: string;
  /** The log already had it: the position is that of the first copy. */
  duplicate: boolean;
}

/** Numbers of the rules; they are inlined. */
const enum Limit {
  KeptMax = 1_000, // U12
  KeptBytesMax = 4 * 1024 * 1024,
  /** Everything has a bound, calls without a connection too. */
  QueueBytesMax = 64 * 1024 * 1024,
  RefusalsMax = 10, // U8
  RefusedMs = 200,
  RefusedMsMax = 5_000,
  TimeoutMs = 10_000, // U11
  TimeoutOnceMs = 60_000,
  CallBytes = 128,
}

/** Codes of `spec/codes.toml` that the rules name. */
const enum Code {
  ProducerFenced = 403,
}

export const publish = (core: Core, input: PublishInput, settle: Settle<Published>): Call => {
  const { topic, payload, once } = input;
  const key = once instanceof Uint8Array ? once : undefined;
  if (key) checkSize("a key", key, 128);
  if (payload.length > core.payloadMax) throw tooLong(core);
  const isNumbered = once === true;
  if (isNumbered && core.isFenced) throw new CroreError("Fenced", "another client has this id");
  const call = newCall(topic, settle, (request) => {
    const sequence = isNumbered ? input.sequence ?? ++core.lastSequence : 0;
    return encodePublish(request, input, isNumbered ? core.sender : undefined, sequence, key);
  });
  call.weight += payload.length;
  call.isOnce = !!once;
  call.isNumbered = isNumbered;
  return add(core, call, input.timeout);
};

/** One page: H1. */
export const history = (core: Core, topic: string, after: Place | undefined, options: HistoryOptions, settle: Settle<HistoryPage>): Call => {
  const { reverse, limit = Infinity, timeout } = options;
  const call = newCall(topic, settle, (request) =>
    encodeHistory(request, topic, reverse, after, limit < Infinity ? limit : 0),
  );
  call.isPage = true;
  return add(core, call, timeout);
};

const newCall = (topic: string, settle: Settle<any>, encode: Call["toFrame"]): Call => ({ topicName: topic, settle, toFrame: encode, weight: Limit.CallBytes, wireNumber: 0, endsAt: 0, refusals: 0 });

const tooLong = (core: Core): CroreError => invalid(`the payload is above ${core.payloadMax} bytes`);

const add = (core: Core, call: Call, timeout?: number): Call => {
  const { isOnce, weight: size } = call;
  checkOpen(core);
  checkLength(call.topicName);
  const isFull = isOnce && (core.onceCount >= Limit.KeptMax || core.keptBytes + size > Limit.KeptBytesMax);
  if (isFull || core.queueBytes + size > Limit.QueueBytesMax) {
    throw new CroreError("QueueFull", "too many calls wait", undefined, true);
  }
  if (isOnce) {
    core.onceCount++;
    core.keptBytes += size;
  }
  core.unsent.add(call);
  core.queueBytes += size;
  call.endsAt = core.nowMs + (timeout ?? (isOnce ? Limit.TimeoutOnceMs : Limit.TimeoutMs));
  core.deadline = Math.min(core.deadline, call.endsAt);
  pump(core);
  return call;
};

/** Sends what waits: U1, in the order of the calls. */
export const pump = (core: Core): void => {
  if (!core.unsent.size || !mayRequest(core) || core.isBlocked()) return;
  for (const call of core.unsent) {
    // U8: nothing new before what was refused.
    if (call.isOnce && core.refusedUntil) continue;
    unqueue(core, call);
    if (call.weight - Limit.CallBytes > core.payloadMax) settle(core, call, tooLong(core));
    else {
      call.wireNumber = nextRequest(core);
      core.open.set(call.wireNumber, call);
      const frame = call.toFrame(call.wireNumber);
      if (call.isOnce) call.frame = frame;
      transmit(core, call, frame);
    }
  }
};

const transmit = (core: Core, call: Call, frame: Uint8Array): void => {
  call.isOnWire = true;
  core.transmit(frame);
};

const kept = (core: Core): Call[] => [...core.open.values()].filter((it) => it.isOnce);

/** U7: everything kept goes out again. */
export const repeat = (core: Core): void => {
  core.refusedUntil = 0;
  core.repeatAt = Infinity;
  core.hasGivenUp = false;
  for (const call of kept(core)) {
    core.counters.repeated++;
    transmit(core, call, call.frame!);
  }
};

export const settle = (core: Core, call: Call, error: CroreError | undefined, value?: unknown): void => {
  const { settle } = call;
  if (!settle) return;
  call.settle = undefined;
  unqueue(core, call);
  core.open.delete(call.wireNumber);
  if (call.isOnce) {
    core.onceCount--;
    core.keptBytes -= call.weight;
    planRepeat(core);
  }
  settle(error, value);
};

const unqueue = (core: Core, call: Call): void => {
  if (core.unsent.delete(call)) core.queueBytes -= call.weight;
};

/** Those refused are repeated once all others have their answers. */
const planRepeat = (core: Core): void => {
  if (!core.refusedUntil) return;
  const calls = kept(core);
  if (calls.every((it) => it.isOnWire)) core.refusedUntil = 0;
  core.repeatAt = calls.some((it) => it.isOnWire) ? Infinity : core.refusedUntil || Infinity;
};

/** ERROR about a request; false if it is about nothing. */
export const refuse = (core: Core, request: number, error: CroreError): boolean => {
  const call = core.open.get(request);
  if (!call || (call.isOnce && !call.isOnWire && error.temporary)) return false;
  if (error.temporary && call.isOnce && putOff(core, call)) return true;
  settle(core, call, error);
  if (error.code === Code.ProducerFenced && call.isNumbered) {
    // U9
    if (!core.isFenced) note(core, "fenced", {}, "error");
    core.isFenced = true;
    for (const it of everything(core)) if (it.isNumbered) settle(core, it, error);
  }
  return true;
};

/** U8 */
const putOff = (core: Core, call: Call): boolean => {
  if (!core.refusedUntil && !core.hasGivenUp && call.refusals >= Limit.RefusalsMax) {
    core.hasGivenUp = true;
    return false;
  }
  const delay = doubled(Limit.RefusedMs, call.refusals, Limit.RefusedMsMax);
  call.refusals = Math.min(call.refusals + 1, Limit.RefusalsMax);
  call.isOnWire = false;
  core.refusedUntil = Math.max(core.refusedUntil, core.nowMs + delay);
  planRepeat(core);
  return true;
};

const everything = (core: Core): Call[] => [...core.open.values(), ...core.unsent];

/** Requests on the wire that wait for their answers. */
export const inFlight = (core: Core): number => [...core.open.values()].filter((it) => it.isOnWire).length;

/** The end of a connection: U2. */
export const callsLost = (core: Core): void => {
  core.open.forEach((call) => {
    call.isOnWire = false;
    if (!call.isOnce) expire(core, call);
  });
  core.repeatAt = Infinity;
  core.refusedUntil = 0;
};

export const expired = (): CroreError => new CroreError("Expired", "it was not sent");

/** Gives a call up: U11. */
export const expire = (core: Core, call: Call): void => {
  settle(
    core,
    call,
    call.wireNumber
      ? new CroreError("Unknown", "it may be carried out")
      : expired(),
  );
};

export const expireDue = (core: Core): void => {
  if (core.nowMs < core.deadline) return;
  core.deadline = Infinity;
  for (const call of everything(core)) {
    if (call.endsAt <= core.nowMs) expire(core, call);
    else core.deadline = Math.min(core.deadline, call.endsAt);
  }
};

/** X2: the end of the client. */
export const endCalls = (core: Core): void => {
  for (const call of everything(core)) {
    if (call.wireNumber) expire(core, call);
    else settle(core, call, new CroreError("Closed", "the client is closed"));
  }
  core.deadline = Infinity;
};
