"""STAlloc's text traces: requests, iterations, phases and modules, read and written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats import stalloc_text
from instances.formats.stalloc_text import STALLOC_TEXT, read_stalloc_trace, write_stalloc_text
from instances.traces.allocation_trace import AllocationTrace, Phase
from planners.errors import GaplessError, InstanceError
from planners.files.formats import read_problem
from planners.files.recording_slice import RecordingSlice

FORWARD, BACKWARD = int(Phase.FORWARD), int(Phase.BACKWARD)

TEXT = """\
1 0x7f1e41329c00 1048576 0
1 0 512 0
decoder.layers.3.mlp->MoELayer Layer : F-start
decoder.layers.3.mlp->MoELayer Layer : F-end
Iteration Index : 0
1 0xa00 64 0
micro-batch : F
decoder.layers.3.mlp->MoELayer Layer : F-start
token_dispatcher preprocess: F-start
1 0xb00 100 0x55d0c0ffee00
token_dispatcher preprocess: F-end
token_permutation : F-start
decoder.layers.3.mlp.experts->SequentialMLP Layer : F-start
1 0xc00 200 0
decoder.layers.3.mlp.experts->SequentialMLP Layer : F-end
0 0xb00 100 0
token_permutation : F-end
decoder.layers.3.mlp->MoELayer Layer : F-end
micro-batch : B
0 0xc00 200 0
micro-batch : F
micro-batch : W
Iteration Index : 1
1 0xc00 300 0
Iteration Index : end
0 0x7f1e41329c00 1048576 0
garbage
"""
MOE, EXPERTS = "decoder.layers.3.mlp->MoELayer", "decoder.layers.3.mlp.experts->SequentialMLP"


def written(folder: Path, text: str, name: str = "mem_log_dev0.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_requests_are_read_with_stream_and_innermost_module(tmp_path: Path) -> None:
    trace = read_stalloc_trace(written(tmp_path, TEXT))
    assert trace.size.tolist() == [1048576, 64, 100, 200, 300]
    assert trace.alloc.tolist() == [0, 1, 2, 3, 6]
    assert trace.freed.tolist() == [7, 7, 4, 5, 7]
    assert trace.free_requested.tolist() == trace.freed.tolist()
    assert trace.stream.tolist() == [0, 0, 0x55D0C0FFEE00, 0, 0]
    assert trace.address.tolist() == [0x7F1E41329C00, 0xA00, 0xB00, 0xC00, 0xC00]
    assert trace.module_names == (MOE, EXPERTS)
    assert trace.alloc_module.tolist() == [-1, -1, 0, 1, -1]
    assert trace.free_module.tolist() == [-1, -1, 0, -1, -1]


def test_an_iteration_begins_at_its_own_line(tmp_path: Path) -> None:
    trace = read_stalloc_trace(written(tmp_path, TEXT))
    assert trace.mark_event.tolist() == [1, 5, 6, 6, 6]
    assert trace.mark_phase.tolist() == [FORWARD, BACKWARD, FORWARD, BACKWARD, FORWARD]
    assert trace.mark_microbatch.tolist() == [0, 0, 1, 0, 0]
    assert trace.mark_iteration.tolist() == [0, 0, 0, 0, 1]


def test_an_iteration_comes_with_phases_modules_and_what_is_dynamic(tmp_path: Path) -> None:
    problem = read_problem(
        written(tmp_path, TEXT), RecordingSlice(0, dynamic_modules=("*.experts->*",))
    )
    assert problem.size.tolist() == [1048576, 64, 100, 200]
    for column, values in (
        ("phase_start", [-1, 0, 0, 0]), ("phase_end", [4, 4, 0, 1]),
        ("layer_start", [-1, -1, 0, 1]), ("dynamic", [False, False, False, True]),
    ):  # fmt: skip
        assert getattr(problem, column).tolist() == values, column
    with pytest.raises(InstanceError, match=r"dev0\.txt: iteration 2: the trace has the iter"):
        read_problem(written(tmp_path, TEXT), RecordingSlice(2))


def test_without_iterations_all_is_set_up(tmp_path: Path) -> None:
    trace = read_stalloc_trace(written(tmp_path, "1 0xa 8 0\nmicro-batch : F\n"))
    assert trace.iteration_count == 0
    assert len(trace.mark_event) == 0


def test_a_module_that_begins_inside_ends_with_the_one_around_it(tmp_path: Path) -> None:
    text = "a->A Layer : B-start\nb->B Layer : B-start\na->A Layer : B-end\n1 0xa 8 0\n"
    assert read_stalloc_trace(written(tmp_path, text)).alloc_module.tolist() == [-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0xa 8 0\n1 0xb 8\n", "line 2: a request .* found '1 0xb 8'"),
        ("2 0xa 8 0\n", "line 1: a request"),
        ("1 0xa -8 0\n", "line 1: a request"),
        ("1 12 8 0\n", "line 1: a request"),
        ("Iteration Index : -1\n", "line 1: a request"),
        ("micro-batch : X\n", "line 1: a request"),
        ("1 0xffffffffffffffff 8 0\n", "line 1: numbers up to"),
        ("1 0xa 9999999999999999999 0\n", "line 1: numbers up to"),
        ("Iteration Index : 1\nIteration Index : 1\n", "line 2: iterations ascend, found 1"),
        ("a->A Layer : F-end\n", "line 1: a module ends after it began, found the end of 'a->A'"),
        ("1 0xa 8 0\n1 0xa 8 0\n", "event 1: an address is allocated once"),
        ("\n\nx" * 9, "line 3: a request"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InstanceError, match=message) as raised:
        read_stalloc_trace(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalloc_text, "MAX_TEXT_BYTES", 10)
    with pytest.raises(InstanceError, match="at most 10 bytes are read"):
        read_stalloc_trace(written(tmp_path, TEXT))


def test_other_text_is_not_taken_for_a_trace() -> None:
    assert not STALLOC_TEXT.recognises(Path("notes.txt"), b"1 apple\n")
    assert STALLOC_TEXT.recognises(Path("notes.txt"), b"Iteration Index : 0\n1 apple")


def test_the_text_is_what_the_recorder_writes(tmp_path: Path) -> None:
    trace = read_stalloc_trace(written(tmp_path, TEXT))
    write_stalloc_text(trace, tmp_path / "again.txt")
    assert (
        (tmp_path / "again.txt").read_text()
        == f"""\
