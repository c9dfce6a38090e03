/** R3 to R10: resume tickets. A ticket only saves time: the cursors decide what is a repeat. */

import type { ResumeCursor } from "../codec/client.js";
import type { ErrorFrame, Welcome } from "../codec/server.js";
import type { CoreSubscription } from "./subscription.js";

const ASK_DELAY_MS = 1_000;
const RETRY_DELAY_MS = 60_000;
/** R10: HELLO stays below 32 KiB with ticket and token. */
const CURSORS_MAX = 250;
const TICKET_BYTES_MAX = 16 * 1024;

interface Held {
  ticket: Uint8Array;
  expiresAt: number;
  renewAt: number;
  covers: Set<number>;
}

export class Tickets {
  held: Held | undefined;
  /** The request on the wire. */
  asked: number | undefined;
  askAt: number | undefined;
  wasPresented = false;
  private lifetimeMs = 0;
  private notBefore = 0;
  /** The server's clock minus the own one. */
  private clockMs = 0;

  connectionLost(): void {
    this.asked = this.askAt = undefined;
    this.lifetimeMs = this.notBefore = 0;
    this.wasPresented = false;
  }

  /** A time of the server by the own clock. */
  local(serverMs: number): number {
    return serverMs - this.clockMs;
  }

  /** Whether this connection's ticket has restored the subscription. */
  brings(number: number): boolean {
    return this.wasPresented && this.held !== undefined && this.held.covers.has(number);
  }

  /** The ticket and the cursors for HELLO, if a ticket may hold: R4, R7, R10. */
  present(
    now: number,
    byNumber: ReadonlyMap<number, CoreSubscription>,
  ): { ticket: Uint8Array; cursors: ResumeCursor[]; covers: Set<number> } | undefined {
    const held = this.held;
    if (!held) return undefined;
    const cursors: ResumeCursor[] = [];
    for (const subscription of held.covers) {
      const it = byNumber.get(subscription);
      if (!it || it.isPaused || now >= held.expiresAt) {
        this.held = undefined;
        return undefined;
      }
      const cursor = it.proof.cursor;
      if (cursor) cursors.push({ subscription, partition: undefined, ...cursor });
      for (const [partition, place] of it.cursors.places) cursors.push({ subscription, partition, ...place });
    }
    if (cursors.length > CURSORS_MAX || now >= held.expiresAt) return undefined;
    this.wasPresented = true;
    return { ticket: held.ticket, cursors, covers: held.covers };
  }

  /** WELCOME: the subscriptions that must be asked for although the ticket should hold them. */
  welcomed(now: number, frame: Welcome): Set<number> | undefined {
    this.lifetimeMs = (frame.ticketLifetimeS ?? 0) * 1_000;
    this.clockMs = frame.timeMs - now;
    const covers = this.held?.covers;
    if (!this.wasPresented || !covers) return undefined;
    if (frame.resumed === undefined) this.held = undefined; // R5
    else if (frame.resumed === covers.size) return undefined; // R6
    return covers;
  }

  /** The application has changed its subscriptions. */
  changed(now: number): void {
    if (this.askAt !== undefined) this.askAt = now + ASK_DELAY_MS;
  }

  /** Plans the next request: R3. */
  plan(now: number, active: readonly CoreSubscription[]): void {
    if (!this.lifetimeMs || this.asked !== undefined || !active.length) return;
    const held = this.held;
    const isCovered =
      held !== undefined && held.covers.size === active.length && active.every((it) => held.covers.has(it.number));
    const at = Math.max(isCovered ? held.renewAt : 0, now + ASK_DELAY_MS, this.notBefore);
    this.askAt = Math.min(this.askAt ?? Infinity, at);
  }

  /** Whether the planned time has come; then nothing is planned. */
  isDue(now: number): boolean {
    if (this.askAt === undefined || now < this.askAt) return false;
    this.askAt = undefined;
    return true;
  }

  hold(now: number, ticket: Uint8Array, expiresAt: number, active: readonly CoreSubscription[]): void {
    this.asked = undefined;
    if (ticket.length > TICKET_BYTES_MAX) return;
    const renewAt = expiresAt === Infinity ? 0 : now + Math.max(0, expiresAt - now) / 2;
    const covers = new Set(active.filter((it) => it.isGranted).map((it) => it.number));
    this.held = { ticket, expiresAt, renewAt, covers };
  }

  /** Whether an error refuses the request for a ticket. */
  refused(now: number, frame: ErrorFrame): boolean {
    if (this.asked === undefined || this.asked !== frame.id) return false;
    this.asked = undefined;
    if (frame.temporary) this.notBefore = now + RETRY_DELAY_MS;
    else this.lifetimeMs = 0;
    return true;
  }
}
