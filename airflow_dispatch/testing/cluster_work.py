"""What the conformance suite of clusters needs from an adapter's tests, and helps them with.

An adapter's tests give the suite a `Harness`: the cluster, jobs that do a given `Work`, and two
ways to look at it from outside the cluster. Where jobs run on hosts that share a folder with the
tests, `SharedFolder` does all of that with a shell script. `Scene` makes the suite's orders.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.identity import JobKey, Mark, ObjectId, TaskKey
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import Created, Decided, Done, Permit, Refused, Unclear
from airflow_dispatch.ports.cluster import (
    Cluster,
    OpenOrder,
    Output,
    StartOrder,
    StopJobOrder,
    StopOrder,
    WithdrawOrder,
)

FIRST = Permit(1, 0, 0)


@dataclass(frozen=True, slots=True)
class Work:
    """What a job's command does, in this order; it starts by counting that it was started."""

    shrugs: bool = False
    """It ignores the warning signal of a stop."""
    output: str = ""
    shows: tuple[str, ...] = ()
    """Variables of its environment whose values it prints as they are."""
    result: str = ""
    """Written to the file that `DISPATCH_RESULT` names."""
    holds_bytes: int = 0
    """Memory that it takes, and keeps while it waits."""
    waits: bool = False
    """Until it is released."""
    signal: int = 0
    """It ends itself by this signal."""
    exit_code: int = 0
    name: str = field(default_factory=lambda: secrets.token_hex(8))


class Harness(Protocol):
    """An adapter under test."""

    @property
    def cluster(self) -> Cluster:
        """The cluster; empty at the start of each test, and able to run four cpus at once."""
        ...

    @property
    def patience_seconds(self) -> float:
        """How long, by the cluster's clock, something that must happen may take."""
        ...

    @property
    def limits_memory(self) -> bool:
        """Whether a run that takes more memory than it asked for is ended."""
        ...

    @property
    def impossible(self) -> Job | None:
        """A job that this kind of cluster cannot honour, if there is one."""
        ...

    def job(self, work: Work) -> Job:
        """A job of one cpu that does the work."""
        ...

    async def release(self, work: Work) -> None:
        """Let the work go on that waits."""
        ...

    async def starts(self, work: Work) -> int:
        """How often the work was started, as seen without the cluster's help."""
        ...

    async def pause(self) -> None:
        """Let a moment pass, at most a tenth of a second of real time."""
        ...


class SharedFolder:
    """The parts of a harness that a folder shared with the runs can do. Needs sh and coreutils."""

    def __init__(self, cluster: Cluster, folder: Path, *, patience_seconds: float) -> None:
        self.cluster = cluster
        self.folder = folder
        self.patience_seconds = patience_seconds

    def job(self, work: Work) -> Job:
        """A job with a script."""
        return Job(cluster=self.cluster.name, time_limit_seconds=60, script=self.script(work))

    def script(self, work: Work) -> str:
        """The work as a shell script."""
        path = self.folder / work.name
        go = shlex.quote(f"{path}.go")
        waiting = f"while [ ! -e {go} ]; do sleep 0.05; done"
        lines = ["#!/bin/sh"]
        if work.shrugs:
            lines.append("trap '' TERM")
        lines.append(f"printf x >> {shlex.quote(f'{path}.starts')}")
        if work.output:
            lines.append(f"printf %s {shlex.quote(work.output)}")
        lines += [f'printf %s "${name}"' for name in work.shows]
        if work.result:
            lines.append(f'printf %s {shlex.quote(work.result)} > "$DISPATCH_RESULT"')
        if work.holds_bytes:
            # tail keeps what it has read until it sees the end of a line, which never comes.
            lines.append(f"(head -c {work.holds_bytes} /dev/zero; {waiting}) | tail > /dev/null")
        elif work.waits:
            lines.append(waiting)
        if work.signal:
            lines.append(f"kill -{work.signal} $$; sleep 5")
        lines.append(f"exit {work.exit_code}")
        return "\n".join(lines) + "\n"

    async def release(self, work: Work) -> None:
        """Make the file that the script waits for."""
        (self.folder / f"{work.name}.go").touch()

    async def starts(self, work: Work) -> int:
        """Count the marks that the script left."""
        path = self.folder / f"{work.name}.starts"
        return path.stat().st_size if path.exists() else 0

    async def pause(self) -> None:
        """A twentieth of a second."""
        await asyncio.sleep(0.05)


