"""The digits example: what its checkpoints, its warning signal and its result promise."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from dags_examples.digits import train

EPOCHS = 6


def trained(folder: Path, *arguments: str, warn_after: int | None = None, **told: str) -> list[str]:
    """Run the training in `folder`; return its lines, then `exit CODE`."""
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        if warn_after is not None and line.startswith(f"epoch {warn_after}/"):
            signal.raise_signal(signal.SIGTERM)

    environ = {"DISPATCH_RUN_DIR": str(folder)} | told
    code = train.main(["--epochs", str(EPOCHS), *arguments], environ, report)
    return [*lines, f"exit {code}"]


def final_weights(folder: Path) -> dict[str, train.Array]:
    """Read the weights of the last checkpoint."""
    stored = train.read_arrays(folder / "checkpoints" / f"epoch-{EPOCHS:06d}.npz")
    return {name: array for name, array in stored.items() if name != "settings"}


def result(folder: Path) -> dict[str, float]:
    """Read what the run handed on."""
    read: dict[str, float] = json.loads((folder / "result.json").read_bytes())
    return read


def test_it_learns_the_digits(tmp_path: Path) -> None:
    """A short training names at least nine in ten unseen digits right, one line per epoch."""
    lines = trained(tmp_path)
    assert lines[-1] == "exit 0"
    assert sum(line.startswith("epoch ") for line in lines) == EPOCHS
    assert result(tmp_path) == {
        "accuracy": pytest.approx(0.95, abs=0.05),
        "epochs": EPOCHS,
        "resumed_after_epoch": 0,
    }


def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    """A run that SIGTERM cut twice ends with the very weights of one that nothing disturbed."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    trained(whole)
    rarely = ("--epochs-per-checkpoint", "100")
    assert trained(cut, *rarely, warn_after=2)[-1] == f"exit {128 + signal.SIGTERM}"
    assert not (cut / "result.json").exists()
    assert trained(cut, *rarely, warn_after=5, DISPATCH_RESUME="1")[-1] == "exit 143"
    lines = trained(cut, *rarely, DISPATCH_RESUME="1")
    assert "resuming after epoch 5" in lines
    assert lines[-1] == "exit 0"
    undisturbed, resumed = final_weights(whole), final_weights(cut)
    assert undisturbed.keys() == resumed.keys() == {"arr_0", "arr_1", "arr_2", "arr_3"}
    for name, weights in undisturbed.items():
        np.testing.assert_array_equal(weights, resumed[name])
    assert result(cut)["accuracy"] == result(whole)["accuracy"]
    assert result(cut)["resumed_after_epoch"] == 5


def test_a_warning_in_the_last_epoch_does_not_waste_it(tmp_path: Path) -> None:
    """All epochs are done when the warning comes: the run ends well."""
    assert trained(tmp_path, warn_after=EPOCHS)[-1] == "exit 0"


def test_a_finished_training_is_not_repeated(tmp_path: Path) -> None:
    """Started again in its folder, it trains nothing and hands on the same accuracy."""
    trained(tmp_path)
    before = result(tmp_path)
    lines = trained(tmp_path, DISPATCH_RESUME="1")
    assert not any(line.startswith("epoch ") for line in lines)
    assert result(tmp_path) == before | {"resumed_after_epoch": EPOCHS}


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path) -> None:
    """Two checkpoints are kept; a damaged newest one is named and the older one used."""
    trained(tmp_path, warn_after=4)
    kept = sorted((tmp_path / "checkpoints").iterdir())
    assert [path.name for path in kept] == ["epoch-000003.npz", "epoch-000004.npz"]
    kept[-1].write_bytes(kept[-1].read_bytes()[:1000])
    lines = trained(tmp_path, DISPATCH_RESUME="1")
    assert any(line.startswith("epoch-000004.npz cannot be read") for line in lines)
    assert "resuming after epoch 3" in lines


def test_told_to_resume_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    """A lost checkpoint folder is told in the log; the training starts from the beginning."""
    lines = trained(tmp_path, DISPATCH_RESUME="1")
    assert any(line.startswith("told to resume, but no checkpoint") for line in lines)
    assert result(tmp_path)["resumed_after_epoch"] == 0


def test_another_seed_is_refused(tmp_path: Path) -> None:
    """A checkpoint of another seed is neither used nor overwritten."""
    trained(tmp_path, warn_after=1)
    before = sorted((tmp_path / "checkpoints").iterdir())
    lines = trained(tmp_path, "--seed", "1")
    assert lines[-2].startswith("refused: ")
    assert lines[-1] == "exit 2"
    assert sorted((tmp_path / "checkpoints").iterdir()) == before


def test_it_runs_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a DISPATCH variable everything goes to the folder that --folder names."""
    assert train.main(["--epochs", "1", "--folder", str(tmp_path)], {}) == 0
    assert result(tmp_path)["epochs"] == 1
    assert "submission -, attempt -, generation -" in capsys.readouterr().out


def test_the_result_goes_where_it_is_asked_for(tmp_path: Path) -> None:
    """DISPATCH_RESULT names the file, its folder made if need be."""
    asked = tmp_path / "1.1" / "result.json"
    trained(tmp_path, DISPATCH_RESULT=str(asked))
    assert json.loads(asked.read_bytes())["epochs"] == EPOCHS
    assert not (tmp_path / "result.json").exists()


def test_the_signal_handler_is_put_back(tmp_path: Path) -> None:
    """The training leaves the process's signal handling as it found it."""
    before = signal.getsignal(signal.SIGTERM)
    trained(tmp_path, warn_after=1)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    """An error in the middle of a write does not touch the file's old content."""
    path = tmp_path / "result.json"
    path.write_text("old")

    def fail(_: object) -> None:
        raise OSError(os.strerror(28))

    with pytest.raises(OSError, match="No space left"):
        train.write_whole(path, fail)
    assert path.read_text() == "old"


@pytest.mark.parametrize("bad", [["--epochs", "0"], ["--epochs", "many"], ["--seed", "x"]])
def test_bad_options_are_refused(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A number that makes no training is refused before anything is written."""
    with pytest.raises(SystemExit, match="2"):
        train.main(bad, {})
    assert "error: argument" in capsys.readouterr().err
