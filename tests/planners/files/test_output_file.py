"""Writers keep what they would replace until the new file is whole, and replace no input."""

from __future__ import annotations

import ast
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation.plots.layout import draw_layout
from instances.catalogue.catalogue_file import write_catalogue
from instances.formats.minimalloc_csv import write_minimalloc_csv
from instances.formats.perfetto_trace import write_perfetto_trace
from instances.formats.pytorch_snapshot import write_planned_snapshot
from instances.formats.recorded_trace import write_recorded_trace
from instances.formats.stalloc_text import write_stalloc_text
from instances.traces.allocation_trace import AllocationTrace
from planners import Problem, bounds_of, run, write_plan, write_problem
from planners.errors import GaplessError
from planners.files.output_file import replacing, require_suffix, require_targets, write_output
from tests.repository import ROOT

PACKAGES = ("planners", "instances", "gpu_runtime", "evaluation")
OLD = b"what was there"
ROOM_BYTES = 20

PROBLEM = Problem([4, 4, 2], [0, 1, 2], [3, 4, 5], name="toy")
RESULT = run(PROBLEM, "naive")
assert RESULT.plan is not None
PLAN = RESULT.plan
TRACE = AllocationTrace(2, [8], [0], [1], [1], address=[64])

WRITERS: dict[str, Callable[[Path], object]] = {
    "problem.json": lambda path: write_problem(PROBLEM, path),
    "problem.json.gz": lambda path: write_problem(PROBLEM, path),
    "plan.json": lambda path: write_plan(PROBLEM, RESULT, path),
    "plan.csv": lambda path: write_minimalloc_csv(PROBLEM, path, PLAN),
    "plan.pickle": lambda path: write_planned_snapshot(PROBLEM, PLAN, path),
    "plan.perfetto.json": lambda path: write_perfetto_trace(PROBLEM, PLAN, path),
    "trace.npz": lambda path: write_recorded_trace(TRACE, path),
    "trace.txt": lambda path: write_stalloc_text(TRACE, path),
    "catalogue.toml": lambda path: write_catalogue([], path),
    "layout.png": lambda path: draw_layout(PROBLEM, RESULT, bounds_of(PROBLEM), path),
}


