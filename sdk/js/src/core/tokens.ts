/** T: the token, and the calls of its source. */

import { Plain } from "../codec/client.js";
import type { TokenReason } from "../state.js";
import { backOff, delay, after, leave, open, terminate, wait } from "./connection.js";
import { Phase, nextRequest, send, type Core } from "./state.js";

/** Numbers of the rules; they are inlined. */
const enum Limit {
  SourceMsMax = 10_000, // T9
}

/** Calls the source, unless it is being called; `forAttempt`: the next attempt waits for it. */
export const askSource = (core: Core, reason: TokenReason, forAttempt: boolean): void => {
  if (core.asked && !forAttempt) return;
  const id = ++core.lastAsked;
  core.asked = { id, why: reason, forAttempt, endsAt: core.nowMs + Limit.SourceMsMax };
  core.needed = undefined;
  core.askToken(id, reason);
};

/** The call of the source with this id, if its result is still of use. */
const returned = (core: Core, id: number): Core["asked"] => {
  const { asked } = core;
  if (asked?.id !== id) return undefined;
  core.asked = undefined;
  return asked;
};

/** The token source has answered; T2, T5, T7. */
export const sourceAnswered = (core: Core, id: number, token: string | undefined): void => {
  const asked = returned(core, id);
  if (!asked) return;
  const isNew = token !== undefined && token !== core.bearer;
  if (asked.forAttempt) {
    if (asked.why === "refused" && !isNew) return terminate(core, core.lastEnd);
    core.bearer = token ?? core.bearer;
    open(core);
  } else if (isNew) renew(core, token);
  after(core);
};

/** The token source has thrown; T9. */
export const sourceFailed = (core: Core, id: number, isUnauthorized: boolean): void => {
  const asked = returned(core, id);
  if (!asked) return;
  if (isUnauthorized) leave(core, "token");
  else if (asked.forAttempt) {
    core.needed = asked.why;
    wait(core, { reason: "token" }, backOff(core, 0));
  } else core.askAt = core.nowMs + delay(core, core.askFailures++);
};

/** T3, T6: continues with another token, on this connection and on all further ones. */
export const renew = (core: Core, token: string): void => {
  if (token === core.bearer) return;
  core.bearer = token;
  core.isRenewalDue = core.phase >= Phase.Greeting || !!core.early;
  renewIfDue(core);
};

/** One renewal at a time. */
export const renewIfDue = (core: Core): void => {
  if (core.phase !== Phase.Ready || !core.isRenewalDue || core.renewal) return;
  core.isRenewalDue = false;
  send(core, Plain.Renew, (core.renewal = nextRequest(core)), core.bearer!);
};

/** The answer to a renewal; false if there is none. */
export const renewalSettled = (core: Core, request: number): boolean => {
  if (core.renewal !== request) return false;
  core.renewal = undefined;
  return true;
};
