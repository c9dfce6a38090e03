"""The scenarios of wire mode over real sockets. They mostly wait, so all chapters are played at the same time."""

from __future__ import annotations

import asyncio
import os
import unittest
from concurrent.futures import ThreadPoolExecutor

from adapter_aio import play_aio
from adapter_sync import SyncAdapter
from play import Outcome, play, scenario_files


def only() -> list[str]:
    wanted = os.environ.get("ONLY")
    return ["--only", wanted] if wanted else []


async def all_aio() -> list[Outcome]:
    return await asyncio.gather(*(play_aio(*only(), files=[file]) for file in scenario_files()))


def one_sync(file: str) -> Outcome:
    return play("wire", SyncAdapter(), *only(), files=[file])


class ScenariosInWireMode(unittest.TestCase):
    def test_both_clients(self) -> None:
        with ThreadPoolExecutor() as executor:
            asynchronous = executor.submit(asyncio.run, all_aio())
            with ThreadPoolExecutor(len(scenario_files())) as players:
                blocking = list(players.map(one_sync, scenario_files()))
            self.check("asyncio", asynchronous.result())
            self.check("sync", blocking)

    def check(self, client: str, outcomes: list[Outcome]) -> None:
        total = Outcome()
        for outcome in outcomes:
            total.add(outcome)
        print(f"wire, {client}: {total.passed} passed, {total.failed} failed, {total.skipped} skipped")
        with self.subTest(client):
            self.assertFalse(total.bad, "\n".join(total.bad))
            self.assertGreater(total.passed, 0)
            self.assertEqual(total.skipped, 0)


if __name__ == "__main__":
    unittest.main()
