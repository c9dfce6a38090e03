/** C, G, L, X: the life of a connection, and what the platform reports about it. */

import { pack } from "../codec/bytes.js";
import { Plain, encodeHello } from "../codec/client.js";
import { closedBy } from "../errors.js";
import type { State } from "../state.js";
import { callsLost, endCalls, expireDue, inFlight, pump, repeat } from "./calls.js";
import { Phase, doubled, note, send, type Core } from "./state.js";
import { detach } from "./subscription.js";
import { active, ask, remove, requests } from "./subscriptions.js";
import { askTicketIfDue, planTicket, present } from "./tickets.js";
import { askSource, sourceFailed } from "./tokens.js";

/** Numbers of the rules; they are inlined. */
const enum Limit {
  OpenMsMax = 10_000, // C7
  EarlyBytesMax = 8 * 1024, // C2
  ProbeMs = 3_000,
  /** No event tells when a socket has room again. */
  UnsentCheckMs = 20,
}

/** Codes of `spec/codes.toml` that the rules name. */
const enum Code {
  CloseTokenExpired = 3007,
  CloseUnauthorized = 3502,
}

/** Why a connection has ended, and what is known of it. */
type End = Pick<State, "reason" | "code" | "status">;

/** C5: whether a client comes back after this close code. */
const reconnects = (code: number): boolean => /^(100[156]|101[1-4]|[34][0-4]..)$/.test(`${code}`);

const setPhase = (core: Core, phase: Phase): void => {
  core.phase = phase;
  core.phaseSince = core.nowMs;
};

export const setState = (core: Core, state: State): void => {
  core.shown = state;
  core.changed(state);
};

/** Begins the next attempt: first the token, if one is needed. */
export const connect = (core: Core): void => {
  if (!core.needed) return open(core);
  setPhase(core, Phase.Token);
  askSource(core, core.needed, true);
};

export const open = (core: Core): void => {
  const { urls } = core;
  const url = core.preferred.shift() ?? urls[core.turn++ % urls.length]!;
  let early: Uint8Array[] = [];
  if (core.options.handshakeFrames && !core.isPlain) {
    early = greeting(core);
    if (pack(early).length > Limit.EarlyBytesMax) early = [];
    else core.early = new Set(active(core).map((it) => it.number));
  }
  setPhase(core, Phase.Opening);
  core.openedAt = Infinity;
  core.wasUnauthorized = false;
  note(core, "connecting", { url });
  if (core.shown.state !== "connecting") setState(core, { state: "connecting" });
  core.dial(url, early);
};

/** HELLO, and SUBSCRIBE of everything: C2, R4. */
const greeting = (core: Core): Uint8Array[] => {
  const cursors = present(core);
  const held = cursors && core.held;
  const asked = active(core).filter((it) => !held?.covers.has(it.number));
  return [encodeHello(core.bearer, core.options.name, held?.ticket, cursors), ...requests(asked)];
};

/** The WebSocket is open. */
export const opened = (core: Core): void => {
  if (core.phase !== Phase.Opening) return;
  setPhase(core, Phase.Greeting);
  core.openedAt = core.heardAt = core.nowMs;
  core.pingedAt = undefined;
  core.probeUntil = Infinity;
  const { early } = core;
  if (early) {
    // What has changed since the handshake.
    early.forEach((number) => core.byNumber.has(number) || send(core, Plain.Unsubscribe, 1, number));
    ask(core, active(core).filter((it) => !early.has(it.number)));
  } else greeting(core).forEach(core.transmit);
};

/** The connection could not be opened; C6. */
export const failed = (core: Core, status?: number, retryAfterS = 0): void => {
  if (!status) return lost(core, { reason: "network" }, true);
  // Something on the way may not take such a long head: the next attempt goes without the frames.
  const passing = core.early ? /^(4(0[08]|1[34]|2[59]|31)|5..)$/ : /^(4(08|2[59])|5..)$/;
  lost(core, { reason: "refused", status }, passing.test(`${status}`), Math.min(retryAfterS, 3_600) * 1_000);
};

export const closed = (core: Core, code: number): void => {
  if (code === 1006) failed(core);
  else lost(core, { reason: "closed", code }, reconnects(code));
};

/** The end of a connection or attempt; plans the next one. */
export const lost = (core: Core, end: End, again: boolean, moreMs = 0): void => {
  if (core.phase < Phase.Opening) return;
  const lasted = core.nowMs - core.openedAt;
  const { reason, code } = end;
  if (core.openedAt < Infinity) note(core, "lost", { reason, code }, "info");
  core.isPlain = core.phase === Phase.Opening && !!core.early;
  core.early = undefined;
  setPhase(core, Phase.Waiting);
  core.byAlias.clear();
  core.byFilter.forEach(detach);
  core.ticketRequest = core.renewal = undefined;
  core.ticketAt = core.askAt = Infinity;
  core.ticketMs = core.ticketNotBefore = 0;
  core.wasPresented = core.isRenewalDue = false;
  if (!core.asked?.forAttempt) core.asked = undefined;
  callsLost(core);
  core.lastEnd = { ...end, state: "closed" };
  // T7
  if (core.wasUnauthorized || code === Code.CloseUnauthorized) {
    if (core.hasTokenSource && !core.wasRefused) {
      again = core.wasRefused = true;
      core.needed = "refused";
    } else if (core.wasUnauthorized) again = false;
  } else if (code === Code.CloseTokenExpired && core.hasTokenSource) core.needed = "expires"; // T5
  if (!again) return terminate(core, core.lastEnd);
  const { plan } = core;
  core.plan = undefined;
  if (plan) [, , , moreMs, , core.preferred] = plan;
  wait(core, end, plan ? moreMs : backOff(core, lasted) + moreMs);
};

