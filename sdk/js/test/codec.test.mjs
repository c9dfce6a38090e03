// spec/vectors: the client's frames are encoded, the server's decoded, and faults refused.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import fc from "fast-check";
import { CroreError, clientFrames, decode, decodeSlowly, decodeUtf8, epochPart, errorName, checkLength, isWild, matches, parse, proof, show } from "../dist-test/inside.js";
import { bytesOf, hexOf } from "./adapter_shared.mjs";
import { named } from "./frame_names.mjs";
import { spec } from "./places.mjs";

const { plain } = clientFrames;
/** Whether a name has 1 to 255 bytes. */
function hasLength(name) {
  try {
    checkLength(name);
    return true;
  } catch (error) {
    assert.equal(error.name, "InvalidArgument");
    return false;
  }
}

const decodeFrame = (bytes) => named(decode(bytes));

const vectors = (name) => JSON.parse(readFileSync(`${spec}/vectors/${name}.json`, "utf8"));
const optional = (value) => value ?? undefined;
const place = (it) => it && { inEpoch: it.epoch, upTo: Number(it.offset) };

/** Whether a number of the frame is above 2^53: offsets and times are numbers here. */
const isBeyond = (value) =>
  typeof value === "object" && value !== null
    ? Object.entries(value).some(([key, it]) => !/^(epoch|connection|expected_epoch|token)$/.test(key) && isBeyond(it))
    : typeof value === "string" && /^\d{16,}$/.test(value) && Number(value) > Number.MAX_SAFE_INTEGER;

const ENCODERS = {
  hello: (it) =>
    clientFrames.encodeHello(
      optional(it.token),
      optional(it.name),
      it.ticket === null ? undefined : bytesOf(it.ticket),
      it.cursors.flatMap((at) => clientFrames.cursorParts(at.subscription, place(at), optional(at.partition))),
      it.ping_interval_s,
    ),
  subscribe: (it) =>
    plain(2, it.items.length, ...it.items.flatMap((item) => {
      const wanted = { failOnGap: item.fail_on_gap, policy: optional(item.policy) };
      return clientFrames.subscribeItem(item.subscription, item.filter, startParts(item.start), wanted, optional(item.replay_credit));
    })),
  unsubscribe: (it) => plain(3, it.subscriptions.length, ...it.subscriptions),
  publish(it) {
    const fields = {
      topic: it.topic,
      payload: bytesOf(it.payload),
      retain: it.retain,
      contentType: optional(it.content_type),
      tags: it.tags,
      expectedEpoch: optional(it.expected_epoch),
    };
    const { id, sequence } = it.producer ?? {};
    const key = it.idempotency_key === null ? undefined : bytesOf(it.idempotency_key);
    return clientFrames.encodePublish(it.request, fields, id && bytesOf(id), Number(sequence), key);
  },
  history: (it) =>
    clientFrames.encodeHistory(it.request, it.topic, it.reverse, place(optional(it.position)), it.records_max, it.bytes_max),
  credit: (it) => plain(6, it.subscription, it.messages),
  ping: (it) => plain(7, epochPart(it.token)),
  pong: (it) => plain(8, epochPart(it.token)),
  renew: (it) => plain(9, it.request, it.token),
  ticket: (it) => plain(10, it.request),
};

/** Kind and fields of a start. */
function startParts(start) {
  const { placed } = clientFrames;
  if (start.kind === "since") return [1, ...placed(place(start))];
  if (start.kind === "last") return [2, start.count];
  if (start.kind === "since_each") {
    return [4, start.positions.length, ...start.positions.flatMap((it) => [it.partition, ...placed(place(it.position ?? it))])];
  }
  return [start.kind === "snapshot" ? 3 : 0];
}

