"""Train a classifier of handwritten digits, with checkpoints, so that any run can go on elsewhere.

What it shows to whoever writes a training for airflow-dispatch: the few things a training does to
survive preemption, a time limit or a second try. It imports nothing of airflow-dispatch; all that
it is told comes in environment variables, and each of them may be absent:

- `DISPATCH_RUN_DIR`: the folder of all tries; checkpoints go to its `checkpoints/`;
- `DISPATCH_RESUME`: `1` when an earlier try left something to go on from;
- `DISPATCH_RESULT`: where to write the result, which becomes the task's XCom;
- `DISPATCH_SUBMISSION`, `DISPATCH_ATTEMPT`, `DISPATCH_GENERATION`: printed, to tell tries apart.

It promises: a checkpoint is whole or absent, never torn; a run that was interrupted and resumed
ends with the same weights as one that was not; SIGTERM, the warning before a stop, saves the last
whole epoch and exits with 143. What `checkpoints/` holds decides where it starts. A checkpoint of
other settings is refused: to mix two trainings would be worse than to stop.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

EXIT_REFUSED = 2
EXIT_WARNED = 128 + signal.SIGTERM
CHECKPOINTS_KEPT = 2
WARNING_POLL_SECONDS = 0.2

Array = np.ndarray[Any, Any]
Report = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """What shapes the weights: a checkpoint goes on only under the settings that made it."""

    seed: int = 0
    hidden_units: int = 64
    learning_rate: float = 0.05
    batch_size: int = 32


@dataclass(frozen=True)
class Schedule:
    """How long to train and how often to save; it may differ between a run and its resume."""

    epochs: int = 20
    epochs_per_checkpoint: int = 1
    seconds_per_epoch: float = 0.0


@dataclass(frozen=True)
class Place:
    """Where the run keeps its checkpoints and writes its result."""

    checkpoints: Path
    result: Path
    resume_expected: bool = False

    @classmethod
    def of(cls, environ: Mapping[str, str], fallback: Path) -> Place:
        """Read the folders from the environment; outside dispatch use `fallback`."""
        run = Path(environ.get("DISPATCH_RUN_DIR") or fallback)
        return cls(
            checkpoints=run / "checkpoints",
            result=Path(environ.get("DISPATCH_RESULT") or run / "result.json"),
            resume_expected=environ.get("DISPATCH_RESUME") == "1",
        )


class CheckpointRefusedError(Exception):
    """A checkpoint exists, and to go on from it would mix two trainings."""


class StopWarning:
    """Whether SIGTERM came. The handler only sets a flag: the loop acts between two epochs."""

    def __init__(self) -> None:
        self.received = False

    def on_signal(self, *_: object) -> None:
        """Note the signal."""
        self.received = True

    def comes_within(self, seconds: float) -> bool:
        """Wait so long, or less when the warning comes; tell whether it came."""
        deadline = time.monotonic() + seconds
        while not self.received and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, WARNING_POLL_SECONDS))
        return self.received


def main(argv: Sequence[str], environ: Mapping[str, str], report: Report | None = None) -> int:
    """Train as the arguments and the environment say; return the exit code."""
    report = report or print_line
    options = parse(argv)
    schedule = Schedule(options.epochs, options.epochs_per_checkpoint, options.seconds_per_epoch)
    place = Place.of(environ, options.folder)
    words = ("submission", "attempt", "generation")
    told = (f"{word} {environ.get(f'DISPATCH_{word.upper()}', '-')}" for word in words)
    report(f"digits: {schedule.epochs} epochs; {', '.join(told)}")
    warning = StopWarning()
    with ExitStack() as undo:
        undo.callback(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        signal.signal(signal.SIGTERM, warning.on_signal)
        try:
            training = Training(Settings(seed=options.seed), place, report=report)
            finished = training.run(schedule, warning)
        except CheckpointRefusedError as refused:
            report(f"refused: {refused}")
            return EXIT_REFUSED
    if not finished:
        report(f"warned by SIGTERM: saved epoch {training.epoch}, a next try goes on from there")
        return EXIT_WARNED
    result = training.result()
    write_whole(place.result, lambda file: file.write(json.dumps(result).encode()))
    report(f"done: accuracy {result['accuracy']:.4f}, written to {place.result}")
    return 0


class Training:
    """A model, the data it learns from, and the number of whole epochs behind it.

    All that an epoch does follows from the weights before it, the seed and the epoch's number: no
    momentum, no random state carried over. So a checkpoint is the weights and nothing else.
    """

    def __init__(self, settings: Settings, place: Place, *, report: Report) -> None:
        self.settings = settings
        self.place = place
        self.report = report
        digits = load_digits()
        self.images, self.test_images, self.labels, self.test_labels = train_test_split(
            digits.data / 16.0, digits.target, test_size=0.25, random_state=settings.seed
        )
        self.model = MLPClassifier(
            hidden_layer_sizes=(settings.hidden_units,),
            solver="sgd",
            momentum=0.0,
            learning_rate_init=settings.learning_rate,
            batch_size=settings.batch_size,
            shuffle=False,
            random_state=settings.seed,
        )
        self.epoch = 0
        self.place.checkpoints.mkdir(parents=True, exist_ok=True)
        self.resume()
        self.resumed_after_epoch = self.epoch

    def run(self, schedule: Schedule, warning: StopWarning) -> bool:
        """Train to the schedule's end; return False where the warning came first."""
        while self.epoch < schedule.epochs:
            self.learn()
            self.report(
                f"epoch {self.epoch}/{schedule.epochs} "
                f"loss {self.model.loss_:.4f} accuracy {self.accuracy():.4f}"
            )
            warned = warning.comes_within(schedule.seconds_per_epoch)
            last = self.epoch >= schedule.epochs
            if warned or last or self.epoch % schedule.epochs_per_checkpoint == 0:
                self.save()
            if warned and not last:
                return False
        return True

    def learn(self) -> None:
        """Go once over the training images, in an order of this epoch's own."""
        order = np.random.default_rng((self.settings.seed, self.epoch)).permutation(
            len(self.images)
        )
        self.model.partial_fit(self.images[order], self.labels[order], classes=range(10))
        self.epoch += 1

    def accuracy(self) -> float:
        """Return the share of unseen images that the model names right."""
        return float(self.model.score(self.test_images, self.test_labels))

    def result(self) -> dict[str, float]:
        """Return what the task hands on."""
        return {
            "accuracy": self.accuracy(),
            "epochs": self.epoch,
            "resumed_after_epoch": self.resumed_after_epoch,
        }

    def weights(self) -> list[Array]:
        """Return the arrays that the model is made of; to write into them changes the model."""
        return [*self.model.coefs_, *self.model.intercepts_]

    def save(self) -> None:
        """Write the checkpoint of this epoch, then drop the oldest ones."""
        marks = np.array(json.dumps(dataclasses.asdict(self.settings)))
        write_whole(
            self.place.checkpoints / f"epoch-{self.epoch:06d}.npz",
            lambda file: np.savez(file, *self.weights(), settings=marks),
        )
        for old in self.checkpoints()[CHECKPOINTS_KEPT:]:
            old.unlink(missing_ok=True)

    def resume(self) -> None:
        """Go on from the newest checkpoint that can be read, if there is one."""
        for path in self.checkpoints():
            try:
                stored = read_arrays(path)
            except (OSError, ValueError, zipfile.BadZipFile) as damage:
                self.report(f"{path.name} cannot be read ({damage}); trying the one before")
                continue
            self.restore(path, stored)
            self.report(f"resuming after epoch {self.epoch}")
            return
        if self.place.resume_expected:
            self.report("told to resume, but no checkpoint can be read: training from the start")

    def restore(self, path: Path, stored: Mapping[str, Array]) -> None:
        """Put a checkpoint's weights into the model."""
        settings = dataclasses.asdict(self.settings)
        if (theirs := json.loads(str(stored["settings"]))) != settings:
            message = f"{path} was made with {theirs}, this run has {settings}; nothing was changed"
            raise CheckpointRefusedError(f"{message}. Use those settings or another folder.")
        self.learn()  # A model has no weights before it learns: these are overwritten at once.
        for i, weights in enumerate(self.weights()):
            weights[...] = stored[f"arr_{i}"]
        self.epoch = int(path.stem.removeprefix("epoch-"))

    def checkpoints(self) -> list[Path]:
        """List the checkpoints, the newest first."""
        return sorted(self.place.checkpoints.glob("epoch-*.npz"), reverse=True)


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file so that, whatever happens, its name shows all of it or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with unfinished.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_arrays(path: Path) -> dict[str, Array]:
    """Read a checkpoint; it holds plain arrays only, never code."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def print_line(line: str) -> None:
    """Print at once: whoever follows the run sees each epoch when it ends."""
    print(line, flush=True)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a classifier of handwritten digits.")
    parser.add_argument("--epochs", type=positive, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds-per-epoch", type=float, default=0.0, help="wait after each, so a demo lasts"
    )
    parser.add_argument("--epochs-per-checkpoint", type=positive, default=1)
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("digits-run"),
        help="used when DISPATCH_RUN_DIR does not say where (default: %(default)s)",
    )
    return parser.parse_args(argv)


def positive(text: str) -> int:
    """Read a number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
