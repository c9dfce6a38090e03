// Rules that no scenario shows, on the core in virtual time.
import assert from "node:assert/strict";
import test from "node:test";
import { bytesOf, hexOf } from "./adapter_shared.mjs";
import { Core } from "./core_driver.mjs";

/** WELCOME of a server that wants a sign of life every 25 seconds. */
const WELCOME = "81000101000000000000001900808040808040ff07";

function started(settings = {}) {
  const core = new Core({ urls: ["ws://node.test/crore"], producerId: new Uint8Array(16), ...settings });
  core.start(0);
  return core;
}

/** The outputs since the last call, as short texts. */
const taken = (core) => core.outputs.splice(0).filter((it) => ["send", "close", "connect"].includes(it.do)).map((it) => `${it.do} ${it.bytes ? hexOf(it.bytes) : it.code ?? it.url}`);

/** A live client. */
function live() {
  const core = started();
  core.opened(0);
  core.received(0, bytesOf(WELCOME));
  assert.equal(core.state.state, "live");
  taken(core);
  return core;
}

const PATIENCE = 35_000;

test("L2: silence is answered by one PING, and silence after it ends the connection", () => {
  const core = live();
  assert.equal(core.wakeAt, PATIENCE);
  core.tick(PATIENCE);
  assert.match(taken(core).join(), /^send 0700/);
  assert.equal(core.wakeAt, 2 * PATIENCE);
  core.tick(2 * PATIENCE);
  assert.deepEqual(taken(core), ["close 1006"]);
  assert.equal(core.state.reason, "idle");
});

test("L5: a timer that slept sends PING and grants a whole deadline", () => {
  // It slept before the PING was due.
  const core = live();
  core.tick(1_000_000);
  assert.match(taken(core).join(), /^send 0700/);
  assert.equal(core.wakeAt, 1_000_000 + PATIENCE);
  // It slept while the PING waited for its answer.
  core.tick(5_000_000);
  assert.match(taken(core).join(), /^send 0700/);
  assert.equal(core.state.state, "live");
  core.received(5_000_001, bytesOf("080000"));
  core.tick(5_000_000 + PATIENCE - 1);
  assert.deepEqual(taken(core), []);
  assert.equal(core.state.state, "live");
});

test("an event of the platform checks the connection, and ends a wait", () => {
  const core = live();
  core.probe(10);
  assert.match(taken(core).join(), /^send 0700/);
  core.tick(3_010);
  assert.deepEqual(taken(core), ["close 1006"]);
  assert.equal(core.state.reason, "idle");
  core.probe(3_011);
  assert.deepEqual(taken(core), ["connect ws://node.test/crore"]);
});

test("C11: an offset above 2^53 cannot be decoded", () => {
  const core = live();
  core.received(5, bytesOf("8400" + "05" + "ffffffffffffffffff01" + "01"));
  assert.deepEqual(taken(core), ["close 1002"]);
  assert.equal(core.state.reason, "protocol");
});

test("R10: with more than 250 cursors, or a ticket above 16 KiB, HELLO has no ticket", () => {
  const live = {};
  for (const [filters, ticketBytes, hasTicket] of [[1, 6, true], [260, 6, false], [1, 16 * 1024 + 1, false]]) {
    const core = started();
    const varint = (number) => (number > 127 ? [(number & 127) | 128, ...varint(number >> 7)] : [number]);
    const subscriptions = Array.from({ length: filters }, (_, at) => core.subscribe(0, `a/${at}/#`, live));
    core.opened(0);
    // WELCOME with a lifetime of tickets.
    core.received(0, bytesOf("818001010000000000000019008080408080" + "40ff07" + "01" + "0e02d804"));
    for (const { number } of subscriptions) core.received(0, Uint8Array.of(0x82, 1, ...varint(number), 1, 0, 0, 7, 42));
    core.tick(1_000);
    const asked = core.outputs.splice(0).filter((it) => it.do === "send" && it.bytes[0] === 10).at(-1).bytes;
    const ticket = new Uint8Array(ticketBytes).fill(0x2e);
    core.received(1_000, Uint8Array.of(0x8e, 0, ...asked.slice(2), ...varint(100_000), ...varint(ticketBytes), ...ticket));
    core.closed(1_000, 1006);
    core.tick(60_000);
    core.outputs.length = 0;
    core.opened(60_000);
    const sent = core.outputs.filter((it) => it.do === "send").map((it) => it.bytes);
    assert.equal(hexOf(sent[0]).includes("2e2e2e2e2e2e"), hasTicket);
    assert.equal(sent.length > 1, !hasTicket, "SUBSCRIBE follows a HELLO without a ticket");
    assert.ok(sent.every((bytes) => bytes.length < 32 * 1024));
  }
});

