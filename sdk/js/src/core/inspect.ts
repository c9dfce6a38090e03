/** X6: what `inspect()` of the surface shows; no token, ticket or payload. */

import { inFlight } from "./calls.js";
import type { Core } from "./state.js";
import { reportOf } from "./subscription.js";

export const inspect = (core: Core): Record<string, unknown> => ({
    state: core.shown,
    roundTripMs: core.roundTripMs,
    subscriptions: Array.from(core.byFilter.values(), (it) => ({
      topic: it.pattern,
      granted: it.isGranted,
      paused: it.isPaused,
      buffered: it.count,
      bufferedBytes: it.heldBytes,
      ...reportOf(it),
    })),
    queue: { waiting: core.unsent.size, sent: inFlight(core), once: core.onceCount, onceBytes: core.keptBytes },
    counters: { ...core.counters },
    events: core.events.slice(),
  });
