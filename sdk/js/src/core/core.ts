/**
 * The core of the client: no socket, timer, clock or random number of its own. The shell passes
 * what happens with the time in milliseconds, then takes `outputs` and asks for `wakeAt`.
 *
 * Rules: `spec/sdk.md`; their numbers stand beside the code.
 */

import { FrameError } from "../codec/bytes.js";
import { encodeHello, encodePing, encodePong, encodeRenew, encodeTicket } from "../codec/client.js";
import type { Place } from "../codec/position.js";
import { decodeFrame, type ErrorFrame, type ServerFrame, type Welcome } from "../codec/server.js";
import { CroreError, refusal, refused } from "../errors.js";
import type { Item } from "../items.js";
import { Backoff, type BackoffSettings } from "./backoff.js";
import { Calls, type Call, type PublishInput } from "./calls.js";
import type { CoreSubscription, SubscribeOptions } from "./subscription.js";
import { Subscriptions } from "./subscriptions.js";
import { Tickets } from "./tickets.js";
import { Tokens, type TokenReason } from "./tokens.js";

export interface Settings {
  urls: readonly string[];
  token: string | undefined;
  /** Whether the shell has a source of tokens. */
  hasTokenSource: boolean;
  name: string | undefined;
  producerId: Uint8Array;
  backoff: BackoffSettings;
  bufferItems: number;
  bufferBytes: number;
  /** Returns a fraction from 0 to 1. */
  random: () => number;
  /** Whether events of the log are outputs; they are kept for `inspect` in any case. */
  logs: boolean;
}

/** The state of the client. */
export interface State {
  state: "connecting" | "live" | "waiting" | "closed";
  /** Of `waiting` and `closed`. */
  reason?: string;
  /** The close code, if the server gave one. */
  code?: number;
  /** The HTTP status of a refused handshake, where the platform shows it. */
  status?: number;
  /** `waiting`: when the next attempt begins, by the clock of the calls. */
  until?: number;
}

export type Level = "debug" | "info" | "warn" | "error";

export type Output =
  | { do: "connect"; url: string }
  | { do: "send"; bytes: Uint8Array }
  /** 1006: without a close frame. */
  | { do: "close"; code: number }
  | { do: "token"; id: number; reason: TokenReason }
  | { do: "settle"; call: Call; error: CroreError | undefined; value: unknown }
  | { do: "state"; state: State }
  | { do: "items"; of: CoreSubscription }
  | { do: "refused"; error: CroreError }
  | { do: "log"; level: Level; event: string; fields: Record<string, unknown> };

interface ReturnPlan {
  code: number;
  afterMs: number;
  urls: string[];
}

const OPEN_MS_MAX = 10_000; // C7
const SILENCE_MARGIN_MS = 10_000; // L2
const RESUBSCRIBE_CODE = 2500;
const EVENTS_MAX = 64;
/** Codes of `spec/codes.toml` that the rules name. */
const UNAUTHORIZED = 200;
const TICKET_REFUSED = 204;
const CLOSE_TOKEN_EXPIRED = 3007;
const CLOSE_UNAUTHORIZED = 3502;

type Phase = "waiting" | "token" | "opening" | "greeting" | "ready" | "closed";

/** C5: whether a client comes back after this close code. */
export function reconnects(code: number): boolean {
  return (
    code === 1001 ||
    code === 1005 ||
    code === 1006 ||
    (code >= 1011 && code <= 1014) ||
    (code >= 3000 && code <= 3499) ||
    (code >= 4000 && code <= 4499)
  );
}

export class Core {
  outputs: Output[] = [];
  state: State = { state: "connecting" };
  readonly counters = { connections: 0, messages: 0, duplicates: 0, unexpected: 0, gaps: 0, skips: 0, repeated: 0 };
  readonly events: { at: number; event: string; fields: Record<string, unknown> }[] = [];
  /** The last measured round trip. */
  roundTripMs: number | undefined;
  /** The shell sets it while the socket has too many unsent bytes (U15). */
  isBlocked = false;

  private phase: Phase = "waiting";
  private phaseSince = 0;
  private waitUntil = 0;
  private openedAt: number | undefined;
  private readonly backoff: Backoff;
  private attempt: number;
  private preferred: string[] = [];
  private plan: ReturnPlan | undefined;
  private closing: number | undefined;

  private silenceMs = 0;
  private lastReceived = 0;
  private pingedAt: number | undefined;
  private probeUntil: number | undefined;

