"""What a run of the local cluster gets, may do, and leaves: environment, folders, processes."""

import asyncio
import os
import re
import shlex
import sys
import textwrap
from pathlib import Path

import pytest

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import layout, proc
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.job import Job, Resources
from airflow_dispatch.core.record import Done, Refused
from airflow_dispatch.errors import TaskUnavailable
from airflow_dispatch.testing.cluster_suite import cause, kind
from airflow_dispatch.testing.cluster_work import Scene, Work
from tests.conformance.clusters import local_tools as tools
from tests.conformance.clusters.harnesses import LocalHarness

pytestmark = pytest.mark.system


def job(**fields: object) -> Job:
    """A job for the local cluster."""
    return Job(cluster="local", time_limit_seconds=60, **fields)  # type: ignore[arg-type]  # a helper


async def run(harness: LocalHarness, wanted: Job) -> tuple[Scene, Sight]:
    """Run a job to its end."""
    scene = await Scene.of(harness)
    sight = await scene.started(wanted)
    assert await scene.open(sight) == Done()
    return scene, await scene.ended(sight)


async def test_the_environment_is_clean(
    local_harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run sees a handful of variables, its job's and ours, and nothing else of its supervisor."""
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://secret")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    env = (("MINE", "1"), ("TMPDIR", "/var/tmp"))
    scene, sight = await run(local_harness, job(command=("env", "-0"), env=env))
    pairs = (await scene.output(sight)).rstrip("\0").split("\0")
    seen = dict(pair.split("=", 1) for pair in pairs)
    folder = tools.submission_folder(local_harness, scene, sight)
    assert seen == {
        **{name: seen[name] for name in ("PATH", "HOME", "USER", "LOGNAME")},
        "LANG": "de_DE.UTF-8",
        "TMPDIR": "/var/tmp",
        "MINE": "1",
        "DISPATCH_RUN_DIR": str(folder.parent),
        "DISPATCH_RESULT": str(folder / layout.RESULT),
        "DISPATCH_RESUME": "0",
        "DISPATCH_GENERATION": "1",
        "DISPATCH_SUBMISSION": "1",
        "DISPATCH_ATTEMPT": "1",
        "DISPATCH_OBJECT": f"{sight.id}.0",
    }


async def test_the_memory_that_was_too_much_is_told_as_people_read_it(
    local_harness: LocalHarness,
) -> None:
    """In MiB: what was held, and what was asked for."""
    program = "held = b'x' * (96 << 20); import time; time.sleep(60)"
    wanted = job(
        command=(sys.executable, "-c", program), resources=Resources(memory_bytes=32 << 20)
    )
    _, sight = await run(local_harness, wanted)
    found = cause(sight)
    assert found is not None
    assert found.kind is CauseKind.OUT_OF_MEMORY
    assert re.fullmatch(
        r"its processes held \d+\.\d MiB, more than the 32\.0 MiB asked for", found.detail
    )


async def test_nothing_of_a_job_is_in_a_process_list(
    local_harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither command line nor environment of a shim tells anything but its object's name."""
    monkeypatch.setenv(proc.MARK, "of-a-run-that-started-this-supervisor.0")
    scene = await Scene.of(local_harness)
    sight = await scene.started(job(script="# a secret script\n", env=(("A", "a secret value"),)))
    shim = Path(f"/proc/{tools.shim_of(local_harness, sight).pid}")
    words = (shim / "cmdline").read_text().rstrip("\0").split("\0")
    assert words[1:3] == ["-I", "-S"]
    assert words[4:] == [sight.id]
    environment = (shim / "environ").read_text()
    assert environment == "" or environment.startswith("LD_LIBRARY_PATH=")


async def test_files_are_for_their_owner(local_harness: LocalHarness) -> None:
    """Everything below a run root is closed to others."""
    await run(local_harness, job(script="echo hello; echo '{}' > $DISPATCH_RESULT"))
    paths = [local_harness.root, *local_harness.root.rglob("*")]
    assert len(paths) > 15
    assert [path for path in paths if path.stat().st_mode & 0o077] == []


async def test_resume_tells_of_checkpoints(local_harness: LocalHarness) -> None:
    """All tries of a task share `checkpoints/`; a later one is told that there is something."""
    first = await Scene.of(local_harness)
    script = 'printf %s "$DISPATCH_RESUME"; echo x > "$DISPATCH_RUN_DIR/checkpoints/1"'
    said = []
    for generation in (1, 2):
        scene = await Scene.of(local_harness, generation=generation, task=first.key.task)
        sight = await scene.started(job(script=script))
        await scene.open(sight)
        said.append(await scene.output(await scene.ended(sight)))
    assert said == ["0", "1"]


async def test_the_workdir_is_where_a_run_starts(
    local_harness: LocalHarness, tmp_path: Path
) -> None:
    """A run starts in its workdir, without one in the folder of its submission."""
    scene, sight = await run(local_harness, job(command=("pwd", "-P"), workdir=str(tmp_path)))
    assert await scene.output(sight) == f"{tmp_path}\n"
    scene, sight = await run(local_harness, job(command=("pwd", "-P")))
    folder = tools.submission_folder(local_harness, scene, sight)
    assert await scene.output(sight) == f"{folder}\n"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"command": ("true",), "workdir": "/no/such/folder"}, "workdir='/no/such/folder'"),
        ({"command": ("true",), "workdir": "/dev/null"}, "workdir='/dev/null'"),
        ({"command": ("true", "x" * (128 << 10))}, "an argument of the command is 131073 bytes"),
        ({"command": ("true",), "env": (("A", "x" * (128 << 10)),)}, "env A is 131075 bytes"),
        (
            {"command": ("true",), "env": tuple((f"A{n:02}", "x" * 100_000) for n in range(40))},
            "command and env are 40",
        ),
    ],
)
async def test_what_no_process_can_be_given_is_refused(
    local_harness: LocalHarness, fields: dict[str, object], says: str
) -> None:
    """It is refused by name and for good, before anything is launched."""
    scene = await Scene.of(local_harness)
    reply = await local_harness.cluster.start(await scene.start_order(job(**fields), scene.mark()))
    assert isinstance(reply, Refused)
    assert reply.permanent
    assert reply.reason.startswith(says)
    assert await scene.shown() == ()


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (("no-such-program", "x"), 127, "cannot start 'no-such-program': No such file"),
        (("/etc/passwd",), 126, "cannot start '/etc/passwd': Permission denied"),
    ],
)
async def test_a_command_that_cannot_start_says_why(
    local_harness: LocalHarness, command: tuple[str, ...], code: int, says: str
) -> None:
    """The exit code is a shell's, and cause and output tell what was wrong."""
    scene, sight = await run(local_harness, job(command=command))
    found = cause(sight)
    assert found is not None
    assert (found.kind, found.number) == (CauseKind.EXIT, code)
    assert says in found.detail
    assert says in await scene.output(sight)


