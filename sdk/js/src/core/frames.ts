/** What each frame of the server brings about. */

import { Fault, epochPart } from "../codec/bytes.js";
import { Plain } from "../codec/client.js";
import { show } from "../codec/position.js";
import { Type, decode, type ErrorFrame, type Frame } from "../codec/server.js";
import { CroreError, refusal } from "../errors.js";
import { refuse, repeat, settle } from "./calls.js";
import { abort, after, heard, setState } from "./connection.js";
import { Phase, note, send, unexpected, type Core } from "./state.js";
import { active, ask, message, named, progress, refused, subscribed } from "./subscriptions.js";
import { holdTicket } from "./tickets.js";
import { askSource, renewIfDue, renewalSettled } from "./tokens.js";

/** Numbers of the rules; they are inlined. */
const enum Limit {
  TicketRetryMs = 60_000, // R3
  SilenceMarginMs = 10_000, // L2
}

/** Codes of `spec/codes.toml` that the rules name. */
const enum Code {
  Resubscribe = 2500,
  Unauthorized = 200,
  TicketRefused = 204,
}

/** One message of the WebSocket. Returns whether `wakeAt` may have come nearer. */
export const received = (core: Core, data: Uint8Array | string): true | void => {
  if (core.phase < Phase.Greeting) return;
  heard(core);
  try {
    if (typeof data === "string") violated(core, "text");
    else {
      const frame = decode(data);
      // The commonest first.
      if (frame[0] === Type.Message && core.phase === Phase.Ready) return message(core, frame[2], frame[3]);
      take(core, frame);
      after(core);
    }
  } catch (error) {
    const { code, name } = error as CroreError;
    violated(core, name, !(code! >= Fault.Version && code! <= Fault.Type));
  }
  return true;
};

/** C8: the server breaks the protocol, or speaks another version of it. */
const violated = (core: Core, what: string, again = true): void => {
  note(core, "unexpected_frame", { what }, "error");
  abort(core, 1002, again ? "protocol" : "unsupported", again);
};

const take = (core: Core, frame: Frame): void => {
  const [type] = frame;
  const isEarly = type === Type.Welcome || type === Type.Error || type === Type.GoAway;
  if (core.phase === Phase.Ready ? type === Type.Welcome : !isEarly) return violated(core, "out of turn");
  switch (frame[0]) {
    case Type.Welcome:
      return welcome(core, frame);
    case Type.Subscribed:
      return subscribed(core, frame);
    case Type.Unsubscribed: {
      const [, , number, code] = frame;
      return refused(core, number, refusal(code, code >= Code.Resubscribe, "it has ended"));
    }
    case Type.NamedMessage:
      return named(core, frame[2], frame[3], frame[4]);
    case Type.CaughtUp:
    case Type.Gap:
    case Type.Skipped:
      return progress(core, frame);
    case Type.Published:
    case Type.HistoryPage:
      return answer(core, frame);
    case Type.Error:
      return error(core, frame);
    case Type.GoAway: {
      const [, , code, returnAfterMs, options] = frame;
      core.plan = frame;
      note(core, "go_away", { code, returnAfterMs }, "info");
      if (options[8]) holdTicket(core, options[8], Infinity);
      return;
    }
    case Type.Ping:
      return send(core, Plain.Pong, epochPart(frame[2])); // L1
    case Type.TicketIssued:
      if (core.ticketRequest !== frame[2]) return unexpected(core, type);
      holdTicket(core, frame[4], frame[3] - core.clockMs);
      return note(core, "ticket");
    case Type.Renewed:
      if (!renewalSettled(core, frame[2])) return unexpected(core, type);
      note(core, "token_renewed");
      return renewIfDue(core);
    case Type.TokenExpires: // T2
      note(core, "token_expires");
      if (core.hasTokenSource) askSource(core, "expires", false);
  }
};

const welcome = (core: Core, frame: Extract<Frame, { 0: Type.Welcome }>): void => {
  const [, , , connection, pingIntervalS, timeMs, , messageBytesMax, , options] = frame;
  const { held } = core;
  core.roundTripMs = core.nowMs - core.phaseSince;
  core.phase = Phase.Ready;
  core.counters.connections++;
  core.silenceMs = pingIntervalS && pingIntervalS * 1_000 + Limit.SilenceMarginMs;
  core.payloadMax = messageBytesMax;
  core.ticketMs = (options[14] ?? 0) * 1_000;
  core.clockMs = timeMs - core.nowMs;
  core.wasRefused = false;
  core.askFailures = 0;
  note(core, "connected", { node: options[6], connection, resumed: options[12] }, "info");
  setState(core, { state: "live" });
  if (!core.plan) repeat(core);
  renewIfDue(core);
  if (!core.wasPresented || !held) return;
  if (options[12] === undefined) {
    // R5
    core.held = undefined;
    note(core, "ticket_refused", {}, "info");
  }
  // R6
  if (options[12] !== held.covers.size) ask(core, active(core).filter((it) => held.covers.has(it.number)));
};

const answer = (core: Core, frame: Extract<Frame, { 0: Type.Published | Type.HistoryPage }>): void => {
  const [type, flags, request] = frame;
  const call = core.open.get(request);
  if (!call || !call.isPage === (type === Type.HistoryPage)) return unexpected(core, type);
  if (frame[0] === Type.Published) {
    const position = show({ inEpoch: frame[3], upTo: frame[4] });
    settle(core, call, undefined, { position, duplicate: !!(flags & 1) });
  } else {
    for (const it of frame[9]) it.topic = call.topicName;
    settle(core, call, undefined, frame);
  }
};

const error = (core: Core, frame: ErrorFrame): void => {
  const [type, flags, reference, id, code, text, epoch, offset, limit] = frame;
  const restart = epoch === undefined ? epoch : show({ inEpoch: epoch, upTo: offset! });
  const error = refusal(code, !!(flags & 1), text, restart, limit);
  if (reference === 2) refused(core, id, error);
  else if (!reference) {
    if (code === Code.TicketRefused) return; // R5
    if (core.phase < Phase.Ready && code === Code.Unauthorized) core.wasUnauthorized = true;
    core.complain(error);
  } else if (core.ticketRequest === id) {
    // R3
    core.ticketRequest = undefined;
    if (error.temporary) core.ticketNotBefore = core.nowMs + Limit.TicketRetryMs;
    else core.ticketMs = 0;
  } else if (renewalSettled(core, id)) {
    // T4
    note(core, "token_refused", { code }, "warn");
    core.complain(error);
    renewIfDue(core);
  } else if (!refuse(core, id, error)) unexpected(core, type);
};
