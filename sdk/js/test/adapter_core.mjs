// The adapter of core mode: the core without sockets, in virtual time.
import { Core, parse } from "../dist-test/inside.js";
import { NEEDS, bytesOf, errorEffect, hexOf, itemEffect, messageFields } from "./adapter_shared.mjs";

/** The policies' numbers. */
const POLICIES = ["replay", "conflate", "drop", "disconnect"];

export function startOf(start = { kind: "live" }) {
  start ??= { kind: "live" };
  if (start.kind === "since") return { kind: "since", ...parse(start.position) };
  if (start.kind === "since_each") {
    return { kind: "since_each", positions: start.positions.map((it) => ({ partition: it.partition, ...parse(it.position) })) };
  }
  return start;
}

export function coreAdapter() {
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
        token: options.token,
        hasTokenSource: tokens !== undefined,
        name: options.name,
        producerId: options.producer_id ? bytesOf(options.producer_id) : new Uint8Array(16).fill(7),
        backoff: { baseMs: base_ms, maxMs: max_ms, resetAfterMs: reset_after_ms },
        bufferItems: options.buffer?.items ?? 1024,
        bufferBytes: 1 << 20,
        random: () => (random.length > 1 ? random.shift() : random[0]),
        logs: false,
      });
      core.start(now);
    },
    stop: () => (core = undefined),
    subscribe(command) {
      const options = {
        start: startOf(command.start),
        failOnGap: command.fail_on_gap ?? false,
        policy: command.policy ? POLICIES.indexOf(command.policy) : undefined,
        skips: command.overflow === "skip",
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
        timeoutMs: command.timeout_ms ?? undefined,
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
    closed: ({ code, reason }) => core.closed(now, code, reason),
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
        if (output.do === "connect") effects.push({ connect: output.url });
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
    else if (value.messages) {
      const gap = value.gap && { from: value.gap.from, to: value.gap.to, cause: value.gap.reason };
      effects.push({ answer: as, messages: value.messages.map(messageFields), more: value.more, gap: gap ?? null });
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
    if (command.do === "report") report = { ...labels.get(command.as).report() };
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