@pytest.mark.parametrize("first", ["#!/bin/sh\r", "#! /no/such/sh -e"])
async def test_a_script_whose_interpreter_is_not_there_says_so(
    local_harness: LocalHarness, first: str
) -> None:
    """It is not the script that is missing, as the error of the kernel reads."""
    scene, sight = await run(local_harness, job(script=f"{first}\ntrue\n"))
    found = cause(sight)
    assert found is not None
    assert (found.kind, found.number) == (CauseKind.EXIT, 127)
    assert f"its interpreter {first[2:].strip(' ')!r} is not there" in found.detail
    assert found.detail in await scene.output(sight)


async def test_arguments_arrive_as_they_are(local_harness: LocalHarness) -> None:
    """No shell comes between the command and its program."""
    words = ("printf", "[%s]", "a b", "$HOME", "*", "", "ä'\"\n", "--")
    scene, sight = await run(local_harness, job(command=words))
    assert await scene.output(sight) == "".join(f"[{word}]" for word in words[2:])


async def test_a_script_may_name_its_interpreter(local_harness: LocalHarness) -> None:
    """A script with a #! line is run by that program, one without by sh."""
    script = f"#!{sys.executable}\nprint('python')\n"
    scene, sight = await run(local_harness, job(script=script))
    assert await scene.output(sight) == "python\n"
    scene, sight = await run(local_harness, job(script='echo "sh $0"\n'))
    folder = tools.submission_folder(local_harness, scene, sight)
    assert await scene.output(sight) == f"sh {folder}/script\n"


