"""XLA's buffer assignments as problems; what the compiler placed is a plan of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.convert.conversion import Conversion, convert
from instances.formats.xla_assignment import read_xla_plan
from planners import read_problem
from planners.errors import InstanceError
from planners.files.plan_file import read_plan
from planners.files.problem_file import problem_digest
from planners.referee.naive import find_violation
from tests.instances.formats.rows import rows_of

# What XLA wrote for two functions of ours: one with operators of odd sizes, one with two loops.
DUMPS = Path(__file__).parent / "xla_dumps"

HEAD = "BufferAssignment:\nallocation 0: size 64, preallocated-temp:\n"
RANGES = "HloLiveRange (max 9):\n  InstructionSequence:\n    0:a\n  BufferLiveRange:\n"


def dump(folder: Path, values: str, ranges: str) -> Path:
    (folder / "x-buffer-assignment.txt").write_text(HEAD + values)
    (folder / "x-live-range.txt").write_text(RANGES + ranges)
    return folder / "x-buffer-assignment.txt"


def value(name: str, size: int, offset: int) -> str:
    return f" value: <7 {name} @0> (size={size},offset={offset}): f32[2]{{0}}\n"


@pytest.mark.parametrize(
    ("name", "tensors", "peak", "persistent", "output"),
    [("odd", 17, 3436, 1332, 4), ("loops", 12, 7192, 2360, 4648)],
)
def test_the_offsets_of_xla_are_a_plan(
    name: str, tensors: int, peak: int, persistent: int, output: int
) -> None:
    problem, plan = read_xla_plan(DUMPS / f"{name}-buffer-assignment.txt")
    assert (problem.tensor_count, problem.name) == (tensors, name)
    assert find_violation(problem, plan) is None
    assert plan.peak == problem.origin["xla_bytes"] == peak
    assert problem.origin["persistent_bytes"] == persistent
    assert problem.origin["output_bytes"] == output
    assert set(problem.alignment.tolist()) == {64}


def test_results_in_place_are_one_storage() -> None:
    rows = rows_of(read_problem(DUMPS / "odd-buffer-assignment.txt"))
    # Sorting works where its operand lies.
    assert rows["slice_bitcast_fusion"][0] == 44
    assert "sort.1" not in rows
    assert rows["wrapped_real"][0] == 100


def test_ranges_of_one_value_are_one(tmp_path: Path) -> None:
    path = dump(tmp_path, value("a", 64, 0), "    a{}:2-3\n    a{}:0-5\n")
    assert rows_of(read_problem(path)) == {"a": (64, 0, 6)}


def test_the_state_of_a_loop_stays_where_it_is() -> None:
    problem, plan = read_xla_plan(DUMPS / "loops-buffer-assignment.txt")
    rows, names = rows_of(problem), list(problem.tensor_name or ())
    # The counter before the loop, in its condition, in its body, and behind it.
    assert rows["copy.3"] == (4, 7, 30)
    counter = names.index("copy.3")
    assert plan.offsets[counter] == 7040
    gaps = [tuple(gap[1:]) for gap in problem.gaps.tolist() if gap[0] == counter]
    assert gaps == [(21, 22)]
    assert not {"wrapped_add", "arg_tuple.6{0}", "while.1{0}"} & set(names)


def test_values_that_touch_at_one_place_are_one_storage(tmp_path: Path) -> None:
    #   byte 8 |             [   c   ]      c begins in the last step of e, elsewhere
    #        0 | [   a   ]       [   d   ]  d begins when e is done
    #          |     [   e   ]              e begins in the last step of a, where a lies
    #     step | 0   2       4   5   6   9
    values = "".join(
        value(name, 8, offset) for name, offset in (("a", 0), ("e", 0), ("c", 8), ("d", 0))
    )
    ranges = "    a{}:0-2\n    e{}:2-4\n    c{}:4-6\n    d{}:5-9\n  Live ranges at 2 (peak):\n"
    problem, plan = read_xla_plan(dump(tmp_path, values, ranges))
    assert rows_of(problem) == {"a": (8, 0, 5), "c": (8, 4, 7), "d": (8, 5, 10)}
    assert plan.offsets.tolist() == [0, 8, 0]
    assert problem.alignment.tolist() == [8, 8, 8]
    assert problem.gaps.tolist() == []


def temporary(size: int, color: str, *values: str) -> str:
    return f"allocation 1: size {size}, {color}preallocated-temp:\n{''.join(values)}"


def test_several_allocations_of_one_memory_are_planned_as_one(tmp_path: Path) -> None:
    values = value("a", 60, 0) + temporary(40, "color 0, ", value("b", 8, 32))
    problem, plan = read_xla_plan(dump(tmp_path, values, "    a{}:0-2\n    b{}:1-4\n"))
    assert rows_of(problem) == {"a": (60, 0, 3), "b": (8, 1, 5)}
    assert plan.offsets.tolist() == [0, 64 + 32]
    assert problem.origin["xla_bytes"] == 64 + 40


@pytest.mark.parametrize(("own", "tensors", "left_out"), [(True, "a", 1), (False, "b", 2)])
def test_another_memory_is_left_out_with_a_warning(
    tmp_path: Path, own: bool, tensors: str, left_out: int
) -> None:
    # A memory of another color is left out even if it is larger, but not if no other is there.
    path = dump(tmp_path, "", "    a{}:0-2\n    b{}:1-4\n    c{}:1-4\n")
    others = temporary(80, "color 1, ", value("b", 80, 0))
    if not own:
        others += temporary(8, "color 2, ", value("c", 8, 0))
    text = "BufferAssignment:\n" + (temporary(64, "", value("a", 64, 0)) if own else "") + others
    path.write_text(text)
    with pytest.warns(UserWarning, match=f"memory of color {left_out}, .* is left out") as said:
        assert set(rows_of(read_problem(path))) == {tensors}
    assert len(said) == 1


def test_the_plan_of_xla_is_converted_and_beaten(tmp_path: Path) -> None:
    path = DUMPS / "odd-buffer-assignment.txt"
    peaks = []
    for planner in (None, "auto"):
        output = tmp_path / f"{planner}.json"
        convert(Conversion(path, output, "plan", planner=planner))
        plan = read_plan(read_problem(path), output).plan
        assert plan is not None
        peaks.append(plan.peak)
    assert peaks[0] == 3436
    assert peaks[1] < peaks[0]


def test_both_in_one_file_are_the_same_problem(tmp_path: Path) -> None:
    both = tmp_path / "both.txt"
    parts = [DUMPS / f"loops-{part}.txt" for part in ("buffer-assignment", "live-range")]
    both.write_text("".join(part.read_text() for part in parts))
    problem = read_problem(both)
    assert problem.name == "both"
    assert problem_digest(problem) == problem_digest(read_problem(parts[0]))


A, A_LIVES = value("a", 8, 0), "    a{}:0-2\n"


@pytest.mark.parametrize(
    ("values", "ranges", "message"),
    [
        (value("a", 8, 60), A_LIVES, "x-buffer-assignment.txt: line 3: a value that ends by byte "
         "64 of its allocation is needed, found one to 68"),
        (value("a", 1 << 63, 0), A_LIVES, r"line 3: numbers below 2\*\*63 - 1 are needed"),
        (A + "values: none\n", A_LIVES, "line 4: 'allocation N: .* found 'values: none'"),
        (A + value("b", 8, 0), A_LIVES, "line 4: a live range of 'b{}' is needed, found none"),
        (A, "    a{}:0\n", "x-live-range.txt: line 5: 'NAME{}:FIRST-LAST' is needed, found"),
        (A, "    a{}:3-2\n", "line 5: a range that ends after it begins is needed"),
    ],
)  # fmt: skip
def test_a_line_that_breaks_a_rule_is_named(
    tmp_path: Path, values: str, ranges: str, message: str
) -> None:
    with pytest.raises(InstanceError, match=message):
        read_problem(dump(tmp_path, values, ranges))


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    path = dump(tmp_path, A, A_LIVES)
    other = tmp_path / "other.txt"
    other.write_bytes(path.read_bytes())
    with pytest.raises(InstanceError, match=r"other.txt: live ranges are needed, in the file or"):
        read_problem(other)
    (tmp_path / "x-live-range.txt").write_text("HloLiveRange (max 9):\n")
    with pytest.raises(InstanceError, match=r"x-live-range.txt: a line 'BufferLiveRange:' is need"):
        read_problem(path)
    (tmp_path / "x-live-range.txt").unlink()
    with pytest.raises(InstanceError, match=r"x-live-range.txt: the file cannot be read: No such"):
        read_problem(path)
    path.write_text("BufferAssignment:\nallocation 0: size 4, constant:\n")
    with pytest.raises(InstanceError, match="an allocation that is a preallocated-temp is needed"):
        read_problem(path)
