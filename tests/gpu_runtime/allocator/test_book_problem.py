"""From logs to kinds of step, and from these to one problem on one line of time."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from gpu_runtime._core import BETWEEN_STEPS, REPEATED, LogKind, ProgramRecord
from gpu_runtime.allocator.book_problem import SIDE_MARGIN, BookProblem, book_problem
from gpu_runtime.allocator.step_kind import StepKind

pytestmark = pytest.mark.core

# A step in words: "a600" asks for 600 bytes and calls them a, "-a" frees them, "a600@7" asks on
# stream 7. "|" is the end of the step, or its beginning after what runs between two.
Words = str


def log_of(text: Words) -> NDArray[np.int64]:
    rows: list[tuple[int, ...]] = []
    numbers: dict[str, int] = {}
    in_step = False
    for word in text.split():
        if word == "|":
            rows.append((LogKind.STEP_ENDS if in_step else LogKind.STEP_BEGINS, -1, 0, 0, -1, -1))
            in_step = not in_step
        elif word[0] == "-":
            rows.append((LogKind.FREE, numbers[word[1:]], 0, 0, -1, -1))
        else:
            size, _, stream = word[1:].partition("@")
            numbers[word[0]] = sum(row[0] == LogKind.REQUEST for row in rows)
            rows.append((LogKind.REQUEST, numbers[word[0]], int(size), int(stream or 0), -1, -1))
    return np.array(rows, dtype=np.int64).reshape(-1, 6)


def record_of(text: Words) -> ProgramRecord:
    record = ProgramRecord([])
    record.add(log_of(text), [])
    return record


def repeated(record: ProgramRecord) -> list[StepKind]:
    return list(map(StepKind.of, record.kinds(REPEATED)))


def problem_of(text: Words, least_peak: int = 0) -> BookProblem:
    return book_problem(repeated(record_of(text)), least_peak)


def segments(problem: BookProblem) -> list[list[tuple[int, int]]]:
    """Return the intervals of each tensor, in their order."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(problem.problem.tensor_count)]
    for tensor, begin, end in sorted(problem.problem.segments().tolist()):
        found[tensor].append((begin, end))
    return found


def test_a_step_is_planned_when_it_was_seen_twice() -> None:
    step = "| a600 b700 -a c800 -b -c | "
    assert repeated(record_of(step)) == []
    problem = problem_of(2 * step)
    assert segments(problem) == [[(0, 2)], [(1, 3)], [(2, 3)]]
    assert problem.problem.size.tolist() == [1024, 1024, 1024]
    assert problem.peaks == (2048,)


def test_the_envelope_has_the_largest_sizes_and_the_latest_ends() -> None:
    problem = problem_of("| a600 -a b700 -b | | a500 b1100 -a -b | ")
    assert segments(problem) == [[(0, 2)], [(1, 2)]]
    assert problem.problem.size.tolist() == [1024, 1536]
    (kind,) = problem.kinds
    assert (kind.least.tolist(), kind.most.tolist()) == ([500, 700], [600, 1100])


def test_what_lives_on_is_met_in_the_steps_after() -> None:
    # `a` goes before the last request of the next step; its like is then not yet made.
    one = "| x600 -x y600 -y {old} a700 | "
    problem = problem_of(one.format(old="") + 2 * one.format(old="-a"))
    assert segments(problem) == [[(0, 1)], [(1, 2)], [(0, 3)]]
    # Freed before its second request: it needs nothing until it is made again.
    two = "| x600 -x {old} y600 -y a700 | "
    problem = problem_of(two.format(old="") + 2 * two.format(old="-a"))
    assert segments(problem)[2] == [(0, 1), (2, 3)]


def test_what_is_made_again_before_it_goes_has_no_place() -> None:
    step = "| {new}700 {old} x600 -x | "
    text = step.format(new="a", old="")
    for before, now in ("ab", "ba", "ab"):
        text += step.format(new=now, old=f"-{before}")
    (kind,) = repeated(record_of(text))
    assert kind.renewed.tolist() == [True, False]
    assert kind.escapes.tolist() == [True, False]
    assert segments(book_problem([kind], 0)) == [[(1, 2)]]


def test_what_is_never_freed_has_no_place() -> None:
    problem = problem_of("| a600 b700 -b | | c600 d700 -d | | e600 f700 -f | ")
    assert problem.slot.tolist() == [1]


def test_what_stays_over_several_steps_has_a_place_and_a_spare_one() -> None:
    # Gradients: the first one stays, the second is added to it, then both go.
    first, second = "| x900 g700 z10 -z -x | ", "| y900 h700 -h z10 -z -y -g | "
    record = record_of(first + second + first + second + first)
    (kind,) = repeated(record)
    assert kind.alternates.tolist() == [False, True, False]
    problem = book_problem([kind], 0)
    assert problem.is_spare.tolist() == [False, False, False, True]
    assert segments(problem) == [[(0, 3)], [(0, 3)], [(2, 3)], [(1, 2)]]
    assert problem.peaks == (1024 + 2 * 1024,)
    # The one that is added stays for longer, which a plan has to know.
    version = record.version
    record.add(log_of("| y900 h700 z10 -h -z -y | "), [])
    assert record.version > version
    (kind,) = repeated(record)
    assert segments(book_problem([kind], 0))[3] == [(1, 3)]


