// The adapter of core mode: the core without sockets, in virtual time.
import { parse } from "../dist-test/inside.js";
import { Core } from "./core_driver.mjs";
import { named } from "./frame_names.mjs";
import { NEEDS, bytesOf, errorEffect, hexOf, itemEffect, messageFields, startOf } from "./adapter_shared.mjs";

/** `handshakeFrames`: the first frames go with the handshake. */
export function coreAdapter(handshakeFrames = false) {
  let core, now, tokens, labels, calls, isManual, effects;

  const acts = {
    start({ options, random }) {
      now = 0;
      labels = new Map();
      calls = new Map();
      tokens = options.tokens?.slice();
      isManual = options.buffer !== undefined;
      const { base_ms = 500, max_ms = 30_000, reset_after_ms = 10_000 } = options.backoff ?? {};
      core = new Core({
        urls: options.urls,
        token: tokens ? () => {} : options.token,
        name: options.name,
        producerId: options.producer_id ? bytesOf(options.producer_id) : new Uint8Array(16).fill(7),
        backoff: { base: base_ms, max: max_ms, resetAfter: reset_after_ms },
        buffer: { items: options.buffer?.items },
        handshakeFrames,
        random: () => (random.length > 1 ? random.shift() : random[0]),
      });
      core.start(now);
    },
    stop: () => (core = undefined),
    subscribe(command) {
      const options = {
        start: startOf(command.start),
        failOnGap: command.fail_on_gap ?? false,
        policy: command.policy,
        overflow: command.overflow,
      };
      labels.set(command.as, core.subscribe(now, command.topic, options));
    },
    unsubscribe: ({ as }) => core.unsubscribe(now, labels.get(as)),
    publish(command) {
      const once = command.once ?? false;
      const input = {
        topic: command.topic,
        payload: bytesOf(command.payload ?? ""),
        retain: command.retain ?? false,
        contentType: command.content_type ?? undefined,
        tags: command.tags ?? [],
        expectedEpoch: command.expected_epoch == null ? undefined : String(command.expected_epoch),
        once: once === true || once === false ? once : bytesOf(once.key),
        timeout: command.timeout_ms ?? undefined,
      };
      calls.set(core.publish(now, input), command.as);
    },
    history({ as, topic, position, reverse, limit }) {
      const place = position ? parse(position) : undefined;
      calls.set(core.history(now, topic, place, reverse ?? false, limit ?? 0), as);
    },
    renew: ({ token }) => core.renew(token),
    read({ as, items }) {
      const it = labels.get(as);
      effects.push(...core.take(now, it, items).map((item) => itemEffect(as, item)));
    },
    close: ({ drain_ms }) => core.close(now, drain_ms ?? 5_000),
    opened: () => core.opened(now),
    failed: ({ status, retry_after_s }) => core.failed(now, status ?? undefined, retry_after_s ?? undefined),
    received: ({ hex, text }) => core.received(now, text ?? bytesOf(hex)),
    closed: ({ code }) => core.closed(now, code),
    time({ now_ms }) {
      now = now_ms;
      core.tick(now);
    },
  };

  /** Turns the core's outputs into effects. */
  function drain() {
    for (let rounds = 0; core && core.outputs.length; rounds++) {
      if (rounds > 1000) throw new Error("the core spins");
      for (const output of core.outputs.splice(0)) {
        if (output.do === "connect") effects.push({ connect: output.url, early: output.early.map(hexOf) });
        else if (output.do === "send") effects.push({ send: hexOf(output.bytes) });
        else if (output.do === "close") effects.push({ close: output.code });
        else if (output.do === "state") effects.push({ ...output.state });
        else if (output.do === "token") {
          effects.push({ token: output.reason });
          core.token(now, output.id, tokens.shift());
        } else if (output.do === "settle") settle(output);
        else if (output.do === "items") items(output.of);
      }
    }
  }

  function settle({ call, error, value }) {
    const as = calls.get(call);
    if (error) effects.push(errorEffect(as, error));
    else if (Array.isArray(value)) {
      const { more, gap, messages } = named(value);
      const shown = gap && { from: gap.from, to: gap.to, cause: gap.reason };
      effects.push({ answer: as, messages: messages.map(messageFields), more, gap: shown ?? null });
    } else effects.push({ answer: as, published: value.position, duplicate: value.duplicate });
  }

  function items(it) {
    const as = [...labels].find((entry) => entry[1] === it)?.[0];
    if (!isManual) for (const item of core.take(now, it, Infinity)) effects.push(itemEffect(as, item));
    const error = it.end?.error;
    if (error?.code !== undefined) {
      effects.push({ item: as, kind: "ended", code: error.code, restart: error.restart ?? null });
    }
  }

  return (command) => {
    if (command.do === "hello") return { needs: NEEDS };
    effects = [];
    let report;
    if (command.do === "report") report = core.report(labels.get(command.as));
    else {
      try {
        acts[command.do](command);
      } catch (error) {
        if (error.name === undefined || error.temporary === undefined) throw error;
        effects.push(errorEffect(command.as, error));
      }
    }
    drain();
    return { effects, timer: core?.wakeAt ?? null, report };
  };
}
