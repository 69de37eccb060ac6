"""What people read, of checks that are made by hand."""

from __future__ import annotations

from gpu_runtime.fitting.fit_check import LIVE, AllocatorFit, FitCheck, RankFit, worst_rank
from gpu_runtime.fitting.fit_report import fit_notes, fit_table, peak_table
from gpu_runtime.fitting.largest_value import LargestValues
from gpu_runtime.fitting.live_peak import LiveGroup, LivePeak
from gpu_runtime.fitting.outside_memory import OutsideMemory
from gpu_runtime.fitting.traced_program import Traced
from tests.gpu_runtime.fitting.test_fit_check import fragmenting_trace
from tests.gpu_runtime.replaying.recordings import MIB

CACHING = "pytorch-caching"
GROUPS = (
    LiveGroup("forward", "Net.layers.*", 6 * MIB, 3),
    LiveGroup("before the steps", "", 3 * MIB, 2),
    LiveGroup("backward", "Net.head", MIB, 1),
)


def checked(reserved: int, *, fits: bool | None) -> FitCheck:
    live = AllocatorFit(LIVE, 10 * MIB, True)
    peak = LivePeak(10 * MIB, 1, "forward", GROUPS)
    row = AllocatorFit(CACHING, reserved * MIB, fits)
    return FitCheck(fragmenting_trace(), peak, (live, row))


def fit_of(check: FitCheck, beside: int = 0) -> RankFit:
    traced = Traced("step", {}, [], check.trace)
    return RankFit(traced, check, OutsideMemory(beside), 12 * MIB)


def cells(check: FitCheck, found: LargestValues | None = None) -> list[str]:
    """Return the allocator's cells behind its bytes."""
    return list(fit_table(fit_of(check), found).rows[1].cells[3:])


def test_a_fit_that_needs_memory_back_says_so() -> None:
    assert cells(checked(11, fits=True)) == ["10.00 %", "yes"]
    assert cells(checked(13, fits=False)) == ["30.00 %", "no"]
    assert cells(checked(13, fits=True)) == ["30.00 %", "giving back"]
    lines = fit_notes(fit_of(checked(13, fits=True), 2 * MIB), 14 * MIB, None)
    assert [line.partition(":")[0] for line in lines] == [
        "giving back", "fits under pytorch-caching",
    ]  # fmt: skip


def test_a_search_says_how_far_it_came() -> None:
    found = LargestValues("batch", 12 * MIB, 1)
    check = checked(11, fits=True)
    assert cells(check, found)[-1] == "?"
    found.tried[8] = check
    assert cells(check, found)[-1] == ">= 8"
    found.tried[16] = checked(20, fits=False)
    assert cells(check, found)[-1] == ">= 8"
    found.tried[9] = checked(13, fits=False)
    assert cells(check, found)[-1] == "8"
    del found.tried[8]
    assert cells(check, found)[-1] == "< 9"
    found.tried = {1: checked(13, fits=False)}
    assert cells(check, found)[-1] == "none"


def test_values_that_break_the_rule_are_named() -> None:
    found = LargestValues("batch", 12 * MIB, 1)
    found.tried = {
        8: checked(11, fits=True), 9: checked(13, fits=False), 12: checked(12, fits=True),
    }  # fmt: skip
    tried, broken, _ = fit_notes(fit_of(checked(11, fits=True)), 12 * MIB, found)
    assert tried == "batch: tried 8, 9, 12"
    assert broken.startswith("pytorch-caching: batch 9 does not fit, though 12 does")


def test_a_last_row_sums_the_groups_that_are_left_out() -> None:
    assert [list(row.cells) for row in peak_table(checked(11, fits=True).peak, 1).rows] == [
        ["6.000 MiB", "60.0 %", "3", "forward", "Net.layers.*"],
        ["4.000 MiB", "40.0 %", "3", "", "... and 2 more"],
    ]
    assert len(peak_table(checked(11, fits=True).peak, 3).rows) == len(GROUPS)


def test_the_worst_rank_fits_least_and_then_holds_most() -> None:
    fits, does_not = fit_of(checked(11, fits=True)), fit_of(checked(13, fits=False))
    assert worst_rank([fits, does_not, fits]) is does_not
    more = fit_of(FitCheck(fits.check.trace, LivePeak(11 * MIB, 1, "", ()), fits.check.rows))
    assert worst_rank([fits, more]) is more
