"""The adapter of core mode: the core without sockets, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import crore
from crore._codec.server import HistoryPage
from crore._core import outputs
from crore._core.backoff import BackoffSettings
from crore._core.calls import Publication
from crore._core.core import Core
from crore._core.settings import Settings
from crore._core.subscription import CoreSubscription, SubscribeOptions
from play import (
    NEEDS,
    ended_effect,
    error_effect,
    item_effect,
    message_fields,
    page_effect,
    place_of,
    report_fields,
    start_of,
    state_effect,
)


def fractions(values: list[float]) -> Callable[[], float]:
    """The values in turn, the last one repeated."""
    left = list(values)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


class CoreAdapter:
    core: Core
    tokens: list[str]

    def __init__(self, timeout_ms: float | None = None) -> None:
        #: The timeout of publications whose command has none.
        self.timeout_ms = timeout_ms
        self.now = 0.0
        self.is_manual = False
        self.is_running = False
        self.labels: dict[str, CoreSubscription] = {}
        self.effects: list[dict[str, Any]] = []

    def __call__(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] == "hello":
            return {"needs": NEEDS}
        self.effects = []
        reply: dict[str, Any] = {"effects": self.effects}
        if command["do"] == "report":
            reply["report"] = report_fields(self.labels[command["as"]].report())
        else:
            try:
                getattr(self, command["do"])(command)
            except crore.CroreError as error:
                self.effects.append(error_effect(command["as"], error))
        if self.is_running:
            self.drain()
            reply["timer"] = self.core.wake_at
        else:
            reply["timer"] = None
        return reply

    def start(self, command: dict[str, Any]) -> None:
        options = command["options"]
        self.now = 0
        self.labels = {}
        self.tokens = list(options.get("tokens") or [])
        self.is_manual = options.get("buffer") is not None
        self.is_running = True
        self.core = Core(
            Settings(
                urls=options["urls"],
                random=fractions(command["random"]),
                producer_id=bytes.fromhex(options.get("producer_id") or "07" * 16),
                token=options.get("token"),
                has_token_source=options.get("tokens") is not None,
                name=options.get("name"),
                backoff=BackoffSettings(**(options.get("backoff") or {})),
                buffer_items=(options.get("buffer") or {}).get("items", 1024),
            )
        )
        self.core.start(self.now)

    def stop(self, command: dict[str, Any]) -> None:
        self.is_running = False

    def subscribe(self, command: dict[str, Any]) -> None:
        options = SubscribeOptions(
            start_of(command.get("start")),
            command.get("fail_on_gap") or False,
            command.get("policy"),
            command.get("overflow") == "skip",
        )
        label = command["as"]
        it = self.core.subscribe(self.now, command["topic"], options)
        it.reader = label
        self.labels[label] = it

    def unsubscribe(self, command: dict[str, Any]) -> None:
        self.core.unsubscribe(self.now, self.labels[command["as"]])

    def publish(self, command: dict[str, Any]) -> None:
        once = command.get("once") or False
        epoch = command.get("expected_epoch")
        publication = Publication(
            topic=command["topic"],
            payload=bytes.fromhex(command.get("payload") or ""),
            retain=command.get("retain") or False,
            content_type=command.get("content_type"),
            tags=tuple((name, value) for name, value in command.get("tags") or ()),
            expected_epoch=None if epoch is None else int(epoch),
            once=once is True,
            key=bytes.fromhex(once["key"]) if isinstance(once, dict) else None,
            timeout_ms=command.get("timeout_ms") or self.timeout_ms,
        )
        self.core.publish(self.now, publication).waiter = command["as"]

    def history(self, command: dict[str, Any]) -> None:
        position = command.get("position")
        call = self.core.history(
            self.now,
            command["topic"],
            None if position is None else place_of(position),
            command.get("reverse") or False,
            command.get("limit") or 0,
        )
        call.waiter = command["as"]

    def renew(self, command: dict[str, Any]) -> None:
        self.core.renew(command["token"])

    def read(self, command: dict[str, Any]) -> None:
        self.take(self.labels[command["as"]], command["items"])

    def take(self, it: CoreSubscription, count: int | None) -> None:
        while count is None or count > 0:
            # As the shells do.
            item = it.take_plain() or self.core.take(self.now, it)
            if item is None:
                return
            if count is not None and item.kind != "caught_up":
                count -= 1
            self.effects.append(item_effect(str(it.reader), item))

    def close(self, command: dict[str, Any]) -> None:
        self.core.close(self.now, command.get("drain_ms", 5_000))

    def opened(self, command: dict[str, Any]) -> None:
        self.core.opened(self.now)

    def failed(self, command: dict[str, Any]) -> None:
        self.core.failed(self.now, command.get("status"), command.get("retry_after_s"))

    def received(self, command: dict[str, Any]) -> None:
        text = command.get("text")
        self.core.received(self.now, bytes.fromhex(command["hex"]) if text is None else text)

    def closed(self, command: dict[str, Any]) -> None:
        self.core.closed(self.now, command["code"])

    def time(self, command: dict[str, Any]) -> None:
        self.now = command["now_ms"]
        self.core.tick(self.now)

    def drain(self) -> None:
        """Turns the core's outputs into effects."""
        while self.core.outputs:
            done, self.core.outputs = self.core.outputs, []
            for output in done:
                self.show(output)
            self.core.drained(self.now)

    def show(self, output: outputs.Output) -> None:
        match output:
            case outputs.Connect(url):
                self.effects.append({"connect": url})
            case outputs.Send(data):
                self.effects.append({"send": data.hex()})
            case outputs.Close(code):
                self.effects.append({"close": code})
            case outputs.Changed(state):
                self.effects.append(state_effect(state))
            case outputs.AskToken(number, reason):
                self.effects.append({"token": reason})
                self.core.token(self.now, number, self.tokens.pop(0) if self.tokens else None)
            case outputs.Settle():
                self.settle(output)
            case outputs.Ready(it):
                self.ready(it)
            case outputs.Told() | outputs.Log():
                pass

    def settle(self, output: outputs.Settle) -> None:
        label, value = str(output.call.waiter), output.value
        if output.error is not None:
            self.effects.append(error_effect(label, output.error))
        elif isinstance(value, HistoryPage):
            messages = [message_fields(message) for message in value.messages]
            self.effects.append(page_effect(label, messages, value.more, value.gap))
        elif value is not None:
            self.effects.append({"answer": label, "published": value.position, "duplicate": value.duplicate})

    def ready(self, it: CoreSubscription) -> None:
        if not self.is_manual:
            self.take(it, None)
        if it.end is not None and it.end.error is not None and it.end.error.code is not None:
            self.effects.append(ended_effect(str(it.reader), it.end.error))
