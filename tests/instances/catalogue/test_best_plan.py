"""The best plan on record: what is kept of two searches, and what a construction adds."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from subprocess import CompletedProcess
from typing import Any

import pytest

from instances.catalogue.update import facts_of, find_best, git_commit, merge
from instances.synthetic import guillotine_packing, neighbour_ring
from planners.errors import GaplessError
from tests.instances.catalogue.entries import BEST

OLD = replace(BEST, peak=120, status="feasible", lower_bound=90, planner="old")


@pytest.mark.parametrize(
    ("peak", "bound", "kept"),
    [
        (120, 90, ("old", 120, 90, "antichain", "feasible")),
        (130, 80, ("old", 120, 90, "antichain", "feasible")),
        (110, 80, ("new", 110, 90, "antichain", "feasible")),
        (130, 100, ("old", 120, 100, "search", "feasible")),
        (130, 120, ("old", 120, 120, "search", "optimal")),
        (110, 110, ("new", 110, 110, "search", "optimal")),
        (90, 90, ("new", 90, 90, "search", "optimal")),
        (90, 80, ("new", 90, 90, "antichain", "optimal")),
    ],
)
def test_the_lower_peak_and_the_higher_bound_are_kept(
    peak: int, bound: int, kept: tuple[str, int, int, str, str]
) -> None:
    new = replace(OLD, peak=peak, lower_bound=bound, planner="new", certificate="search")
    best = merge(OLD, new)
    found = best.planner, best.peak, best.lower_bound, best.certificate, best.status
    assert found == kept


def test_a_construction_proves_what_no_bound_does() -> None:
    problem = neighbour_ring(4)
    facts = facts_of(problem)
    best = find_best(problem, facts, "greedy-size-first,pressure")
    assert facts.bounds["lifetime"] == problem.capacity
    assert best.planner == "pressure"
    assert (best.peak, best.certificate, best.status) == (facts.optimum, "construction", "optimal")
    poor = find_best(problem, facts, "naive")
    assert (poor.lower_bound, poor.certificate, poor.status) == (
        facts.optimum, "construction", "feasible",
    )  # fmt: skip


def test_a_plan_below_a_claimed_optimum_refutes_the_claim() -> None:
    problem = guillotine_packing(10, steps=9, units=9)
    facts = facts_of(problem)
    assert facts.optimum is not None
    wrong = replace(facts, optimum=10 * facts.optimum)
    with pytest.raises(GaplessError, match=r"the optimum by construction is .* has a plan of"):
        find_best(problem, wrong, "auto")


def test_the_commit_says_what_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"HEAD": "0123456789ab\n", "gpu_runtime": " M gpu_runtime/fit.py\n"}

    def git(command: list[str], **_settings: Any) -> CompletedProcess[str]:
        return CompletedProcess(command, 0, stdout=answers.get(command[-1], ""))

    monkeypatch.setattr(subprocess, "run", git)
    assert git_commit("gpu_runtime") == "0123456789ab+changes"
    assert git_commit() == "0123456789ab"
    answers["planners"] = " M planners/run.py\n"
    assert git_commit() == "0123456789ab+changes"

    def no_git(*_command: object, **_settings: object) -> CompletedProcess[str]:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", no_git)
    assert git_commit() == "unknown"
