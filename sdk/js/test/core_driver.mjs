// The core in virtual time, for tests: each input has a time, and what the core asks for is kept in a list.
import { calls, connection, frames, state, subscription, subscriptions, tokens } from "../dist-test/inside.js";

export class Core {
  outputs = [];
  isBlocked = false;

  constructor({ urls, producerId, random = () => 0.5, ...options }) {
    const out = (output) => void this.outputs.push(output);
    this.core = state.newCore(
      urls,
      options,
      producerId,
      {
        dial: (url, early) => out({ do: "connect", url, early }),
        transmit: (bytes) => out({ do: "send", bytes }),
        hangUp: (code) => out({ do: "close", code }),
        askToken: (id, reason) => out({ do: "token", id, reason }),
        changed: (state) => out({ do: "state", state }),
        complain: (error) => out({ do: "refused", error }),
        logged: (level, event, fields) => out({ do: "log", level, event, fields }),
        isBlocked: () => this.isBlocked,
        random,
      },
    );
  }

  /** One input at a time. */
  at(now) {
    this.core.nowMs = now;
    return this.core;
  }

  get state() {
    return this.core.shown;
  }

  get wakeAt() {
    const at = connection.wakeAt(this.core);
    return at === Infinity ? undefined : at;
  }

  start = (now) => connection.connect(this.at(now));
  opened = (now) => connection.opened(this.at(now));
  failed = (now, status, retryAfterS) => connection.failed(this.at(now), status, retryAfterS);
  received = (now, data) => frames.received(this.at(now), data);
  closed = (now, code) => connection.closed(this.at(now), code);
  tick = (now) => connection.tick(this.at(now));
  probe = (now) => connection.probe(this.at(now));
  close = (now, drainMs) => connection.close(this.at(now), drainMs);
  token = (now, id, token) => tokens.sourceAnswered(this.at(now), id, token);
  tokenFailed = (now, id, isUnauthorized = false) => tokens.sourceFailed(this.at(now), id, isUnauthorized);
  renew = (token) => tokens.renew(this.core, token);
  unsubscribe = (now, it) => subscriptions.unsubscribe(this.at(now), it);
  takeOne = (now, it) => subscriptions.takeOne(this.at(now), it);
  report = (it) => subscription.reportOf(it);

  subscribe(now, topic, wanted = {}) {
    const it = subscriptions.subscribe(this.at(now), topic, wanted, () => this.outputs.push({ do: "items", of: it }));
    subscriptions.start(this.core, it);
    return it;
  }

  /** Several items: `max`, not counting those that only settle. */
  take(now, it, max) {
    const items = [];
    while (max > 0) {
      const item = this.takeOne(now, it);
      if (!item) break;
      items.push(item);
      if (item.kind !== "caught_up") max--;
    }
    return items;
  }

  /** A call: `call` begins it. */
  begun(now, begin) {
    const settle = (error, value) => this.outputs.push({ do: "settle", call: settle, error, value });
    begin(this.at(now), settle);
    return settle;
  }

  publish = (now, input) => this.begun(now, (core, settle) => calls.publish(core, input, settle));
  history = (now, topic, position, reverse, limit) =>
    this.begun(now, (core, settle) => calls.history(core, topic, position, { reverse, limit: limit || undefined }, settle));
}
