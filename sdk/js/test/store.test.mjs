// `crore/store` and `crore/react` over a real node.
import assert from "node:assert/strict";
import test from "node:test";
import { createElement, StrictMode } from "react";
import { renderToString } from "react-dom/server";
import { Crore } from "../dist/index.js";
import { topicStore } from "crore/store";
import { useTopic } from "crore/react";
import { Node } from "./node.mjs";

test("a store shows the newest messages, and its users share one subscription", async () => {
  const node = await Node.start("");
  const client = new Crore(node.url);
  try {
    const store = topicStore(client, "a", { keep: 2 });
    assert.deepEqual(store.get().items, []);
    assert.equal(client.inspect().subscriptions.length, 0);
    const reached = (wanted) =>
      new Promise((resolve) => {
        const stop = store.subscribe((snapshot) => {
          if (snapshot.items.map((it) => it.text()).join() !== wanted) return;
          // The first call comes before `subscribe` has returned.
          void Promise.resolve().then(() => stop());
          resolve(snapshot);
        });
      });
    const other = topicStore(client, "a").subscribe(() => {});
    const seen = reached("2,3");
    await client.ready();
    for (const text of ["1", "2", "3"]) await client.publish("a", text);
    const snapshot = await seen;
    assert.deepEqual([snapshot.state, snapshot.complete, snapshot.error], ["live", true, undefined]);
    assert.equal(client.inspect().subscriptions.length, 1);
    other();
    // A user that comes soon after the last one goes on with the same subscription.
    assert.equal((await reached("2,3")).items.length, 2);
    const ended = new Promise((resolve) => {
      const look = () => (client.inspect().subscriptions.length ? setTimeout(look, 10) : resolve());
      look();
    });
    await ended;
  } finally {
    await client.close();
    await node.remove();
  }
});

test("a store shows why its subscription has ended", async () => {
  const node = await Node.start("");
  const client = new Crore(node.url);
  try {
    const failed = new Promise((resolve) => {
      topicStore(client, "$sys/#").subscribe(({ error }) => error && resolve(error));
    });
    assert.equal((await failed).name, "forbidden");
  } finally {
    await client.close();
    await node.remove();
  }
});

test("useTopic renders, and a component that is rendered but never mounted subscribes to nothing", async () => {
  const node = await Node.start("");
  const client = new Crore(node.url);
  const Price = () => {
    const { items, state, complete } = useTopic(client, "price", { keep: 1 });
    return createElement("b", null, `${items.length} ${state} ${complete}`);
  };
  try {
    await client.ready();
    assert.equal(renderToString(createElement(StrictMode, null, createElement(Price))), "<b>0 live true</b>");
    assert.equal(client.inspect().subscriptions.length, 0);
  } finally {
    await client.close();
    await node.remove();
  }
});