OF_THE_C_LIBRARY = 1 << 31 | 1 << 32
"""Signals 32 and 33: glibc keeps them for itself, and its posix_spawn (of make) ignores them."""


async def test_a_process_finds_signals_as_usual(local_harness: LocalHarness) -> None:
    """A run inherits neither blocked nor ignored signals, and leads a session of its own."""
    scene, sight = await run(local_harness, job(script="cat /proc/self/status; ps -o sid= -p $$"))
    lines = (await scene.output(sight)).splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert int(status["SigBlk"], 16) == 0
    assert int(status["SigIgn"], 16) & ~OF_THE_C_LIBRARY == 0


# --- what is left behind --------------------------------------------------------------------------

DAEMON = textwrap.dedent(
    """
    import os, sys, time
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(3, 100)
    os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
    """
)


@pytest.mark.parametrize(
    "leave",
    [
        "sleep SECONDS &",
        "setsid sleep SECONDS &",
        "(trap '' TERM; sleep SECONDS; sleep SECONDS) &",
        f"{shlex.quote(sys.executable)} -c {shlex.quote(DAEMON)} SECONDS; sleep 0.3",
    ],
    ids=["child", "session", "shrugs", "daemon without mark, session or descriptors"],
)
async def test_what_a_command_leaves_behind_is_ended(
    local_harness: LocalHarness, leave: str
) -> None:
    """The command's own end decides; its leftovers are ended before the object is idle."""
    seconds = tools.unique_seconds()
    script = f"{leave}\nexit 0\n".replace("SECONDS", seconds)
    _, sight = await run(local_harness, job(script=script))
    assert cause(sight) is None
    assert tools.sleepers(seconds) == []


async def test_a_stop_reaches_every_process(local_harness: LocalHarness) -> None:
    """Children get the warning too, so that a trainer below a shell can save its work."""
    script = (
        "#!/bin/sh\n"
        "sh -c 'trap \"echo saved; exit 0\" TERM; echo ready; while :; do sleep 0.05; done'\n"
        "sleep 60\n"
    )
    scene = await Scene.of(local_harness)
    sight = await scene.started(job(script=script))
    await scene.open(sight)
    while "ready" not in await _output_now(scene, sight):
        await local_harness.pause()
    assert await scene.stop(sight, grace=20) == Done()
    assert kind(await scene.ended(sight)) is CauseKind.CANCELLED_OUTSIDE
    assert "saved" in await scene.output(sight)


async def test_exit_zero_after_a_stop_is_no_success(local_harness: LocalHarness) -> None:
    """A run that was told to end and exits 0 was stopped, not successful."""
    script = "#!/bin/sh\ntrap 'exit 0' TERM\necho ready\nwhile :; do sleep 0.05; done\n"
    scene = await Scene.of(local_harness)
    sight = await scene.started(job(script=script))
    await scene.open(sight)
    while "ready" not in await _output_now(scene, sight):
        await local_harness.pause()
    await scene.stop(sight)
    assert cause(await scene.ended(sight)) == Cause(
        CauseKind.CANCELLED_OUTSIDE, detail="asked by a test"
    )


async def _output_now(scene: Scene, sight: Sight) -> str:
    piece = await scene.cluster.read_output(
        scene.key, sight.id, sight.mark, offset=0, limit=1 << 16
    )
    return piece.text