test("every client frame of the vectors is encoded", () => {
  let count = 0;
  for (const { name, hex, encodes_to: encodesTo, frame } of vectors("client_frames").valid) {
    if (encodesTo === null) continue;
    // Sequences and offsets above 2^53 cannot be asked for.
    if (isBeyond(frame)) continue;
    if (frame.items?.some((item) => item.error)) continue;
    assert.equal(hexOf(ENCODERS[frame.type](frame)), encodesTo ?? hex, name);
    count++;
  }
  assert.ok(count >= 30, `${count} vectors`);
  console.log(`vectors: ${count} client frames encoded`);
});

const text = (number) => String(number);
const optionalNull = (value) => value ?? null;
/** The member is absent where the frame has no lineage. */
const lineageOf = (lineage) => (lineage ? { lineage: Number(lineage) } : {});

const attributes = (message) => ({
  retained: message.retained,
  content_type: optionalNull(message.contentType),
  tags: message.tags,
  payload: hexOf(message.bytes),
});
const reasonOf = (wanted, reason) => (reason === "other" ? wanted : reason);

/** A decoded frame as the vectors write it. */
const SHOWN = {
  welcome: (it) => ({
    connection: String(BigInt(`0x${it.connection}`)),
    ping_interval_s: it.pingIntervalS,
    time_ms: it.timeMs,
    frame_bytes_max: it.frameBytesMax,
    message_bytes_max: it.messageBytesMax,
    subscriptions_per_session_max: it.subscriptionsMax,
    node: optionalNull(it.node),
    resumed: optionalNull(it.resumed),
    ticket_lifetime_s: optionalNull(it.ticketLifetimeS),
  }),
  subscribed(it) {
    const list = it.beginnings.map(({ partition, epoch, through, replaying, continued }) => ({
      ...(partition === undefined ? { alias: it.alias } : { partition }),
      epoch,
      through: text(through),
      replaying,
      continued,
    }));
    const isTopic = it.alias !== undefined;
    return { subscription: it.subscription, topic: isTopic ? list[0] : null, filter: isTopic ? null : list };
  },
  unsubscribed: ({ subscription, code }) => ({ subscription, code }),
  message: ({ alias, message }) => ({
    alias,
    offset: text(message.offset),
    prev: text(message.prev),
    ...attributes(message),
    ...lineageOf(message.epoch),
  }),
  named_message: ({ subscription, lineage, message }) => ({
    topic: message.topic,
    partition: message.partition,
    epoch: message.epoch,
    offset: text(message.offset),
    prev: text(message.prev),
    subscription: optionalNull(subscription),
    ...attributes(message),
    ...lineageOf(lineage),
  }),
  caught_up: (it) => ({
    subscription: it.subscription,
    through: text(it.through),
    partition: optionalNull(it.partition),
    ...lineageOf(it.lineage),
  }),
  gap: (it, wanted) => ({
    subscription: it.subscription,
    partition: optionalNull(it.partition),
    epoch: it.epoch,
    from: text(it.from),
    to: text(it.to),
    reason: reasonOf(wanted.reason, it.reason),
  }),
  skipped: (it, wanted) => ({
    subscription: it.subscription,
    partition: it.partition === undefined ? null : { partition: it.partition, epoch: it.epoch },
    from: text(it.from),
    through: text(it.through),
    reason: reasonOf(wanted.reason, it.reason),
    ...lineageOf(it.lineage),
  }),
  published: (it) => ({ request: it.request, epoch: it.epoch, offset: text(it.offset), duplicate: it.duplicate }),
  history_page: (it, wanted) => ({
    request: it.request,
    reverse: it.reverse,
    more: it.more,
    epoch: it.epoch,
    head: text(it.head),
    gap: it.gap ? { from: text(it.gap.from), to: text(it.gap.to), reason: reasonOf(wanted.gap.reason, it.gap.reason) } : null,
    records: it.messages.map((message) => ({
      offset: text(message.offset),
      prev: text(message.prev),
      time_ms: text(message.time),
      ...attributes(message),
    })),
  }),
  error: (it) => ({
    reference: { kind: ["connection", "request", "subscription"][it.reference], id: it.id },
    code: it.code,
    temporary: it.temporary,
    message: it.message,
    restart: it.restart ? { epoch: it.restart.epoch, offset: text(it.restart.offset) } : null,
    limit: it.limit ?? null,
  }),
  go_away: (it) => ({
    code: it.code,
    return_after_ms: it.returnAfterMs,
    urls: it.urls,
    ticket: it.ticket ? hexOf(it.ticket) : null,
  }),
  ticket_issued: (it) => ({ request: it.request, expires_ms: it.expiresMs, ticket: hexOf(it.ticket) }),
  renewed: (it) => ({ request: it.request, expires_ms: it.expiresMs }),
  token_expires: (it) => ({ expires_ms: it.expiresMs }),
  ping: ({ token }) => ({ token }),
  pong: ({ token }) => ({ token }),
};

