"""The adapter of wire mode for the blocking client."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import crore
import crore.sync
from crore.starts import LIVE
from play import (
    NEEDS,
    ended_effect,
    error_effect,
    item_effect,
    message_fields,
    page_effect,
    publish_options,
    report_fields,
    start_of,
    state_effect,
    subscribe_options,
)


class SyncAdapter:
    def __init__(self) -> None:
        self.client: crore.sync.Client | None = None
        self.labels: dict[str, crore.sync.Subscription] = {}
        self.effects: list[dict[str, Any]] = []
        self.news = threading.Condition()
        self.is_manual = False

    def show(self, client: crore.sync.Client | None, effect: dict[str, Any]) -> None:
        with self.news:
            # What a scenario before has left is of no use.
            if client is None or client is self.client:
                self.effects.append(effect)
                self.news.notify()

    def __call__(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] == "hello":
            return {"needs": NEEDS}
        reply: dict[str, Any] = {}
        if command["do"] == "report":
            reply["report"] = report_fields(self.labels[command["as"]].report())
        else:
            try:
                getattr(self, command["do"])(command)
            except crore.CroreError as error:
                self.show(None, error_effect(command["as"], error))
        with self.news:
            reply["effects"], self.effects = self.effects, []
        return reply

    def start(self, command: dict[str, Any]) -> None:
        options = command["options"]
        self.labels = {}
        self.is_manual = options.get("buffer") is not None
        tokens = options.get("tokens")
        left = list(tokens or [])

        def source(reason: str) -> str | None:
            self.show(None, {"token": reason})
            return left.pop(0) if left else None

        backoff = {"base_ms": 500, "max_ms": 30_000, "reset_after_ms": 10_000, **(options.get("backoff") or {})}
        producer = options.get("producer_id")
        client = self.client = crore.sync.connect(
            options["urls"],
            token=options.get("token") if tokens is None else source,
            name=options.get("name"),
            producer_id=None if producer is None else bytes.fromhex(producer),
            backoff=crore.Backoff(
                backoff["base_ms"] / 1000, backoff["max_ms"] / 1000, backoff["reset_after_ms"] / 1000
            ),
            buffer_items=(options.get("buffer") or {}).get("items", 1024),
        )
        self.show(None, {"state": "connecting"})
        client.on_state(lambda state: self.show(client, state_effect(state)))

    def stop(self, _command: dict[str, Any]) -> None:
        with self.news:
            client, self.client = self.client, None
        if client is not None:
            client.close(drain=0)
        with self.news:
            self.effects = []

    def subscribe(self, command: dict[str, Any]) -> None:
        assert self.client is not None
        start = start_of(command["start"]) if command.get("start") else LIVE
        subscription = self.client.subscribe(command["topic"], start, **subscribe_options(command))
        self.labels[command["as"]] = subscription
        if not self.is_manual:
            self.take(command["as"], subscription, None)

    def take(self, label: str, subscription: crore.sync.Subscription, count: int | None) -> None:
        client = self.client

        def reader() -> None:
            left = count
            try:
                while left is None or left > 0:
                    item = subscription.next()
                    if item is None:
                        return
                    if left is not None and item.kind != "caught_up":
                        left -= 1
                    self.show(client, item_effect(label, item))
            except crore.CroreError as error:
                if error.code is not None:
                    self.show(client, ended_effect(label, error))

        threading.Thread(target=reader, daemon=True).start()

    def unsubscribe(self, command: dict[str, Any]) -> None:
        self.labels[command["as"]].close()

    def publish(self, command: dict[str, Any]) -> None:
        assert self.client is not None
        client = self.client

        def answered(future: Future[crore.Published]) -> None:
            error = future.exception()
            if isinstance(error, crore.CroreError):
                self.show(client, error_effect(command["as"], error))
            else:
                it = future.result()
                self.show(client, {"answer": command["as"], "published": it.position, "duplicate": it.duplicate})

        payload = bytes.fromhex(command.get("payload") or "")
        client.publish_later(command["topic"], payload, **publish_options(command)).add_done_callback(answered)

    def history(self, command: dict[str, Any]) -> None:
        assert self.client is not None
        client = self.client

        def paged() -> None:
            try:
                page = client.history_page(
                    command["topic"],
                    after=command.get("position"),
                    reverse=command.get("reverse") or False,
                    limit=command.get("limit") or 0,
                )
            except crore.CroreError as error:
                self.show(client, error_effect(command["as"], error))
            else:
                messages = [message_fields(it) for it in page.messages]
                self.show(client, page_effect(command["as"], messages, page.more, page.gap))

        threading.Thread(target=paged, daemon=True).start()

    def renew(self, command: dict[str, Any]) -> None:
        assert self.client is not None
        self.client.renew(command["token"])

    def read(self, command: dict[str, Any]) -> None:
        self.take(command["as"], self.labels[command["as"]], command["items"])

    def close(self, command: dict[str, Any]) -> None:
        assert self.client is not None
        drain = command.get("drain_ms", 5_000) / 1000
        threading.Thread(target=self.client.close, kwargs={"drain": drain}, daemon=True).start()

    def poll(self, command: dict[str, Any]) -> None:
        with self.news:
            self.news.wait_for(lambda: self.effects, command["ms"] / 1000)