# --- reading --------------------------------------------------------------------------------------


async def test_a_result_is_of_the_start_that_wrote_it(local_harness: LocalHarness) -> None:
    """What lay there before is no result of this run."""
    scene = await Scene.of(local_harness)
    sight = await scene.started(job(command=("true",)))
    (tools.submission_folder(local_harness, scene, sight) / layout.RESULT).write_text("{}")
    await scene.open(sight)
    await scene.ended(sight)
    assert await local_harness.cluster.read_result(scene.key, sight.id, sight.mark) is None


async def test_output_that_is_no_text_is_shown_all_the_same(local_harness: LocalHarness) -> None:
    """Bytes that are no UTF-8 become replacement characters; the next text is whole again."""
    script = "printf '\\377\\376ok'; printf 'half \\303'; exec 2>&1; printf ' \\303\\244'"
    scene, sight = await run(local_harness, job(script=script))
    assert await scene.output(sight, limit=5) == "\ufffd\ufffdokhalf \ufffd ä"


async def test_half_a_character_waits_for_its_other_half(local_harness: LocalHarness) -> None:
    """While a run writes, a character that is not all there is left for the next piece."""
    work = Work(waits=True)
    go = local_harness.folder / f"{work.name}.go"
    waiting = f"while [ ! -e {shlex.quote(str(go))} ]; do sleep 0.05; done"
    script = f"printf 'a\\303'; {waiting}; printf '\\244'"
    scene = await Scene.of(local_harness)
    sight = await scene.started(job(script=script))
    await scene.open(sight)
    while await _output_now(scene, sight) != "a":
        await local_harness.pause()
    await local_harness.release(work)
    await scene.ended(sight)
    assert await scene.output(sight) == "aä"


async def test_a_file_that_cannot_be_read_is_told(local_harness: LocalHarness) -> None:
    """A broken record makes its object `unreadable`; a broken entry, its task's Find an error."""
    scene = await Scene.of(local_harness)
    sight = await scene.ended(await scene.running(Work()))
    assert not sight.unreadable
    folder = tools.submission_folder(local_harness, scene, sight)
    (folder / layout.GATE / f"exit.{sight.id}.0").write_text('{"code": "0"}')
    sight = await scene.look(sight.id)
    assert sight.unreadable
    assert kind(sight) is CauseKind.NODE_LOST
    (tools.entry_folder(local_harness, sight) / layout.ENTRY).write_text("{")
    with pytest.raises(TaskUnavailable, match="cannot be read") as raised:
        await scene.shown()
    assert raised.value.task_digest == scene.key.task.digest


async def test_looking_blocks_no_coroutine(local_harness: LocalHarness) -> None:
    """While starts, Finds and stops go on, the event loop is never held for long."""
    scene = await Scene.of(local_harness)
    marks = [scene.mark(attempt=n) for n in range(1, 11)]
    lags: list[float] = []
    done = asyncio.Event()

    async def measure() -> None:
        clock = asyncio.get_running_loop().time
        while not done.is_set():
            before = clock()
            await asyncio.sleep(0.005)
            lags.append(clock() - before - 0.005)

    measuring = asyncio.create_task(measure())
    await asyncio.gather(*(scene.started(job(command=("true",)), mark) for mark in marks))
    await asyncio.gather(*(scene.shown() for _ in range(20)))
    assert await scene.stop_job() == Done()
    done.set()
    await measuring
    # Half of what was measured: a busy host holds up a loop now and then all by itself.
    assert sorted(lags)[len(lags) // 2] < 0.05


def test_limits_fit_each_other() -> None:
    """What may be asked for can be written: a record of an end holds the longest reason."""
    longest = limits.REASON_CHARS_MAX * len("\\U0001f680")
    assert longest < limits.LOCAL_RECORD_BYTES_MAX
    assert os.sysconf("SC_PAGE_SIZE") * 32 >= 128 << 10