/** Bounds and times are numbers, so those above 2^53 are compared as numbers. */
const BOUNDS = ["time_ms", "frame_bytes_max", "message_bytes_max", "return_after_ms", "expires_ms", "limit"];
function spelled(value, key) {
  if (Array.isArray(value)) return value.map((it) => spelled(it));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, spelled(it, key)]));
  }
  return BOUNDS.includes(key) && value !== null ? Number(value) : value;
}

test("every server frame of the vectors is decoded", () => {
  let count = 0;
  let refused = 0;
  for (const { name, hex, frame } of vectors("server_frames").valid) {
    const { type, ...wanted } = spelled(frame);
    let decoded;
    try {
      decoded = decodeFrame(bytesOf(hex));
    } catch (error) {
      assert.ok(isBeyond(wanted) && error.name === "malformed_varint", `${name}: ${error.message}`);
      refused++;
      continue;
    }
    assert.equal(decoded.type, type, name);
    assert.deepEqual(withPartition(spelled(SHOWN[type](decoded, wanted))), withPartition(wanted), name);
    count++;
  }
  assert.ok(count >= 40 && refused <= 6, `${count} decoded, ${refused} refused`);
  console.log(`vectors: ${count} server frames decoded, ${refused} refused for a number above 2^53`);
});

/** Vectors leave the partition of a topic's frame out, or say null. */
function withPartition(frame) {
  return { partition: null, ...frame };
}

test("every malformed server frame of the vectors is refused by its name", () => {
  const cases = vectors("server_frames").invalid;
  for (const { name, hex, error } of cases) {
    assert.throws(
      () => decodeFrame(bytesOf(hex)),
      (thrown) => thrown instanceof CroreError && errorName(thrown.code) === error,
      name,
    );
  }
  console.log(`vectors: ${cases.length} malformed frames refused`);
});

test("topics and filters of the vectors match as the server does", () => {
  const { topics, matching: pairs } = vectors("topics");
  for (const { topic, valid } of topics) if (valid) assert.ok(hasLength(topic) && !isWild(topic), topic);
  assert.ok(pairs.length > 10);
  for (const { filter, topic, matches: wanted } of pairs) {
    assert.equal(matches(filter, topic), wanted, `${filter} ${topic}`);
  }
});