test("U15: while the socket has too many unsent bytes, publications wait and PONG does not", () => {
  const core = live();
  core.isBlocked = true;
  core.publish(1, { topic: "a", payload: new Uint8Array(1), retain: false, contentType: undefined, tags: [], expectedEpoch: undefined, once: false, timeout: undefined });
  core.received(1, bytesOf("070007"));
  assert.deepEqual(taken(core), ["send 080007"]);
  core.isBlocked = false;
  core.tick(2);
  assert.match(taken(core).join(), /^send 04/);
});

test("T9: a call of the source has ten seconds, and a late result is dropped", () => {
  const core = started({ token: () => {} });
  const [{ id, reason }] = core.outputs.splice(0).filter((it) => it.do === "token");
  assert.equal(reason, "first");
  assert.equal(core.wakeAt, 10_000);
  core.tick(10_000);
  assert.equal(core.state.reason, "token");
  core.token(10_001, id, "late");
  assert.deepEqual(taken(core), []);
  core.tick(10_250);
  assert.equal(core.outputs.splice(0).filter((it) => it.do === "token").length, 1);
});

test("X1: a token that comes after the close, or an error in its place, opens nothing", () => {
  for (const late of [(core, id) => core.token(2, id, "late"), (core, id) => core.tokenFailed(2, id)]) {
    const core = started({ token: () => {} });
    const { id } = core.outputs.find((it) => it.do === "token");
    core.close(0, 0);
    core.tick(1);
    assert.equal(core.state.state, "closed");
    core.outputs.length = 0;
    late(core, id);
    assert.deepEqual(core.outputs, []);
    assert.equal(core.wakeAt, undefined);
  }
});

/** The types of the frames that go with the next handshake. */
const early = (core) => core.outputs.splice(0).find((it) => it.do === "connect").early.map(([type]) => type);

test("C2: the first frames go with the handshake and not again, and what changes meanwhile follows", () => {
  const core = started({ handshakeFrames: true, token: "first" });
  assert.deepEqual(early(core), [1]);
  core.opened(0);
  assert.deepEqual(taken(core), []);
  core.received(0, bytesOf(WELCOME));
  const ended = core.subscribe(0, "a");
  core.subscribe(0, "kept");
  core.closed(0, 1006);
  // After an attempt that failed with frames the next one goes without, the one after it with them.
  for (const frames of [[1, 2], [], [1, 2]]) {
    core.outputs.length = 0;
    core.tick(core.wakeAt);
    assert.deepEqual(early(core), frames);
    core.failed(0);
  }
  core.tick(core.wakeAt);
  core.failed(0);
  core.outputs.length = 0;
  core.tick(core.wakeAt);
  assert.deepEqual(early(core), [1, 2]);
  const { number } = ended;
  core.unsubscribe(0, ended);
  const again = core.subscribe(0, "a");
  core.renew("second");
  assert.deepEqual(taken(core), []);
  core.opened(0);
  assert.deepEqual(taken(core), [`send 03000${1}0${number}`, `send 02000${1}0${again.number}00016100`]);
  core.received(0, bytesOf(WELCOME));
  const [renewal] = taken(core);
  assert.match(renewal, /^send 09/);
  assert.ok(renewal.endsWith(hexOf(new TextEncoder().encode("second"))));
});

test("C2: more than 8 KiB follow the handshake", () => {
  const core = started({ handshakeFrames: true });
  core.opened(0);
  core.received(0, bytesOf(WELCOME));
  for (let number = 0; number < 40; number++) core.subscribe(0, String(number).padStart(250, "0"));
  core.closed(0, 1006);
  core.outputs.length = 0;
  core.tick(core.wakeAt);
  assert.deepEqual(early(core), []);
  core.opened(0);
  assert.match(taken(core).join(), /^send 01.*,send 02.*/);
});

test("C6: a refusal of the long head is repeated without the frames, and final without them", () => {
  const core = started({ handshakeFrames: true });
  for (const [frames, state] of [[[1], "waiting"], [[], "closed"]]) {
    assert.deepEqual(early(core), frames);
    core.failed(0, 431);
    assert.equal(core.state.state, state);
    core.outputs.length = 0;
    core.tick(core.wakeAt ?? 0);
  }
});
