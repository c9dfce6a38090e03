/** R3 to R10: resume tickets. A ticket only saves time: the cursors decide what is a repeat. */

import type { Part } from "../codec/bytes.js";
import { Plain, cursorParts } from "../codec/client.js";
import { cursorOf } from "./proof.js";
import { mayRequest, nextRequest, send, type Core, type Held } from "./state.js";
import { active } from "./subscriptions.js";

/** Numbers of the rules; they are inlined. */
const enum Limit {
  AskDelayMs = 1_000,
  /** R10: HELLO stays below 32 KiB with ticket and token. */
  CursorsMax = 250,
  TicketBytesMax = 16 * 1024,
}

/** Whether this connection's ticket has restored the subscription. */
export const brings = (core: Core, number: number): boolean => !!core.wasPresented && !!core.held?.covers.has(number);

/** The cursors to HELLO's ticket, if a ticket may hold: R4, R7, R10. */
export const present = (core: Core): Part[] | undefined => {
  const { held } = core;
  if (!held) return undefined;
  const cursors: Part[] = [];
  for (const subscription of held.covers) {
    const it = core.byNumber.get(subscription);
    if (!it || it.isPaused) return (core.held = undefined);
    const cursor = cursorOf(it);
    if (cursor) cursors.push(...cursorParts(subscription, cursor));
    it.cursors.forEach((place, partition) => cursors.push(...cursorParts(subscription, place, partition)));
  }
  if (core.nowMs >= held.expiresAt || cursors.length > Limit.CursorsMax * 4) return undefined;
  core.wasPresented = true;
  return cursors;
};

/** The application has changed its subscriptions. */
export const ticketChanged = (core: Core): void => {
  if (core.ticketAt < Infinity) core.ticketAt = core.nowMs + Limit.AskDelayMs;
};

/** Plans the next request: R3. */
export const planTicket = (core: Core): void => {
  if (!core.ticketMs || core.ticketRequest || !mayRequest(core)) return;
  const list = active(core);
  if (!list.length) return;
  const { held } = core;
  const isCovered = held?.covers.size === list.length && list.every((it) => held.covers.has(it.number));
  const at = Math.max(isCovered ? held.renewAt : 0, core.nowMs + Limit.AskDelayMs, core.ticketNotBefore);
  core.ticketAt = Math.min(core.ticketAt, at);
};

/** Asks for a ticket if the planned time has come. */
export const askTicketIfDue = (core: Core): void => {
  if (core.nowMs < core.ticketAt) return;
  core.ticketAt = Infinity;
  const list = active(core);
  if (!list.length || !list.every((it) => it.isGranted)) return;
  send(core, Plain.Ticket, (core.ticketRequest = nextRequest(core)));
};

/** Keeps a ticket of the server, for what is granted now. */
export const holdTicket = (core: Core, ticket: Uint8Array, expiresAt: number): void => {
  core.ticketRequest = undefined;
  if (ticket.length > Limit.TicketBytesMax) return;
  const renewAt = expiresAt < Infinity ? core.nowMs + Math.max(0, expiresAt - core.nowMs) / 2 : 0;
  const granted = active(core).filter((it) => it.isGranted);
  core.held = { ticket, expiresAt, renewAt, covers: new Set(granted.map((it) => it.number)) } satisfies Held;
};
