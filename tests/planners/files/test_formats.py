"""The registry of file formats: which reader takes a file, and what a broken one may do."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

import planners
from planners.errors import InstanceError
from planners.files import formats as module
from planners.files.formats import Format, formats, read_problem
from planners.files.recording_slice import RecordingSlice
from planners.first_use import at_first_use
from planners.model.problem import Problem
from planners.registry import Registry


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stand in for what installed packages offer."""
    entries: list[Any] = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: entries)
    forget_formats(monkeypatch)
    return entries


def forget_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FORMATS", Registry("file format"))
    monkeypatch.setattr(module, "load_formats", at_first_use(module.load_formats.__wrapped__))  # type: ignore[attr-defined]


def entry(name: str, loaded: object) -> SimpleNamespace:
    def load() -> object:
        if isinstance(loaded, Exception):
            raise loaded
        return loaded

    return SimpleNamespace(name=name, value="somewhere", load=load)


def raises(error: BaseException) -> Callable[..., Any]:
    def fail(*_given: object) -> NoReturn:
        raise error

    return fail


def one_tensor(path: Path) -> Problem:
    return Problem(size=[1], start=[0], end=[1], name=path.stem)


def test_the_exported_reader_reads_every_format(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,lower,upper,size\na,0,2,4\nb,1,3,5\n")
    assert planners.read_problem(path).naive_bytes == 9
    assert planners.read_problem(str(path), RecordingSlice()).name == "a"


def test_packed_json_is_known_whatever_comes_before_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "run.gz"
    planners.write_problem(Problem([1], [0], [1], name="packed"), path)
    assert planners.read_problem(path).name == "packed"
    for content in (b"", b"\x1f\x8b", gzip.compress(b"id,lower,upper,size\n")):
        path.write_bytes(content)
        with pytest.raises(InstanceError, match="no known format recognises this file"):
            planners.read_problem(path)


def test_the_first_bytes_decide_where_the_suffix_does_not(
    offered: list[Any], tmp_path: Path
) -> None:
    magic = Format("magic", (".mgc",), lambda _, head: head.startswith(b"MAGIC"), one_tensor)
    offered.append(entry("magic", magic))
    path = tmp_path / "file.dat"
    path.write_bytes(b"MAGIC...")
    assert read_problem(path).name == "file"


def test_of_two_that_recognise_a_file_the_suffix_decides(
    offered: list[Any], tmp_path: Path
) -> None:
    offered.append(entry("own", Format("own", (".own",), lambda _path, _head: True, one_tensor)))
    path = tmp_path / "file.own"
    path.write_bytes(b"{}")
    assert read_problem(path).name == "file"
    other = tmp_path / "file.json"
    other.write_bytes(b"{}")
    with pytest.raises(InstanceError, match="field format: missing"):
        read_problem(other)


def test_an_unknown_format_lists_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"\x00\x01")
    expected = r"known: gapless-json \(\.json \.json\.gz\), minimalloc-csv \(\.csv\)"
    with pytest.raises(InstanceError, match=expected):
        read_problem(path)


@pytest.mark.parametrize(
    ("loaded", "message"),
    [
        (ImportError("no such thing"), "file format bad .somewhere. is left out: ImportError"),
        (42, "file format bad is left out: TypeError: a planners.files.formats.Format is needed"),
        (
            Format("gapless-json", (), lambda *_: False, one_tensor),
            "'gapless-json' registered already",
        ),
        (
            Format("bad", (3,), lambda *_: False, one_tensor),  # type: ignore[arg-type]
            "file format bad is left out: TypeError: tuple for endswith must only",
        ),
    ],
)
def test_a_broken_offer_warns_and_the_next_is_taken(
    offered: list[Any], loaded: object, message: str
) -> None:
    good = Format("good", (), lambda *_: False, one_tensor)
    offered.extend([entry("bad", loaded), entry("good", good)])
    with pytest.warns(UserWarning, match=message):
        assert [form.name for form in formats()] == ["gapless-json", "good"]


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (raises(ZeroDivisionError("oops")), "ZeroDivisionError: oops"),
        (raises(SystemExit(0)), "SystemExit: 0"),
        (raises(ValueError("\x1b[2Ja\nb")), "ValueError: a b$"),
        (lambda _path: "no problem", "TypeError: a Problem is needed, found str"),
    ],
)
def test_a_reader_that_fails_is_named(
    offered: list[Any], tmp_path: Path, read: Callable[[Path], Any], said: str
) -> None:
    offered.append(entry("bad", Format("bad", (".bad",), lambda *_: True, read)))
    path = tmp_path / "file.bad"
    path.write_bytes(b"")
    with pytest.raises(InstanceError, match=f"the reader bad failed: {said}"):
        read_problem(path)


@pytest.mark.parametrize("error", [KeyError("oops"), SystemExit(0)])
def test_one_that_fails_to_recognise_warns_and_the_others_go_on(
    offered: list[Any], tmp_path: Path, error: BaseException
) -> None:
    offered.append(entry("bad", Format("bad", (".bad",), raises(error), one_tensor)))
    path = tmp_path / "file.json"
    path.write_bytes(b"[]")
    kind = type(error).__name__
    with pytest.warns(UserWarning, match=kind), pytest.raises(InstanceError, match="object"):
        read_problem(path)


def test_a_slice_is_read_by_formats_that_hold_recordings(
    offered: list[Any], tmp_path: Path
) -> None:
    def read_slice(_path: Path, recording_slice: RecordingSlice) -> Problem:
        return Problem(size=[recording_slice.round_to], start=[0], end=[1], name="part")

    recording = Format("recording", (".rec",), lambda *_: True, one_tensor, read_slice)
    offered.append(entry("recording", recording))
    path = tmp_path / "run.rec"
    path.write_bytes(b"")
    assert read_problem(path).name == "run"
    assert read_problem(path, RecordingSlice()).name == "run"
    assert read_problem(path, RecordingSlice(round_to=8)).size.tolist() == [8]


def test_a_slice_of_a_single_problem_is_refused(
    offered: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(b"{}")
    asked = RecordingSlice(-1, round_to=512)
    message = r"file\.json: --iteration, --round-to: a recording is needed \(no known format"
    with pytest.raises(InstanceError, match=message):
        read_problem(path, asked)
    offered.append(entry("r", Format("r", (".r",), lambda *_: False, one_tensor, lambda *_: None)))  # type: ignore[arg-type,return-value]
    forget_formats(monkeypatch)
    with pytest.raises(InstanceError, match=r"needed \(r\), found gapless-json, which holds one"):
        read_problem(path, asked)
