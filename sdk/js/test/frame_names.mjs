// Frames of the codec have their fields by place; the vectors and the scenarios by name.
const TYPES = [
  "welcome", "subscribed", "unsubscribed", "message", "named_message", "caught_up", "gap", "skipped", "published",
  "history_page", "error", "go_away", "renewed", "ticket_issued", "token_expires",
];
const GAPS = ["evicted", "unknown_epoch", "beyond_head", "history_limit", "damaged"];
const SKIPS = [, "conflated", , "dropped"];
const gapOf = (from, to, reason) => ({ from, to, reason: GAPS[reason] ?? "other" });

const FIELDS = {
  welcome: ([, , , connection, pingIntervalS, timeMs, frameBytesMax, messageBytesMax, subscriptionsMax, it]) => ({
    connection, pingIntervalS, timeMs, frameBytesMax, messageBytesMax, subscriptionsMax, node: it[6], resumed: it[12], ticketLifetimeS: it[14],
  }),
  subscribed: ([, , subscription, alias, beginnings]) => ({
    subscription,
    alias,
    beginnings: beginnings.map(([flags, partition, epoch, through]) => ({
      partition: alias === undefined ? partition : undefined, epoch, through, replaying: (flags & 2) > 0, continued: (flags & 4) > 0,
    })),
  }),
  unsubscribed: ([, , subscription, code]) => ({ subscription, code }),
  message: ([, , alias, message]) => ({ alias, message }),
  named_message: ([, , subscription, lineage, message]) => ({ subscription, lineage, message }),
  caught_up: ([, , subscription, partition, through, it]) => ({ subscription, partition, through, lineage: it[18] }),
  gap: ([, , subscription, partition, epoch, ...rest]) => ({ subscription, partition, epoch, ...gapOf(...rest) }),
  skipped: ([, , subscription, partition, epoch, from, through, reason, it]) => ({
    subscription, partition, epoch, from, through, reason: SKIPS[reason] ?? "other", lineage: it[18],
  }),
  published: ([, flags, request, epoch, offset]) => ({ request, epoch, offset, duplicate: (flags & 1) > 0 }),
  history_page: ([, flags, request, epoch, head, from, to, reason, , messages]) => ({
    request, reverse: (flags & 1) > 0, more: (flags & 2) > 0, epoch, head, messages, gap: from === undefined ? undefined : gapOf(from, to, reason),
  }),
  error: ([, flags, reference, id, code, message, epoch, offset, limit]) => ({
    reference, id, code, temporary: (flags & 1) > 0, message, limit, restart: epoch === undefined ? undefined : { epoch, offset },
  }),
  go_away: ([, , code, returnAfterMs, it, urls]) => ({ code, returnAfterMs, urls, ticket: it[8] }),
  renewed: ([, , request, expiresMs]) => ({ request, expiresMs }),
  ticket_issued: ([, , request, expiresMs, ticket]) => ({ request, expiresMs, ticket }),
  token_expires: ([, , expiresMs]) => ({ expiresMs }),
};

/** A decoded frame with names. */
export function named(frame) {
  const [type] = frame;
  if (type < 0x81) return { type: type === 7 ? "ping" : "pong", token: frame[2] };
  const name = TYPES[type - 0x81];
  return { type: name, ...FIELDS[name](frame) };
}