  private readonly subscriptions: Subscriptions;
  private readonly calls: Calls;
  private readonly tickets = new Tickets();
  private readonly tokens: Tokens;
  private lastRequest = 0;
  /** `unauthorized` came in place of WELCOME. */
  private wasUnauthorized = false;
  private lastEnd: State = { state: "closed" };

  constructor(private readonly settings: Settings) {
    this.backoff = new Backoff(settings.backoff, settings.random);
    const count = settings.urls.length;
    // C3
    this.attempt = count > 1 ? Math.min(Math.floor(settings.random() * count), count - 1) : 0;
    this.tokens = new Tokens(settings.token, settings.hasTokenSource);
    this.subscriptions = new Subscriptions(settings.bufferItems, settings.bufferBytes, this.tickets, this.counters, {
      canAsk: () => this.canAsk,
      send: (bytes) => this.send(bytes),
      items: (of) => void this.outputs.push({ do: "items", of }),
      note: (now, level, event, fields) => this.note(now, level, event, fields),
    });
    this.calls = new Calls(settings.producerId, {
      request: () => this.request(),
      send: (bytes) => this.send(bytes),
      settle: (call, error, value) => void this.outputs.push({ do: "settle", call, error, value }),
      repeated: (count) => {
        this.counters.repeated += count;
      },
    });
  }

  // The application's calls.

  start(now: number): void {
    this.connect(now);
  }

  subscribe(now: number, filter: string, options: SubscribeOptions): CoreSubscription {
    this.check(filter);
    return this.subscriptions.add(now, filter, options);
  }

  unsubscribe(now: number, it: CoreSubscription): void {
    if (!it.end) this.subscriptions.end(now, it, this.isGreeted);
  }

  publish(now: number, input: PublishInput): Call {
    this.refuseIfClosed();
    const call = this.calls.publish(now, input);
    this.pump(now);
    return call;
  }

  /** One page: H1. */
  history(now: number, topic: string, position: Place | undefined, reverse: boolean, limit: number, timeoutMs?: number): Call {
    this.refuseIfClosed();
    const call = this.calls.history(now, topic, position, reverse, limit, timeoutMs);
    this.pump(now);
    return call;
  }

  /** Gives a call up: not sent yet, it never will be. */
  abandon(now: number, call: Call): void {
    this.calls.expire(call);
    this.after(now);
  }

  /** T3, T6: continues with another token, on this connection and on all further ones. */
  renew(token: string): void {
    if (this.tokens.take(token) && this.isGreeted) {
      this.tokens.isDue = true;
      this.renewIfDue();
    }
  }

  close(now: number, drainMs: number): void {
    if (this.phase === "closed" || this.closing !== undefined) return;
    this.closing = now + drainMs;
    this.after(now);
  }

  /** The oldest item of a subscription's buffer. */
  takeOne(now: number, it: CoreSubscription): Item | undefined {
    return this.subscriptions.takeOne(now, it);
  }

  /** Several items of a subscription's buffer: `max`, not counting those that only settle. */
  take(now: number, it: CoreSubscription, max: number): Item[] {
    return this.subscriptions.take(now, it, max);
  }

  /** Refuses what `subscribe` would refuse. */
  check(filter: string): void {
    this.refuseIfClosed();
    this.subscriptions.check(filter);
  }

  /** Publishes `once` under this id from now on. */
  setProducer(id: Uint8Array): void {
    this.calls.producerId = id;
  }

  /** The platform has closed the socket, and will say when to come back: see `probe`. */
  suspend(now: number): void {
    this.lost(now, { state: "waiting", reason: "network" }, true);
  }

  // What happens to the connection.

  opened(now: number): void {
    if (this.phase !== "opening") return;
    this.setPhase("greeting", now);
    this.openedAt = this.lastReceived = now;
    this.pingedAt = this.probeUntil = undefined;
    const held = this.tickets.present(now, this.subscriptions.byNumber);
    const { token } = this.tokens;
    this.send(encodeHello(token, this.settings.name, held?.ticket, held?.cursors));
    const covers = held?.covers;
    this.subscriptions.ask(this.subscriptions.active().filter((it) => !covers?.has(it.number)));
  }

