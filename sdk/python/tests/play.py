"""What the adapters of the scenarios share: the player's process, and the forms of options, items and answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import crore
from crore._codec.client import Start
from crore._position import Place, parse
from places import SCRIPT, SPEC

NEEDS = ["unauthorized_retry", "timeouts", "queue_bounds", "buffer", "statuses"]


@dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    #: What did not pass.
    bad: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def end(self, command: dict[str, Any]) -> None:
        self.passed, self.failed, self.skipped = command["passed"], command["failed"], command["skipped"]

    def add(self, other: Outcome) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.bad += other.bad
        self.results += other.results

    def take(self, command: dict[str, Any]) -> None:
        name = command["scenario"]
        self.results.append(name)
        if command["result"] != "passed":
            self.bad.append(f"{name}: {command['result']}, step {command.get('step')}: {command.get('why')}")


def scenario_files() -> list[str]:
    return sorted(str(path) for path in (SPEC / "scenarios").glob("*.json") if path.name != "schema.json")


def play(
    mode: str, adapter: Callable[[dict[str, Any]], dict[str, Any]], *more: str, files: list[str] | None = None
) -> Outcome:
    """Plays the scenarios of a mode; `adapter` answers one command."""
    outcome = Outcome()
    process = subprocess.Popen(
        [SCRIPT, "--mode", mode, *more, *(files or scenario_files())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            command = json.loads(line)
            if command["do"] == "end":
                outcome.end(command)
                return outcome
            if command["do"] == "result":
                outcome.take(command)
                reply: dict[str, Any] = {"effects": []}
            else:
                reply = adapter(command)
            process.stdin.write(json.dumps(reply) + "\n")
            process.stdin.flush()
    raise AssertionError("the player has ended early")


def place_of(text: str) -> Place:
    place = parse(text)
    assert place is not None, text
    return place


def start_of(start: dict[str, Any] | None) -> Start:
    """The start of a subscription, as a command writes it."""
    start = start or {"kind": "live"}
    kind = start["kind"]
    if kind == "since":
        return crore.since(start["position"])
    if kind == "since_each":
        return crore.since_each({it["partition"]: it["position"] for it in start["positions"]})
    if kind == "last":
        return crore.last(start["count"])
    return crore.SNAPSHOT if kind == "snapshot" else crore.LIVE


def message_fields(message: crore.Message) -> dict[str, Any]:
    return {
        "position": message.position,
        "topic": message.topic,
        "payload": message.payload.hex(),
        "content_type": message.content_type,
        "tags": message.tags,
        "retained": message.retained,
        "partition": message.partition,
    }


def item_effect(label: str, item: crore.Item) -> dict[str, Any]:
    """An item as the scenarios write it."""
    shown: dict[str, Any] = {"item": label, "kind": item.kind}
    match item:
        case crore.Message():
            shown |= message_fields(item)
        case crore.Gap():
            shown |= {"from": item.start, "to": item.end, "cause": item.cause, "partition": item.partition}
        case crore.Skipped():
            shown |= {"from": item.start, "through": item.through, "reason": item.reason}
            shown["partition"] = item.partition
        case crore.CaughtUp():
            shown |= {"position": item.position, "partition": item.partition}
    return shown


def ended_effect(label: str, error: crore.CroreError) -> dict[str, Any]:
    return {"item": label, "kind": "ended", "code": error.code, "restart": error.restart}


def error_effect(label: str, error: crore.CroreError) -> dict[str, Any]:
    if error.code is None:
        return {"answer": label, "error": error.name}
    return {
        "answer": label,
        "error": "Refused",
        "code": error.code,
        "temporary": error.temporary,
        "restart": error.restart,
        "limit": error.limit,
    }


def state_effect(state: crore.State) -> dict[str, Any]:
    fields = {"state": state.state, "reason": state.reason, "code": state.code, "status": state.status}
    return {key: value for key, value in fields.items() if value is not None}


def report_fields(report: crore.Report) -> dict[str, Any]:
    return {
        "complete": report.complete,
        "basis": report.basis,
        "gaps": report.gaps,
        "newest": [{"from": gap.start, "to": gap.end, "cause": gap.cause} for gap in report.newest],
        "skips": report.skips,
        "messages": report.messages,
        "position": report.position,
        "positions": report.positions,
    }


def subscribe_options(command: dict[str, Any]) -> dict[str, Any]:
    """The options of `subscribe`, as a command writes them."""
    overflow = {"overflow": command["overflow"]} if command.get("overflow") else {}
    return {"fail_on_gap": command.get("fail_on_gap") or False, "policy": command.get("policy"), **overflow}


def publish_options(command: dict[str, Any]) -> dict[str, Any]:
    """The options of `publish`, as a command writes them."""
    once = command.get("once") or False
    epoch, timeout_ms = command.get("expected_epoch"), command.get("timeout_ms")
    return {
        "once": once is True,
        "key": bytes.fromhex(once["key"]) if isinstance(once, dict) else None,
        "retain": command.get("retain") or False,
        "content_type": command.get("content_type"),
        "tags": [(name, value) for name, value in command.get("tags") or ()],
        "expected_epoch": None if epoch is None else int(epoch),
        "timeout": None if timeout_ms is None else timeout_ms / 1000,
    }


def page_effect(
    label: str, messages: list[dict[str, Any]], more: bool, gap: tuple[int, int, str] | crore.Gap | None
) -> dict[str, Any]:
    if isinstance(gap, crore.Gap):
        ends = [int((at or "0:0").split(":")[1]) for at in (gap.start, gap.end)]
        gap = (ends[0], ends[1], gap.cause)
    shown = None if gap is None else {"from": gap[0], "to": gap[1], "cause": gap[2]}
    return {"answer": label, "messages": messages, "more": more, "gap": shown}
