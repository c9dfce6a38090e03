"""The adapter of wire mode for the asyncio client: the package as it is delivered, over real sockets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import crore
from crore.starts import LIVE
from places import SCRIPT
from play import (
    NEEDS,
    Outcome,
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


class AioAdapter:
    def __init__(self) -> None:
        self.client: crore.Client | None = None
        self.labels: dict[str, crore.Subscription] = {}
        self.effects: list[dict[str, Any]] = []
        self.has_effects = asyncio.Event()
        self.is_manual = False
        self.tasks: set[asyncio.Task[None]] = set()

    def show(self, effect: dict[str, Any]) -> None:
        self.effects.append(effect)
        self.has_effects.set()

    def spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def __call__(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] == "hello":
            return {"needs": NEEDS}
        reply: dict[str, Any] = {}
        if command["do"] == "report":
            reply["report"] = report_fields(self.labels[command["as"]].report())
        else:
            try:
                await getattr(self, command["do"])(command)
            except crore.CroreError as error:
                self.show(error_effect(command["as"], error))
        reply["effects"], self.effects = self.effects, []
        self.has_effects.clear()
        return reply

    async def start(self, command: dict[str, Any]) -> None:
        options = command["options"]
        self.labels = {}
        self.is_manual = options.get("buffer") is not None
        tokens = options.get("tokens")
        left = list(tokens or [])

        def source(reason: str) -> str | None:
            self.show({"token": reason})
            return left.pop(0) if left else None

        backoff = {"base_ms": 500, "max_ms": 30_000, "reset_after_ms": 10_000, **(options.get("backoff") or {})}
        producer = options.get("producer_id")
        client = self.client = crore.connect(
            options["urls"],
            token=options.get("token") if tokens is None else source,
            name=options.get("name"),
            producer_id=None if producer is None else bytes.fromhex(producer),
            backoff=crore.Backoff(
                backoff["base_ms"] / 1000, backoff["max_ms"] / 1000, backoff["reset_after_ms"] / 1000
            ),
            buffer_items=(options.get("buffer") or {}).get("items", 1024),
        )
        self.show(state_effect(client.state))
        client.on_state(lambda state: self.show(state_effect(state)) if self.client is client else None)

    async def stop(self, _command: dict[str, Any]) -> None:
        client, self.client = self.client, None
        if client is not None:
            await client.close(drain=0)
        for task in list(self.tasks):
            task.cancel()
        self.effects = []

    async def subscribe(self, command: dict[str, Any]) -> None:
        assert self.client is not None
        start = start_of(command["start"]) if command.get("start") else LIVE
        subscription = self.client.subscribe(command["topic"], start, **subscribe_options(command))
        self.labels[command["as"]] = subscription
        if not self.is_manual:
            self.spawn(self.take(command["as"], subscription, None))

    async def take(self, label: str, subscription: crore.Subscription, count: int | None) -> None:
        try:
            while count is None or count > 0:
                item = await subscription.next()
                if item is None:
                    return
                if count is not None and item.kind != "caught_up":
                    count -= 1
                self.show(item_effect(label, item))
        except crore.CroreError as error:
            if error.code is not None:
                self.show(ended_effect(label, error))

    async def unsubscribe(self, command: dict[str, Any]) -> None:
        self.labels[command["as"]].close()

    async def publish(self, command: dict[str, Any]) -> None:
        self.spawn(self.published(command))
        await asyncio.sleep(0)

    async def published(self, command: dict[str, Any]) -> None:
        assert self.client is not None
        payload = bytes.fromhex(command.get("payload") or "")
        try:
            it = await self.client.publish(command["topic"], payload, **publish_options(command))
        except crore.CroreError as error:
            self.show(error_effect(command["as"], error))
        else:
            self.show({"answer": command["as"], "published": it.position, "duplicate": it.duplicate})

    async def history(self, command: dict[str, Any]) -> None:
        self.spawn(self.paged(command))
        await asyncio.sleep(0)

    async def paged(self, command: dict[str, Any]) -> None:
        assert self.client is not None
        try:
            page = await self.client.history_page(
                command["topic"],
                after=command.get("position"),
                reverse=command.get("reverse") or False,
                limit=command.get("limit") or 0,
            )
        except crore.CroreError as error:
            self.show(error_effect(command["as"], error))
        else:
            self.show(page_effect(command["as"], [message_fields(it) for it in page.messages], page.more, page.gap))

    async def renew(self, command: dict[str, Any]) -> None:
        assert self.client is not None
        self.client.renew(command["token"])

    async def read(self, command: dict[str, Any]) -> None:
        label = command["as"]
        self.spawn(self.take(label, self.labels[label], command["items"]))

    async def close(self, command: dict[str, Any]) -> None:
        assert self.client is not None
        self.spawn(self.client.close(drain=command.get("drain_ms", 5_000) / 1000))
        await asyncio.sleep(0)

    async def poll(self, command: dict[str, Any]) -> None:
        if not self.effects:
            self.has_effects.clear()
            try:
                await asyncio.wait_for(self.has_effects.wait(), command["ms"] / 1000)
            except asyncio.TimeoutError:
                pass


async def play_aio(*more: str, files: list[str]) -> Outcome:
    """Plays scenarios of wire mode."""
    adapter = AioAdapter()
    outcome = Outcome()
    process = await asyncio.create_subprocess_exec(
        *(SCRIPT, "--mode", "wire", *more, *files),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            command = json.loads(line)
            if command["do"] == "end":
                outcome.end(command)
                return outcome
            reply: dict[str, Any] = {"effects": []}
            if command["do"] == "result":
                outcome.take(command)
            else:
                reply = await adapter(command)
            process.stdin.write(json.dumps(reply).encode() + b"\n")
            await process.stdin.drain()
        raise AssertionError("the player has ended early")
    finally:
        if process.returncode is None:
            try:
                process.terminate()
            except ProcessLookupError:
                pass
        await process.wait()