  /** The connection could not be opened; C6. */
  failed(now: number, status?: number, retryAfterS?: number): void {
    if (status === undefined) return this.lost(now, { state: "waiting", reason: "network" }, true);
    const again = status === 408 || status === 425 || status === 429 || (status >= 500 && status <= 599);
    const more = Math.min(retryAfterS ?? 0, 3_600) * 1_000;
    this.lost(now, { state: "waiting", reason: "refused", status }, again, more);
  }

  closed(now: number, code: number, _reason = ""): void {
    if (code === 1006) return this.lost(now, { state: "waiting", reason: "network" }, true);
    this.lost(now, { state: "waiting", reason: "closed", code }, reconnects(code));
  }

  received(now: number, data: Uint8Array | string): void {
    if (this.phase !== "greeting" && this.phase !== "ready") return;
    this.lastReceived = now; // L3
    if (this.probeUntil !== undefined || this.pingedAt !== undefined) this.heard(now);
    let frame: ServerFrame;
    try {
      if (typeof data === "string") throw new FrameError("a text message");
      frame = decodeFrame(data);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      return this.violated(now, error.message, error.unsupported);
    }
    // The commonest first.
    if (frame.type === "message" && this.phase === "ready") {
      return this.subscriptions.message(now, frame.alias, frame.message);
    }
    this.frame(now, frame);
    this.after(now);
  }

  /** The token source has answered; T2, T5, T7. */
  token(now: number, id: number, token: string | undefined): void {
    const asked = this.tokens.answered(id);
    if (!asked) return;
    const isNew = token !== undefined && token !== this.tokens.token;
    if (asked.forAttempt) {
      if (asked.reason === "refused" && !isNew) return this.terminate(now, this.lastEnd);
      if (isNew) this.tokens.take(token);
      this.open(now);
    } else if (isNew) this.renew(token);
    this.after(now);
  }

  /** The token source has thrown; T9. */
  tokenFailed(now: number, id: number, isUnauthorized: boolean): void {
    const asked = this.tokens.answered(id);
    if (!asked) return;
    if (isUnauthorized) {
      if (this.isOpen) this.outputs.push({ do: "close", code: 1000 });
      return this.terminate(now, { state: "closed", reason: "token" });
    }
    const delay = asked.forAttempt ? this.backoff.next(0) : this.backoff.delay(this.tokens.failures++);
    if (asked.forAttempt) {
      this.tokens.needed = asked.reason;
      this.wait(now, { state: "waiting", reason: "token" }, delay);
    } else this.tokens.retryAt = now + delay;
  }

  /** The platform woke up or is online again: is the connection still there? */
  probe(now: number, patienceMs: number): void {
    // After GO_AWAY the server spreads the returns.
    if (this.phase === "waiting" && this.state.reason !== "go_away") {
      this.waitUntil = now;
      this.tick(now);
    } else if (this.phase === "ready" && this.probeUntil === undefined) {
      this.probeUntil = now + patienceMs;
      this.ping(now);
    }
  }

  /** The time is now so late. */
  tick(now: number): void {
    if (this.closing !== undefined && now >= this.closing) return this.finish(now);
    const asked = this.tokens.asked;
    if (asked && now >= asked.until) this.tokenFailed(now, asked.id, false);
    if (this.calls.deadline <= now) this.calls.expireDue(now);
    switch (this.phase) {
      case "waiting":
        if (now >= this.waitUntil) this.connect(now);
        break;
      case "opening":
      case "greeting":
        if (now >= this.phaseSince + OPEN_MS_MAX) {
          this.outputs.push({ do: "close", code: 1006 });
          this.lost(now, { state: "waiting", reason: "timeout" }, true);
        }
        break;
      case "ready":
        this.tickReady(now);
    }
    this.after(now);
  }

  /** When `tick` is needed next. */
  get wakeAt(): number | undefined {
    let at = Infinity;
    const soonest = (time: number | undefined) => {
      if (time !== undefined && time < at) at = time;
    };
    if (this.phase === "closed") return undefined;
    soonest(this.closing);
    soonest(this.tokens.asked?.until);
    soonest(this.calls.deadline);
    if (this.phase === "waiting") soonest(this.waitUntil);
    else if (this.phase === "opening" || this.phase === "greeting") soonest(this.phaseSince + OPEN_MS_MAX);
    else if (this.phase === "ready") {
      if (this.silenceMs) soonest((this.pingedAt ?? this.lastReceived) + this.silenceMs);
      soonest(this.probeUntil);
      soonest(this.tokens.retryAt);
      if (!this.plan) {
        soonest(this.tickets.askAt);
        soonest(this.calls.retryAt);
        for (const it of this.subscriptions.byFilter.values()) soonest(it.retryAt);
      }
    }
    return at === Infinity ? undefined : at;
  }

