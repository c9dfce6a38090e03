// The adapter of wire mode: the package as it is delivered, over real sockets.
import { Crore, CroreError } from "../dist/index.js";
import { NEEDS, bytesOf, errorEffect, itemEffect, messageFields, startOf } from "./adapter_shared.mjs";

/** `webSocket`: another one than the platform's. */
export function wireAdapter(webSocket) {
  let client, labels, isManual;
  let effects = [];
  let wake;

  const show = (effect) => {
    effects.push(effect);
    wake?.();
  };

  /** Settles one call. */
  function settle(as, promise, shown) {
    promise.then(
      (value) => show({ answer: as, ...shown(value) }),
      (error) => show(errorEffect(as, error)),
    );
  }

  async function read(as, subscription, count) {
    try {
      for (let left = count; left > 0; ) {
        const item = await subscription.next();
        if (!item) return;
        if (item.kind !== "caught_up") left--;
        show(itemEffect(as, item));
      }
    } catch (error) {
      if (error.code !== undefined) show({ item: as, kind: "ended", code: error.code, restart: error.restart ?? null });
    }
  }

  const acts = {
    start({ options }) {
      labels = new Map();
      const tokens = options.tokens?.slice();
      isManual = options.buffer !== undefined;
      const { base_ms, max_ms, reset_after_ms } = options.backoff ?? {};
      client = new Crore(options.urls, {
        token: tokens
          ? (reason) => {
              show({ token: reason });
              return tokens.shift();
            }
          : options.token,
        name: options.name,
        producerId: options.producer_id ? bytesOf(options.producer_id) : undefined,
        backoff: { base: base_ms, max: max_ms, resetAfter: reset_after_ms },
        buffer: { items: options.buffer?.items },
        webSocket,
      });
      const mine = client;
      show({ ...client.state });
      client.onState((state) => {
        if (client === mine) show({ ...state });
      });
    },
    async stop() {
      const old = client;
      client = undefined;
      await old?.close({ drain: 0 });
      effects = [];
    },
    subscribe(command) {
      const { as, topic, fail_on_gap: failOnGap, policy, overflow } = command;
      const subscription = client.subscribe(topic, { start: startOf(command.start), failOnGap, policy, overflow });
      labels.set(as, subscription);
      if (!isManual) void read(as, subscription, Infinity);
    },
    unsubscribe: ({ as }) => labels.get(as).close(),
    publish(command) {
      const { as, topic, once, retain, tags, timeout_ms: timeout } = command;
      const key = once?.key === undefined ? undefined : bytesOf(once.key);
      const expectedEpoch = command.expected_epoch === undefined ? undefined : String(command.expected_epoch);
      const options = { once: once === true, key, retain, contentType: command.content_type, tags, expectedEpoch, timeout };
      const call = client.publish(topic, bytesOf(command.payload ?? ""), options);
      settle(as, call, ({ position, duplicate }) => ({ published: position, duplicate }));
    },
    history({ as, topic, position, reverse, limit }) {
      const page = client.historyPage(topic, { after: position, reverse, limit });
      settle(as, page, ({ messages, more, gap }) => ({
        messages: messages.map(messageFields),
        more,
        gap: gap ? { from: offsetOf(gap.from), to: offsetOf(gap.to), cause: gap.cause } : null,
      }));
    },
    renew: ({ token }) => client.renew(token),
    read: ({ as, items }) => read(as, labels.get(as), items),
    close: ({ drain_ms: drain }) => void client.close({ drain }),
    poll: ({ ms }) =>
      new Promise((resolve) => {
        if (effects.length) return resolve();
        const timer = setTimeout(resolve, ms);
        wake = () => (clearTimeout(timer), resolve());
      }),
  };

  return async (command) => {
    if (command.do === "hello") return { needs: webSocket ? NEEDS : NEEDS.filter((it) => it !== "statuses") };
    let report;
    if (command.do === "report") report = labels.get(command.as).report();
    else {
      try {
        const done = acts[command.do](command);
        if (command.do === "poll" || command.do === "stop") await done;
      } catch (error) {
        if (!(error instanceof CroreError)) throw error;
        show(errorEffect(command.as, error));
      }
      wake = undefined;
    }
    return { effects: effects.splice(0), report };
  };
}

const offsetOf = (position) => Number(position.split(":")[1]);
