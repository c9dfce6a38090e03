"""As fleet.py, with blocking clients: one thread for each reader."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future
from pathlib import Path

from fleet import PLAN, say, shown

import crore.sync


class FleetClient:
    def __init__(self, number: int, passage: threading.Event) -> None:
        self.number = number
        self.work = PLAN["clients"][number]
        self.passage = passage
        self.calls: int = self.work["calls"]
        storage = crore.FileStorage(Path(PLAN["folder"]) / str(number)) if self.work.get("once") else None
        name = f"{PLAN['name']}.{number}"
        self.client = crore.sync.connect(PLAN["url"], name=name, storage=storage, persist=storage is not None)
        self.subscription: crore.sync.Subscription | None = None
        if "subscribe" in self.work:
            since = self.work.get("since")
            start = crore.since(since) if since else crore.LIVE
            self.subscription = self.client.subscribe(self.work["subscribe"], start)
            self.reader = threading.Thread(target=self.read, args=[self.subscription])
            self.reader.start()

    def read(self, subscription: crore.sync.Subscription) -> None:
        try:
            for item in subscription:
                say(self.number, **shown(item))
                if self.work["slow"]:
                    self.passage.wait()
        except crore.CroreError as error:
            say(self.number, ended=str(error))

    def publish(self, count: int) -> None:
        for _ in range(count if "publish" in self.work else 0):
            self.calls += 1
            self.call(self.calls)

    def call(self, call: int) -> None:
        topics = self.work["publish"]
        payload = f"{PLAN['name']}.{self.number}.{call}"

        def settled(future: Future[crore.Published]) -> None:
            error = future.exception()
            if error is None:
                say(self.number, call=call, at=future.result().position)
            else:
                say(self.number, call=call, error=getattr(error, "name", str(error)))

        try:
            future = self.client.publish_later(topics[call % len(topics)], payload, once=self.work["once"])
            future.add_done_callback(settled)
        except crore.CroreError as error:
            say(self.number, call=call, error=error.name)

    def end(self) -> None:
        if self.subscription is not None:
            report = self.subscription.report()
            self.subscription.close()
            self.reader.join()
            names = ["complete", "gaps", "skips", "messages", "position", "positions"]
            say(self.number, report={name: getattr(report, name) for name in names})
        self.client.close()


def main() -> None:
    passage = threading.Event()
    passage.set()
    clients = [FleetClient(number, passage) for number in range(len(PLAN["clients"]))]
    for line in sys.stdin:
        command, _, count = line.strip().partition(" ")
        if command == "publish":
            for it in clients:
                it.publish(int(count))
        elif command == "pause":
            passage.clear()
        elif command == "resume":
            passage.set()
        elif command == "end":
            for it in clients:
                it.end()
            return


if __name__ == "__main__":
    main()