@contextmanager
def a_full_disk() -> Iterator[None]:
    """Let no file of this process grow beyond a few bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_loses_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(OLD)
    WRITERS["layout.png"](tmp_path / "warm.png")  # matplotlib writes its own cache at first
    (tmp_path / "warm.png").unlink()
    with a_full_disk(), pytest.raises(GaplessError, match=f"{name}: it cannot be written: File t"):
        WRITERS[name](path)
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]
    WRITERS[name](path)
    assert len(path.read_bytes()) > ROOM_BYTES
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, MemoryError])
def test_an_error_within_the_writing_loses_nothing(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(OLD)

    def write_half() -> None:
        with replacing(path) as file:
            file.write(b"half of it")
            file.flush()
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_the_target_is_whole_at_every_moment(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"new"


def test_a_link_stays_and_leads_to_the_new_file(tmp_path: Path) -> None:
    target, link = tmp_path / "there" / "a.json", tmp_path / "link.json"
    target.parent.mkdir()
    link.symlink_to(target)
    for content in (b"made", b"replaced"):  # first through a link to nothing
        write_output(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert list(target.parent.iterdir()) == [target]


def test_permissions_stay_and_new_ones_obey_the_umask(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(OLD)
    old.chmod(0o604)
    before = os.umask(0o027)
    try:
        write_output(old, b"")
        write_output(new, b"")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (old, new)] == [0o604, 0o640]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    write_output(path, b"through")
    reader.join()
    assert received == [b"through"]
    assert path.is_fifo()


def test_standard_output_is_written_where_it_is(tmp_path: Path) -> None:
    code = (
        "from planners.files.output_file import write_output\n"
        "for name in ('/dev/stdout', '/dev/fd/1', '/proc/self/fd/1'):\n"
        "    print('before'); write_output(name, b'written\\n'); print('after')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, cwd=ROOT, check=True)
    assert (tmp_path / "out").read_text() == 3 * "before\nwritten\nafter\n"


def test_a_name_of_full_length_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 250 + ".json")
    write_output(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("path", ["/dev/full", "none/a.json", "a\0b", "x" * 300])
def test_a_path_that_cannot_be_written_is_refused_in_one_line(path: str) -> None:
    with pytest.raises(GaplessError) as caught:
        write_output(path, b"much")
    assert "\n" not in str(caught.value)


def test_no_input_is_a_target_under_any_name(tmp_path: Path) -> None:
    source, link, hard = (tmp_path / name for name in ("a.json", "link.json", "hard.json"))
    source.write_bytes(OLD)
    link.symlink_to(source)
    hard.hardlink_to(source)
    for target in (source, link, hard, tmp_path / "." / "x" / ".." / "a.json"):
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(GaplessError, match=r"--out .*a file of its own is needed, found .*a"):
            require_targets({"--out": target}, [None, source])
    require_targets({"--out": tmp_path / "b.json", "--other": None}, [source])


def test_two_targets_are_two_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "folder")
    for first, second in (("a", "a"), ("folder/a", "link/a")):
        with pytest.raises(GaplessError, match="--one and --two: two files are needed"):
            require_targets({"--one": tmp_path / first, "--two": tmp_path / second})


def test_a_device_may_be_read_and_written() -> None:
    require_targets({"--out": Path("/dev/null")}, [Path("/dev/null")])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (".", "a file is needed, found a folder"),
        ("none/a.json", "the folder .*none does not exist"),
        ("file/a.json", "it cannot be written: Not a directory"),
        ("a\0b", "no file can have this name"),
        ("x" * 300, "it cannot be written: File name too long"),
        ("loop", "it cannot be written: Too many levels of symbolic links"),
    ],
)
def test_a_target_that_cannot_be_is_refused_before_the_work(
    tmp_path: Path, target: str, message: str
) -> None:
    (tmp_path / "file").write_bytes(OLD)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(GaplessError, match=f"--out .*{message}"):
        require_targets({"--out": tmp_path / target})


def test_a_suffix_counts_for_plain_files_alone(tmp_path: Path) -> None:
    suffixes = (".json", ".json.gz")
    with pytest.raises(GaplessError, match=r"written as \.json or \.json\.gz, found the name 'a'"):
        require_suffix("--out", tmp_path / "a", "a plan", suffixes)
    require_suffix("--out", tmp_path / "a.JSON", "a plan", suffixes)
    require_suffix("--out", Path("/dev/stdout"), "a plan", suffixes)


# These write in place: the writer, temporary files, messages to processes, a lock without bytes.
WRITE_IN_PLACE = {
    "planners/files/output_file.py",
    "planners/exact/ilp/cbc.py",
    "planners/files/replayed_pipe.py",
    "evaluation/measuring/cores.py",
    "evaluation/measuring/measured_command.py",
    "evaluation/measuring/resident_memory.py",
    "evaluation/study/plugins.py",
    "gpu_runtime/allocator/pytorch/compiled_decorator.py",
    "instances/extract/record/ranks/conversation.py",
}


def test_nothing_else_writes_files() -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if any(map(writes_in_place, ast.walk(ast.parse(path.read_text()))))
    }
    assert found == WRITE_IN_PLACE


def writes_in_place(node: ast.AST) -> bool:
    """Return whether a call may write to a path: by its name, or by a mode that says so."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    if name in ("write_text", "write_bytes", "tofile", "dump", "savetxt"):
        return True
    modes = [*node.args, *(key.value for key in node.keywords)]
    return name == "open" and any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and 0 < len(mode.value) <= 3
        and bool(set(mode.value) & set("wax+"))
        for mode in modes
    )