  /** What `inspect()` of the surface shows; no token, ticket or payload. */
  inspect(): Record<string, unknown> {
    return {
      state: this.state,
      roundTripMs: this.roundTripMs,
      subscriptions: Array.from(this.subscriptions.byFilter.values(), (it) => ({
        topic: it.filter,
        granted: it.isGranted,
        paused: it.isPaused,
        buffered: it.count,
        bufferedBytes: it.bytes,
        ...it.report(),
      })),
      queue: this.calls.inspect(),
      counters: { ...this.counters },
      events: this.events.slice(),
    };
  }

  // Connection.

  private get isOpen(): boolean {
    return this.phase === "opening" || this.isGreeted;
  }

  private get isGreeted(): boolean {
    return this.phase === "greeting" || this.phase === "ready";
  }

  /** Whether SUBSCRIBE may go out; G1. */
  private get canAsk(): boolean {
    return this.isGreeted && !this.plan;
  }

  private setPhase(phase: Phase, now: number): void {
    this.phase = phase;
    this.phaseSince = now;
  }

  private setState(state: State): void {
    this.state = state;
    this.outputs.push({ do: "state", state });
  }

  private send(bytes: Uint8Array): void {
    this.outputs.push({ do: "send", bytes });
  }

  private request(): number {
    return (this.lastRequest = this.lastRequest >= 0xffffffff ? 1 : this.lastRequest + 1);
  }

  private note(now: number, level: Level, event: string, fields: Record<string, unknown> = {}): void {
    this.events.push({ at: now, event, fields });
    if (this.events.length > EVENTS_MAX) this.events.shift();
    if (this.settings.logs) this.outputs.push({ do: "log", level, event, fields });
  }

  /** Begins the next attempt: first the token, if one is needed. */
  private connect(now: number): void {
    const reason = this.tokens.needed;
    if (!reason) return this.open(now);
    this.setPhase("token", now);
    this.askForToken(now, reason, true);
  }

  private askForToken(now: number, reason: TokenReason, forAttempt: boolean): void {
    const id = this.tokens.ask(now, reason, forAttempt);
    if (id) this.outputs.push({ do: "token", id, reason });
  }

  private open(now: number): void {
    const { urls } = this.settings;
    const url = this.preferred.shift() ?? urls[this.attempt++ % urls.length]!;
    this.setPhase("opening", now);
    this.openedAt = undefined;
    this.wasUnauthorized = false;
    this.note(now, "debug", "connecting", { url });
    if (this.state.state !== "connecting") this.setState({ state: "connecting" });
    this.outputs.push({ do: "connect", url });
  }

  /** The end of a connection or attempt; plans the next one. */
  private lost(now: number, state: State, again: boolean, moreMs = 0): void {
    if (!this.isOpen) return;
    const lasted = this.openedAt === undefined ? 0 : now - this.openedAt;
    this.disconnected(now, state);
    this.lastEnd = { ...state, state: "closed" };
    // T7
    const isRefused = state.code === CLOSE_UNAUTHORIZED || this.wasUnauthorized;
    if (isRefused && this.tokens.refusedOnce()) {
      again = true;
      this.tokens.needed = "refused";
    } else if (isRefused && this.wasUnauthorized) again = false;
    else if (state.code === CLOSE_TOKEN_EXPIRED && this.settings.hasTokenSource) this.tokens.needed = "expires"; // T5
    if (!again) return this.terminate(now, { ...state, state: "closed" });
    const plan = this.plan;
    this.plan = undefined;
    if (plan) {
      this.preferred = plan.urls.slice();
      return this.wait(now, state, plan.afterMs);
    }
    this.wait(now, state, this.backoff.next(lasted) + moreMs);
  }

  private disconnected(now: number, state: State): void {
    const { reason, code } = state;
    if (this.openedAt !== undefined) this.note(now, "info", "lost", { reason, code });
    this.setPhase("waiting", now);
    this.subscriptions.connectionLost();
    this.tickets.connectionLost();
    this.tokens.connectionLost();
    this.calls.connectionLost();
    this.isBlocked = false;
    this.silenceMs = 0;
  }