@dataclass(slots=True)
class Scene:
    """Orders for one record, against the cluster of a harness."""

    harness: Harness
    key: JobKey
    fingerprint: str
    calls: int = 0

    @staticmethod
    async def of(harness: Harness, *, generation: int = 1, task: TaskKey | None = None) -> Scene:
        """A scene for a task that no other scene has, or for another generation of a task."""
        new = TaskKey("conformance", "dag", secrets.token_hex(8), "task")
        seen = await harness.cluster.find(())
        return Scene(harness, JobKey(task or new, generation), seen.fingerprint)

    @property
    def cluster(self) -> Cluster:
        """The cluster under test."""
        return self.harness.cluster

    async def after(self, seconds: float) -> datetime:
        """A time on the cluster's clock, from now."""
        return (await self.cluster.find(())).began + timedelta(seconds=seconds)

    def mark(self, submission: int = 1, attempt: int = 1) -> Mark:
        """A mark with a fresh tag."""
        task = self.key.task
        tag = secrets.token_hex(16)
        return Mark(task.deployment, task.digest, self.key.generation, submission, attempt, tag)

    async def start_order(self, job: Job, mark: Mark, *, seconds: float = 30) -> StartOrder:
        """An order whose deadline is so many seconds from now."""
        return StartOrder(self.key, job, mark, self.fingerprint, await self.after(seconds))

    async def started(self, job: Job, mark: Mark | None = None) -> Sight:
        """Start an object, which must succeed, and look at it."""
        mark = mark or self.mark()
        reply = await self.cluster.start(await self.start_order(job, mark))
        assert isinstance(reply, Created), reply
        assert reply.gated, "an object was born without its gate"
        return await self.look(reply.object)

    async def open(
        self, sight: Sight, *, permit: Permit = FIRST, seconds: float = 30
    ) -> Done | Refused | Unclear:
        """Open the gate, as a call of its own."""
        self.calls += 1
        deadline = await self.after(seconds)
        return await self.cluster.open(
            OpenOrder(
                self.key, sight.id, sight.mark, self.fingerprint, permit, self.calls, deadline
            )
        )

    async def running(self, work: Work, job: Job | None = None) -> Sight:
        """Start and open a job, and see its command run."""
        sight = await self.started(job or self.harness.job(work))
        assert await self.open(sight) == Done()
        sight = await self.until(sight, lambda s: s.started)
        until = await self.after(self.harness.patience_seconds)
        while not await self.harness.starts(work):
            assert await self.after(0) < until, f"its command does not start: {sight}"
            await self.harness.pause()
        return sight

    async def stop(self, sight: Sight, *, grace: int = 5) -> Done | Refused | Unclear:
        """Stop one object."""
        return await self.cluster.stop(
            StopOrder(self.key, sight.id, sight.mark, self.fingerprint, grace, "asked by a test")
        )

    async def stop_job(self, *, grace: int = 5) -> Done | Refused | Unclear:
        """Stop the record's objects."""
        return await self.cluster.stop_job(
            StopJobOrder(self.key, self.fingerprint, grace, "asked by a test")
        )

    async def withdraw(self, sight: Sight, permit: Permit = FIRST) -> Decided | Refused | Unclear:
        """Take a permit back."""
        return await self.cluster.withdraw(
            WithdrawOrder(self.key, sight.id, sight.mark, self.fingerprint, permit)
        )

    async def shown(self) -> tuple[Sight, ...]:
        """Everything that a Find shows of the task."""
        return (await self.cluster.find((self.key.task,))).objects

    async def look(self, wanted: ObjectId) -> Sight:
        """One object, which must be shown."""
        found = [sight for sight in await self.shown() if sight.id == wanted]
        assert len(found) == 1, f"{wanted} is shown {len(found)} times"
        return found[0]

    async def until(self, sight: Sight, holds: Callable[[Sight], bool]) -> Sight:
        """Look at the object until that holds, for as long as the harness has patience."""
        until = await self.after(self.harness.patience_seconds)
        while True:
            last = await self.look(sight.id)
            if holds(last):
                return last
            assert await self.after(0) < until, f"it did not come about: {last}"
            await self.harness.pause()

    async def ended(self, sight: Sight) -> Sight:
        """Wait for the object to be at its end, with nothing left of it."""
        return await self.until(sight, lambda s: s.idle)

    async def moments(self, count: int = 6) -> None:
        """Give what must not happen the time to happen."""
        for _ in range(count):
            await self.harness.pause()

    async def output(self, sight: Sight, *, limit: int = 64 << 10) -> str:
        """All output of an ended object, read piece by piece."""
        text, piece = "", Output("", 0, complete=False)
        while not piece.complete:
            piece = await self.cluster.read_output(
                self.key, sight.id, sight.mark, offset=piece.offset, limit=limit
            )
            text += piece.text
        return text


def other(mark: Mark) -> Mark:
    """The mark of another attempt with the same tag: of nobody."""
    return replace(mark, attempt=mark.attempt + 1)