/** C4: the wait after a connection that lasted so long. */
export const backOff = (core: Core, lasted: number): number => {
  if (lasted >= (core.options.backoff?.resetAfter ?? 10_000)) core.waits = 0;
  return delay(core, core.waits++);
};

/** A random wait before attempt `n`. */
export const delay = (core: Core, n: number): number => {
  const { base = 500, max = 30_000 } = core.options.backoff ?? {};
  return Math.floor(core.random() * doubled(base, n, max));
};

export const wait = (core: Core, end: End, delayMs: number): void => {
  setPhase(core, Phase.Waiting);
  core.waitUntil = core.nowMs + delayMs;
  note(core, "waiting", { reason: end.reason, delayMs });
  setState(core, { ...end, state: "waiting", until: core.waitUntil });
  after(core);
};

export const terminate = (core: Core, state: State): void => {
  const { reason, code } = state;
  const isRequested = reason === "requested";
  setPhase(core, Phase.Closed);
  core.asked = undefined;
  note(core, "closed", { reason, code }, isRequested ? "info" : "error");
  setState(core, state);
  endCalls(core);
  core.byFilter.forEach((it) => remove(core, it, isRequested ? undefined : closedBy(state)));
};

/** Ends a connection that may be open, and the client. */
export const leave = (core: Core, reason: string): void => {
  if (core.phase >= Phase.Opening) core.hangUp(1000);
  terminate(core, { state: "closed", reason });
};

/** X1 */
export const close = (core: Core, drainMs: number): void => {
  if (core.phase === Phase.Closed || core.closeAt < Infinity) return;
  core.closeAt = core.nowMs + drainMs;
  after(core);
};

/** Gives a connection up. */
export const abort = (core: Core, code: number, reason: string, again = true): void => {
  core.hangUp(code);
  lost(core, { reason }, again);
};

/** Follows every input but messages: leaves or ends once nothing is open any more. */
export const after = (core: Core): void => {
  if (core.phase === Phase.Closed) return;
  if (core.plan && core.phase >= Phase.Opening && !inFlight(core)) {
    // G1
    const [, , code] = core.plan;
    core.hangUp(1000);
    lost(core, { reason: "go_away", code }, reconnects(code));
  }
  if (core.closeAt < Infinity && !core.open.size && !core.unsent.size) return leave(core, "requested");
  pump(core);
  planTicket(core);
};

/** The platform woke up or is online again: is the connection still there? */
export const probe = (core: Core): void => {
  // After GO_AWAY the server spreads the returns.
  if (core.phase === Phase.Waiting && core.shown.reason !== "go_away") {
    core.waitUntil = core.nowMs;
    tick(core);
  } else if (core.phase === Phase.Ready && core.probeUntil === Infinity) {
    core.probeUntil = core.nowMs + Limit.ProbeMs;
    ping(core);
  }
};

const ping = (core: Core): void => {
  core.pingedAt = core.nowMs;
  send(core, Plain.Ping, 0);
};

/** L3: a sign of life. */
export const heard = (core: Core): void => {
  core.heardAt = core.nowMs;
  if (core.pingedAt !== undefined) core.roundTripMs = core.nowMs - core.pingedAt;
  core.pingedAt = undefined;
  core.probeUntil = Infinity;
};

/** The time is now so late. */
export const tick = (core: Core): void => {
  const { nowMs: now, asked } = core;
  if (now >= core.closeAt) return leave(core, "requested");
  if (asked && now >= asked.endsAt) sourceFailed(core, asked.id, false);
  expireDue(core);
  if (core.phase === Phase.Waiting) {
    if (now >= core.waitUntil) connect(core);
  } else if (core.phase === Phase.Ready) tickReady(core);
  else if (core.phase >= Phase.Opening && now >= core.phaseSince + Limit.OpenMsMax) abort(core, 1006, "timeout");
  after(core);
};

const tickReady = (core: Core): void => {
  const { nowMs: now, silenceMs, pingedAt } = core;
  const silent = now - (pingedAt ?? core.heardAt);
  const isSilent = silenceMs && silent >= silenceMs;
  // L2; L5: if the timer slept, the answer may wait behind it.
  if (now >= core.probeUntil || (isSilent && pingedAt !== undefined && silent <= 2 * silenceMs)) return abort(core, 1006, "idle");
  if (isSilent) ping(core);
  if (now >= core.askAt) {
    core.askAt = Infinity;
    askSource(core, "expires", false);
  }
  if (core.plan) return;
  const due = active(core).filter((it) => now >= it.retryAt);
  for (const it of due) it.retryAt = Infinity;
  ask(core, due);
  askTicketIfDue(core);
  if (now >= core.repeatAt) repeat(core);
};

/** When `tick` is needed next; `Infinity` if it is not. */
export const wakeAt = (core: Core): number => {
  const { phase } = core;
  if (phase === Phase.Closed) return Infinity;
  let at = Math.min(core.closeAt, core.deadline, core.asked?.endsAt ?? Infinity);
  const sooner = (time: number) => void (at = Math.min(at, time));
  if (phase === Phase.Waiting) sooner(core.waitUntil);
  else if (phase === Phase.Ready) {
    if (core.silenceMs) sooner((core.pingedAt ?? core.heardAt) + core.silenceMs);
    sooner(Math.min(core.probeUntil, core.askAt));
    if (!core.plan) {
      if (core.unsent.size && core.isBlocked()) sooner(core.nowMs + Limit.UnsentCheckMs);
      core.byFilter.forEach((it) => sooner(it.retryAt));
      sooner(Math.min(core.ticketAt, core.repeatAt));
    }
  } else if (phase > Phase.Token) sooner(core.phaseSince + Limit.OpenMsMax);
  return at;
};