  private wait(now: number, state: State, delayMs: number): void {
    this.setPhase("waiting", now);
    this.waitUntil = now + delayMs;
    this.note(now, "debug", "waiting", { reason: state.reason, delayMs });
    this.setState({ ...state, until: this.waitUntil });
    this.after(now);
  }

  private terminate(now: number, state: State): void {
    this.setPhase("closed", now);
    this.note(now, state.reason === "requested" ? "info" : "error", "closed", {
      reason: state.reason,
      code: state.code,
    });
    this.setState(state);
    this.calls.end();
    const isRequested = state.reason === "requested";
    const why = state.code ?? state.status;
    const error = isRequested
      ? undefined
      : new CroreError("Closed", `the client is closed: ${state.reason}${why ? ` (${why})` : ""}`, undefined);
    this.subscriptions.endAll(error);
  }

  /** X1: the end that the application asked for. */
  private finish(now: number): void {
    if (this.isOpen) this.outputs.push({ do: "close", code: 1000 });
    this.terminate(now, { state: "closed", reason: "requested" });
  }

  private refuseIfClosed(): void {
    if (this.phase === "closed" || this.closing !== undefined) {
      throw new CroreError("Closed", "the client is closed");
    }
  }

  /** Follows every input: leaves or ends once nothing is open any more. */
  private after(now: number): void {
    if (this.phase === "closed") return;
    if (this.plan && this.isOpen && this.calls.inFlight === 0) this.leave(now);
    if (this.closing !== undefined && this.calls.isIdle) return this.finish(now);
    this.pump(now);
    if (this.phase === "ready" && !this.plan) this.tickets.plan(now, this.subscriptions.active());
  }

  private pump(now: number): void {
    if (this.phase === "ready" && !this.plan && !this.isBlocked) this.calls.pump(now);
  }

  /** G1: leaves as GO_AWAY says. */
  private leave(now: number): void {
    const { code } = this.plan!;
    this.outputs.push({ do: "close", code: 1000 });
    this.lost(now, { state: "waiting", reason: "go_away", code }, reconnects(code));
  }

  /** C8: the server breaks the protocol. */
  private violated(now: number, what: string, isUnsupported: boolean): void {
    this.note(now, "error", "unexpected_frame", { what });
    this.outputs.push({ do: "close", code: 1002 });
    this.lost(now, { state: "waiting", reason: isUnsupported ? "unsupported" : "protocol" }, !isUnsupported);
  }

  // Liveness.

  private ping(now: number): void {
    this.pingedAt = now;
    this.send(encodePing(String(Math.floor(now))));
  }

  /** A sign of life after a PING. */
  private heard(now: number): void {
    if (this.pingedAt !== undefined) this.roundTripMs = now - this.pingedAt;
    this.pingedAt = this.probeUntil = undefined;
  }

  private tickReady(now: number): void {
    if (this.probeUntil !== undefined && now >= this.probeUntil) return this.idle(now);
    if (this.silenceMs) {
      const since = now - (this.pingedAt ?? this.lastReceived);
      if (this.pingedAt === undefined) {
        if (since >= this.silenceMs) this.ping(now);
      } else if (since > 2 * this.silenceMs) {
        // L5: the timer slept, and perhaps the answer waits behind it.
        this.ping(now);
      } else if (since >= this.silenceMs) return this.idle(now);
    }
    if (this.tokens.retryAt !== undefined && now >= this.tokens.retryAt) {
      this.tokens.retryAt = undefined;
      this.askForToken(now, "expires", false);
    }
    if (this.plan) return;
    const due = this.subscriptions.active().filter((it) => it.retryAt !== undefined && it.retryAt <= now);
    for (const it of due) it.retryAt = undefined;
    this.subscriptions.ask(due);
    if (this.tickets.isDue(now) && this.subscriptions.active().every((it) => it.isGranted) && this.subscriptions.byFilter.size) {
      this.send(encodeTicket((this.tickets.asked = this.request())));
    }
    this.calls.repeatRefused(now);
  }

  private idle(now: number): void {
    this.outputs.push({ do: "close", code: 1006 });
    this.lost(now, { state: "waiting", reason: "idle" }, true);
  }

  // Frames.