1 0x7f1e41329c00 1048576 0
Iteration Index : 0
micro-batch : F
1 0xa00 64 0
{MOE} Layer : F-start
1 0xb00 100 0x55d0c0ffee00
{MOE} Layer : F-end
{EXPERTS} Layer : F-start
1 0xc00 200 0
{EXPERTS} Layer : F-end
{MOE} Layer : F-start
0 0xb00 100 0x55d0c0ffee00
{MOE} Layer : F-end
micro-batch : B
0 0xc00 200 0
micro-batch : F
micro-batch : B
Iteration Index : 1
micro-batch : F
1 0xc00 300 0
Iteration Index : end
"""
    )


def test_blocks_from_before_are_set_up_and_plain_modules_get_a_class(tmp_path: Path) -> None:
    trace = AllocationTrace(
        4, [8, 9, 7], [0, 0, 2], [1, 4, 3], [1, 4, 4],
        address=[16, 32, 48], before=[True, False, False], alloc_module=[-1, -1, 0],
        module_names=["model.mlp"], mark_event=[2, 3], mark_phase=[0, 2],
        mark_microbatch=[0, 0], mark_iteration=[0, 0],
    )  # fmt: skip
    write_stalloc_text(trace, tmp_path / "trace.txt")
    assert (tmp_path / "trace.txt").read_text() == (
        "1 0x10 8 0\n1 0x20 9 0\n0 0x10 8 0\n"
        "Iteration Index : 0\nmicro-batch : F\n"
        "model.mlp->Module Layer : F-start\n1 0x30 7 0\nmodel.mlp->Module Layer : F-end\n"
        "Iteration Index : end\n"
    )


def test_modules_of_a_backward_pass_begin_and_end_in_it(tmp_path: Path) -> None:
    text = "Iteration Index : 0\nmicro-batch : B\na.mlp->M Layer : B-start\n1 0xa 8 0\n"
    write_stalloc_text(read_stalloc_trace(written(tmp_path, text)), tmp_path / "again.txt")
    rest = "a.mlp->M Layer : B-end\nIteration Index : end\n"
    assert (tmp_path / "again.txt").read_text() == text + rest


def test_a_trace_that_the_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="requests with addresses, found none for request 0"):
        write_stalloc_text(AllocationTrace(1, [8], [0], [1], [1]), tmp_path / "a.txt")
    with pytest.raises(InstanceError, match="without spaces, found 'a b'"):
        write_stalloc_text(AllocationTrace(1, [], [], [], [], module_names=["a b"]), tmp_path / "a")
    with pytest.raises(GaplessError, match="cannot be written"):
        write_stalloc_text(AllocationTrace(1, [], [], [], []), tmp_path / "none" / "a.txt")


lines = st.one_of(
    st.tuples(st.sampled_from("01"), st.sampled_from(["0xa", "0xb", "0xc"])).map(
        lambda pair: f"{pair[0]} {pair[1]} 8 0"
    ),
    st.sampled_from(
        [
            "Iteration Index : 0", "Iteration Index : 3", "micro-batch : F", "micro-batch : B",
            "a.b->C Layer : F-start", "a.b->C Layer : F-end", "d->E Layer : B-start", "",
        ]
    ),
)  # fmt: skip


@given(st.lists(lines, max_size=30))
def test_a_written_trace_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("round")
    try:
        trace = read_stalloc_trace(written(folder, "\n".join(lines)))
    except InstanceError:
        return
    if trace.before.any():  # written as allocated, which shifts every event
        return
    write_stalloc_text(trace, folder / "again.txt")
    again = read_stalloc_trace(folder / "again.txt")
    for column in ("size", "alloc", "freed", "address", "stream", "mark_event", "mark_phase",
                   "mark_iteration"):  # fmt: skip
        assert np.array_equal(getattr(again, column), getattr(trace, column)), column
    for column in ("alloc_module", "free_module"):
        names, names_again = (*trace.module_names, ""), (*again.module_names, "")
        assert [names[module] for module in getattr(trace, column)] == [
            names_again[module] for module in getattr(again, column)
        ]


def test_iterations_may_have_any_numbers(tmp_path: Path) -> None:
    """Those that are there count, and `last` is the last of them."""
    text = "".join(
        f"Iteration Index : {number}\n1 {(number + 1) * 512:#x} {size} 0\n"
        for number, size in ((0, 8), (2, 16), (999_999_999, 32))
    )
    path = written(tmp_path, text)
    assert read_stalloc_trace(path).iteration_count == 3
    for iteration, size in ((-1, 32), (999_999_999, 32), (2, 16), (-2, 16), (-3, 8), (0, 8)):
        part = read_problem(path, RecordingSlice(iteration, persistent=False))
        assert part.size[part.phase_start == 0].tolist() == [size]
    for iteration in (1, 3, -4):
        with pytest.raises(InstanceError, match=r"has the iterations \[0, 2, 999999999\]"):
            read_problem(path, RecordingSlice(iteration))
