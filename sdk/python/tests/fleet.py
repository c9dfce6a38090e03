"""Runs many clients for the harness of tests/src/fleet, whose README has the lines."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
import crore  # noqa: E402

PLAN: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))


def say(of: int, **line: Any) -> None:
    sys.stdout.write(json.dumps({"of": of, **line}) + "\n")
    sys.stdout.flush()


def shown(item: crore.Item) -> dict[str, Any]:
    if isinstance(item, crore.Message):
        return {"item": "message", "topic": item.topic, "at": item.position, "data": item.text()}
    if isinstance(item, crore.Gap):
        line: dict[str, Any] = {"item": "gap", "from": item.start, "to": item.end, "cause": item.cause}
    elif isinstance(item, crore.Skipped):
        line = {"item": "skipped", "from": item.start, "through": item.through}
    else:
        line = {"item": "caught_up", "at": item.position}
    return line if item.partition is None else {**line, "partition": item.partition}


class FleetClient:
    def __init__(self, number: int, passage: asyncio.Event) -> None:
        self.number = number
        self.work = PLAN["clients"][number]
        self.passage = passage
        self.calls: int = self.work["calls"]
        self.tasks: set[asyncio.Task[None]] = set()
        storage = crore.FileStorage(Path(PLAN["folder"]) / str(number)) if self.work.get("once") else None
        name = f"{PLAN['name']}.{number}"
        self.client = crore.connect(PLAN["url"], name=name, storage=storage, persist=storage is not None)
        self.subscription: crore.Subscription | None = None
        if "subscribe" in self.work:
            since = self.work.get("since")
            start = crore.since(since) if since else crore.LIVE
            self.subscription = self.client.subscribe(self.work["subscribe"], start)
            self.reader = asyncio.create_task(self.read(self.subscription))

    async def read(self, subscription: crore.Subscription) -> None:
        try:
            async for item in subscription:
                say(self.number, **shown(item))
                if self.work["slow"]:
                    await self.passage.wait()
        except crore.CroreError as error:
            say(self.number, ended=str(error))

    def publish(self, count: int) -> None:
        for _ in range(count if "publish" in self.work else 0):
            self.calls += 1
            task = asyncio.create_task(self.call(self.calls))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def call(self, call: int) -> None:
        topics = self.work["publish"]
        payload = f"{PLAN['name']}.{self.number}.{call}"
        try:
            published = await self.client.publish(topics[call % len(topics)], payload, once=self.work["once"])
            say(self.number, call=call, at=published.position)
        except crore.CroreError as error:
            say(self.number, call=call, error=error.name)

    async def end(self) -> None:
        if self.subscription is not None:
            report = self.subscription.report()
            self.subscription.close()
            await self.reader
            names = ["complete", "gaps", "skips", "messages", "position", "positions"]
            say(self.number, report={name: getattr(report, name) for name in names})
        await self.client.close()


async def main() -> None:
    passage = asyncio.Event()
    passage.set()
    clients = [FleetClient(number, passage) for number in range(len(PLAN["clients"]))]
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        command, _, count = line.decode().strip().partition(" ")
        if command == "publish":
            for it in clients:
                it.publish(int(count))
        elif command == "pause":
            passage.clear()
        elif command == "resume":
            passage.set()
        elif command == "end":
            await asyncio.gather(*(it.end() for it in clients))
            return


if __name__ == "__main__":
    asyncio.run(main())