  private frame(now: number, frame: ServerFrame): void {
    if (this.phase === "greeting" && !/^(welcome|error|go_away)$/.test(frame.type)) {
      return this.violated(now, `${frame.type} before WELCOME`, false);
    }
    switch (frame.type) {
      case "welcome":
        if (this.phase === "ready") return this.violated(now, "a second WELCOME", false);
        return this.welcome(now, frame);
      case "subscribed":
        return this.subscriptions.subscribed(now, frame);
      case "unsubscribed": {
        const error = refusal(frame.code, frame.code >= RESUBSCRIBE_CODE, "the server ended the subscription");
        return this.subscriptions.refused(now, frame.subscription, error);
      }
      case "named_message":
        return this.subscriptions.named(now, frame.subscription, frame.message);
      case "caught_up":
        return this.subscriptions.caughtUp(now, frame.subscription, frame.partition, frame.through);
      case "gap":
        return this.subscriptions.gap(now, frame);
      case "skipped":
        return this.subscriptions.skipped(now, frame);
      case "published":
      case "history_page":
        if (!this.calls.answer(frame)) this.unexpected(now, frame.type);
        return;
      case "error":
        return this.error(now, frame);
      case "go_away":
        this.plan = { code: frame.code, afterMs: frame.returnAfterMs, urls: frame.urls };
        this.note(now, "info", "go_away", { code: frame.code, returnAfterMs: frame.returnAfterMs });
        if (frame.ticket) this.tickets.hold(now, frame.ticket, Infinity, this.subscriptions.active());
        return;
      case "ping":
        return this.send(encodePong(frame.token)); // L1
      case "ticket_issued":
        if (this.tickets.asked !== frame.request) return this.unexpected(now, frame.type);
        this.tickets.hold(now, frame.ticket, this.tickets.local(frame.expiresMs), this.subscriptions.active());
        return this.note(now, "debug", "ticket");
      case "renewed":
        if (!this.tokens.settled(frame.request)) return this.unexpected(now, frame.type);
        this.note(now, "debug", "token_renewed");
        return this.renewIfDue();
      case "token_expires": // T2
        this.note(now, "debug", "token_expires");
        if (this.settings.hasTokenSource) this.askForToken(now, "expires", false);
        return;
      case "message":
        return this.violated(now, "a message before WELCOME", false);
    }
  }

  /** C9 */
  private unexpected(now: number, type: string): void {
    this.subscriptions.unexpected(now, type);
  }

  private welcome(now: number, frame: Welcome): void {
    this.roundTripMs = now - this.phaseSince;
    this.setPhase("ready", now);
    this.counters.connections++;
    this.silenceMs = frame.pingIntervalS ? frame.pingIntervalS * 1_000 + SILENCE_MARGIN_MS : 0;
    this.calls.payloadMax = frame.messageBytesMax;
    this.tokens.accepted();
    this.note(now, "info", "connected", { node: frame.node, connection: frame.connection });
    this.setState({ state: "live" });
    if (!this.plan) this.calls.repeat();
    this.renewIfDue();
    const missing = this.tickets.welcomed(now, frame);
    if (!missing) return;
    if (frame.resumed === undefined) this.note(now, "info", "ticket_refused");
    this.subscriptions.ask(this.subscriptions.active().filter((it) => missing.has(it.number)));
  }

  private renewIfDue(): void {
    if (this.phase !== "ready" || !this.tokens.isDue || this.tokens.request !== undefined) return;
    this.tokens.isDue = false;
    this.tokens.request = this.request();
    this.send(encodeRenew(this.tokens.request, this.tokens.token!));
  }

  private error(now: number, frame: ErrorFrame): void {
    if (frame.reference === 0) {
      if (frame.code === TICKET_REFUSED) return; // R5
      if (this.phase === "greeting" && frame.code === UNAUTHORIZED) this.wasUnauthorized = true;
      this.outputs.push({ do: "refused", error: refused(frame) });
    } else if (frame.reference === 2) {
      this.subscriptions.refused(now, frame.id, refused(frame));
    } else if (this.tickets.refused(now, frame)) {
      return;
    } else if (this.tokens.settled(frame.id)) {
      // T4
      this.note(now, "warn", "token_refused", { code: frame.code });
      this.outputs.push({ do: "refused", error: refused(frame) });
      this.renewIfDue();
    } else {
      const wasFenced = this.calls.isFenced;
      if (!this.calls.refuse(now, frame.id, refused(frame))) this.unexpected(now, "error");
      if (this.calls.isFenced && !wasFenced) this.note(now, "error", "fenced");
    }
  }
}
