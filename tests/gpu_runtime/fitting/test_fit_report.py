"""What people read, of checks that are made by hand."""

from __future__ import annotations

from gpu_runtime.fitting.fit_report import fit_notes, fit_table, peak_table
from gpu_runtime.fitting.largest_value import LargestValues
from gpu_runtime.fitting.live_peak import LiveGroup
from gpu_runtime.fitting.rank_fit import LIVE, RankFit, worst_rank
from tests.gpu_runtime.fitting.made_fits import made_fit
from tests.gpu_runtime.replaying.recordings import MIB

CACHING = "pytorch-caching"
GROUPS = (
    LiveGroup("forward", "Net.layers.*", 6 * MIB, 3),
    LiveGroup("before the steps", "", 3 * MIB, 2),
    LiveGroup("backward", "Net.head", MIB, 1),
)


def fit(reserved: int, *, fits: bool | None = None, live: int = 10, beside: int = 0) -> RankFit:
    sizes = {LIVE: live * MIB, CACHING: reserved * MIB}
    return made_fit(sizes, 12 * MIB, groups=GROUPS, beside=beside, fits=fits)


def cells(of: RankFit, found: LargestValues | None = None) -> list[str]:
    """Return the allocator's cells behind its bytes."""
    return list(fit_table(of, found).rows[1].cells[3:])


def test_a_fit_that_needs_memory_back_says_so() -> None:
    assert cells(fit(11)) == ["10.00 %", "yes"]
    assert cells(fit(13)) == ["30.00 %", "no"]
    assert cells(fit(13, fits=True)) == ["30.00 %", "giving back"]
    lines = fit_notes(fit(13, fits=True, beside=2 * MIB))
    assert [line.partition(":")[0] for line in lines] == [
        "giving back", "fits under pytorch-caching",
    ]  # fmt: skip


def test_a_search_says_how_far_it_came() -> None:
    found = LargestValues("batch", 12 * MIB, 1)
    assert cells(fit(11), found)[-1] == "?"
    found.tried[8] = fit(11)
    assert cells(fit(11), found)[-1] == ">= 8"
    found.tried[16] = fit(20)
    assert cells(fit(11), found)[-1] == ">= 8"
    found.tried[9] = fit(13)
    assert cells(fit(11), found)[-1] == "8"
    del found.tried[8]
    assert cells(fit(11), found)[-1] == "< 9"
    found.tried = {1: fit(13)}
    assert cells(fit(11), found)[-1] == "none"


def test_values_that_break_the_rule_are_named() -> None:
    found = LargestValues("batch", 12 * MIB, 1)
    found.tried = {8: fit(11), 9: fit(13), 12: fit(12)}
    tried, broken, _ = fit_notes(fit(11), found)
    assert tried == "batch: tried 8, 9, 12"
    assert broken.startswith("pytorch-caching: batch 9 does not fit, though 12 does")


def test_a_last_row_sums_the_groups_that_are_left_out() -> None:
    assert [list(row.cells) for row in peak_table(fit(11).peak, 1).rows] == [
        ["6.000 MiB", "60.0 %", "3", "forward", "Net.layers.*"],
        ["4.000 MiB", "40.0 %", "3", "", "... and 2 more"],
    ]
    assert len(peak_table(fit(11).peak, 3).rows) == len(GROUPS)


def test_the_worst_rank_fits_least_and_then_holds_most() -> None:
    fits, does_not, more = fit(11), fit(13), fit(11, live=11)
    assert worst_rank([fits, does_not, fits]) is does_not
    assert worst_rank([fits, more]) is more