test("the proof reports what the vectors say", () => {
  const { cases } = vectors("proof");
  for (const { name, start, steps, end } of cases) {
    const at = { settled: start.kind === "since" ? place(start) : undefined };
    for (const { hex, events } of steps) {
      const frame = decodeFrame(bytesOf(hex));
      const came = [];
      const lost = ([from, to]) => came.push({ event: "lost", from: from.upTo, to: to.upTo });
      const before = proof.cursorOf(at);
      if (frame.type === "subscribed") {
        const { epoch, through, continued } = frame.beginnings[0];
        proof.begin(at, { inEpoch: epoch, upTo: through }, continued);
      } else if (frame.type === "message") {
        const verdict = proof.advance(at, frame.message.prev, frame.message.offset);
        if (verdict === false) came.push({ event: "repeated", offset: frame.message.offset });
        else {
          if (verdict !== true) lost(verdict);
          came.push({ event: "message", offset: frame.message.offset });
        }
      } else if (frame.type === "gap") {
        const from = proof.announced(at, { inEpoch: frame.epoch, upTo: frame.to });
        came.push({ event: "gap", from: from.upTo, to: frame.to });
      } else if (frame.type === "skipped") {
        const hole = proof.leftOut(at, frame.from, frame.through);
        if (hole) lost(hole);
        came.push({ event: "skipped", from: (hole ? hole[1] : before).upTo, to: frame.through });
      } else if (frame.type === "caught_up") {
        const hole = proof.caughtUp(at, frame.through);
        if (hole) lost(hole);
      }
      const short = (it) => `${it.event} ${it.offset ?? ""} ${it.event === "skipped" ? "" : it.from ?? ""} ${it.to ?? ""}`;
      assert.deepEqual(came.map(short), events.map(short), `${name}: ${hex}`);
    }
    const { inEpoch, upTo } = proof.cursorOf(at);
    assert.deepEqual({ epoch: inEpoch, through: text(upTo) }, end, name);
  }
  console.log(`vectors: ${cases.length} proofs`);
});

test("bytes of any kind are a frame or a CroreError, never anything else", () => {
  const types = [7, 8, ...Array.from({ length: 15 }, (_, at) => 0x81 + at)];
  const frame = fc.tuple(fc.constantFrom(...types), fc.uint8Array({ maxLength: 64 }));
  const seeds = vectors("server_frames").valid.map(({ hex }) => bytesOf(hex));
  const mutated = fc.tuple(fc.constantFrom(...seeds), fc.nat(), fc.nat(255), fc.nat()).map(([seed, at, byte, cut]) => {
    const bytes = seed.slice(0, cut % 3 === 0 ? cut % (seed.length + 1) : seed.length);
    if (bytes.length) bytes[at % bytes.length] = byte;
    return bytes;
  });
  const check = (bytes) => {
    try {
      decodeFrame(bytes);
    } catch (error) {
      if (!(error instanceof CroreError)) throw error;
    }
  };
  const numRuns = Number(process.env.FUZZ_RUNS ?? 30_000);
  fc.assert(fc.property(frame, ([type, rest]) => check(Uint8Array.of(type, ...rest))), { numRuns });
  fc.assert(fc.property(mutated, check), { numRuns });
});

test("UTF-8 without the platform's coder is the same", () => {
  const encoder = new TextEncoder();
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  fc.assert(fc.property(fc.string({ unit: "binary" }), (it) => {
    assert.equal(decodeSlowly(encoder.encode(it)), decoder.decode(encoder.encode(it)));
  }));
  fc.assert(fc.property(fc.uint8Array({ maxLength: 8 }), (bytes) => {
    const outcome = (decode) => {
      try {
        return decode(bytes);
      } catch (error) {
        return error instanceof Error;
      }
    };
    const wanted = outcome((it) => decoder.decode(it));
    assert.equal(outcome(decodeSlowly), wanted);
    assert.equal(outcome(decodeUtf8), wanted);
  }), { numRuns: 5_000 });
});

test("positions are texts, and lengths are bytes", () => {
  assert.deepEqual(parse("7:42"), { inEpoch: "7", upTo: 42 });
  assert.equal(show(parse("18446744073709551615:9007199254740991")), "18446744073709551615:9007199254740991");
  for (const bad of ["", "7", "7:", ":1", "7:42 ", "07:1", "7:-1", "a:1", "7:9007199254740992"]) assert.equal(parse(bad), undefined, bad);
  assert.ok(hasLength("a") && hasLength("a".repeat(255)) && hasLength("ä".repeat(127)));
  assert.ok(!hasLength("") && !hasLength("a".repeat(256)) && !hasLength("ä".repeat(128)));
});