def test_what_runs_between_steps_is_a_kind() -> None:
    step, between = "| a600 -a | ", "e5000 -e f6000 -f "
    record = record_of(step + between + step + between + step + between + step)
    assert [(kind.label, kind.slot_count) for kind in repeated(record)] == [
        (0, 1),
        (BETWEEN_STEPS, 2),
    ]
    problem = book_problem(repeated(record), 0)
    assert max(problem.peaks) == 6144


def test_kinds_on_one_line_meet_what_lives_through_them() -> None:
    # `a` lives through the second kind, `x` as long as its second request.
    one, other = "| {old} a600 x700 b10 -b | ", "| y800 {end} z900 -y -z | "
    text = one.format(old="") + other.format(end="-x")
    text += (one.format(old="-a") + other.format(end="-x")) * 2
    record = record_of(text)
    problem = book_problem(repeated(record), 0)
    assert [kind.slot_count for kind in repeated(record)] == [3, 2]
    places = zip(problem.kind.tolist(), problem.slot.tolist(), strict=True)
    assert dict(zip(places, segments(problem), strict=True)) == {
        (0, 0): [(0, 5)],
        (0, 1): [(1, 4)],
        (0, 2): [(2, 3)],
        (1, 0): [(3, 5)],
        (1, 1): [(4, 5)],
    }


def test_kinds_below_a_peak_have_no_places() -> None:
    small, large = "| a600 -a | ", "| a60000 b60000 -a -b | "
    text = 2 * (small + large)
    assert problem_of(text).problem.tensor_count == 3
    problem = problem_of(text, least_peak=1025)
    assert problem.kinds[0].slot_count == 1
    assert problem.kind.tolist() == [1, 1]


def test_side_streams_are_kept_apart_where_there_is_room() -> None:
    requests = " ".join(f"m{1000} -m" for _ in range(100))
    # The peak is where the two large ones are; the side block may be in nobody's way there.
    step = f"| p9000 q9000 -p -q {requests} s5000@7 -s {requests} u5000@7 p9000 q4500 -p -q -u | "
    problem = problem_of(2 * step)
    lives = dict(zip(problem.slot.tolist(), segments(problem), strict=True))
    assert lives[102] == [(102 - SIDE_MARGIN, 103 + SIDE_MARGIN)]
    # Behind and before the second one is as much as may be.
    assert lives[203] == [(203 - SIDE_MARGIN, 206)]
    without = problem_of(2 * step.replace("@7", ""))
    assert max(problem.peaks) == max(without.peaks)


def test_kinds_are_told_apart() -> None:
    def count(*steps: str) -> int:
        return len(repeated(record_of("".join(f"| {step} | " for step in steps * 2))))

    assert count("a600 -a", "a900 -a") == 1
    assert count("a600 -a", "a600 b600 -a -b") == 2
    assert count("a600 b600 -a -b", "a600 b600@7 -a -b") == 2
    # A sequence six times as long, whose scores are 36 times as large.
    assert count("a1000 b8000 c700 -a -b -c", "a6000 b288000 c700 -a -b -c") == 1
    # Sizes of another program.
    assert count("a1000 b800000 c700 -a -b -c", "a600000 b8000 c90000 -a -b -c") == 2


def test_ends_of_what_was_not_seen_to_be_made() -> None:
    """The log of a step as planned is not read; a free tells which request it was of."""
    step = "| a600 x700 -x {old} | "
    record = record_of(step.format(old="") + step.format(old="-a") * 2)
    (kind,) = repeated(record)
    assert kind.later == {kind.number: kind.later[kind.number]}
    record.lose_track()
    rows = np.array(
        [
            (LogKind.STEP_BEGINS, -1, 0, 0, -1, -1),
            (LogKind.REQUEST, 100, 600, 0, 0, 0),
            (LogKind.REQUEST, 101, 700, 0, 0, 1),
            (LogKind.FREE, 99, 700, 0, 0, 1),
            (LogKind.STEP_ENDS, -1, 0, 0, -1, -1),
        ]
    )
    version = record.version
    record.add(rows, [kind.number])
    (kind,) = repeated(record)
    assert kind.later[kind.number][1] == 2
    assert record.version > version


def test_a_log_whose_beginning_is_lost_teaches_nothing() -> None:
    record = ProgramRecord([])
    rows = log_of(3 * "| a600 -a | ")
    record.add(rows[1:4], [])
    assert record.kinds() == []


@pytest.mark.parametrize("seed", range(20))
def test_peaks_by_an_account_of_what_lives(seed: int) -> None:
    rng = Random(seed)
    sizes = [rng.randint(1, 5000) for _ in range(30)]
    ends = [rng.randint(k + 1, 30) for k in range(30)]
    step = "|"
    for time in range(31):
        step += "".join(f" -{chr(1000 + k)}" for k in range(30) if ends[k] == time)
        step += f" {chr(1000 + time)}{sizes[time]}" if time < 30 else " | "
    problem = problem_of(2 * step)
    live = [
        sum(-(-sizes[k] // 512) * 512 for k in range(time + 1) if ends[k] > time)
        for time in range(30)
    ]
    assert problem.peaks == (max(live),)
