"""Mutated files of every format are read or refused by one line, in little memory and time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import readers
from tests.fuzz.limited_child import MIB, limit_cpu, lines_of_child
from tests.fuzz.readers import faults_of, fuzz
from tests.fuzz.valid_models import WRITERS
from tests.slow import one_by_one

SEED = 13


@one_by_one("files", [400, 3000], first=1)
def test_mutated_files_are_read_or_refused(tmp_path: Path, files: int) -> None:
    failures = fuzz(SEED, files, tmp_path)
    assert not failures, f"seed {SEED}: " + "\n".join(failures)


@pytest.mark.parametrize(
    "package", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in WRITERS]
)
def test_mutated_models_are_read_or_refused(tmp_path: Path, package: str) -> None:
    failures = fuzz(SEED, 150, tmp_path, write_valid=WRITERS[package])
    assert not failures, f"seed {SEED}: " + "\n".join(failures)


def test_a_failure_is_told_and_its_file_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "faults_of", lambda path, _: [f"no {path.suffix}"])
    failures = fuzz(SEED, 2, tmp_path / "kept")
    kept = sorted((tmp_path / "kept").iterdir())
    assert len(failures) == len(kept) == 2
    for number, (failure, path) in enumerate(zip(failures, kept, strict=True)):
        assert path.name.startswith(f"seed-{SEED}-file-{number}-")
        assert failure.startswith(f"{path}: ")
        assert failure.endswith(f" bytes, no {path.suffix}")


@pytest.mark.parametrize("error", [MemoryError("m"), RecursionError("r"), UserWarning("w")])
def test_an_unexpected_error_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(_path: Path) -> None:
        raise error

    monkeypatch.setattr(readers, "read_catalogue", fails)
    (fault,) = faults_of(tmp_path / "a.toml", Random(1))
    assert fault.startswith(f"{type(error).__name__} at ")


def hangs(_say: Callable[[str], None]) -> None:
    limit_cpu(0)
    while True:
        pass


def test_a_child_that_takes_too_much_dies_alone() -> None:
    assert list(lines_of_child(hangs, 64 * MIB)) == ["killed by SIGXCPU"]
    takes_memory = list(lines_of_child(lambda say: say(str(bytes(256 * MIB)[0])), 64 * MIB))
    assert takes_memory == ["ended without a word"]
    assert list(lines_of_child(lambda say: say("done"), 64 * MIB)) == ["done"]
