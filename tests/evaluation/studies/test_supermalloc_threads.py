"""The peer's planner on as many threads as it is given, or as a run may use."""

from __future__ import annotations

import pytest

from evaluation.study.plugins import load_plugins
from evaluation.study.study_file import find_study
from instances.synthetic import tight_capacity
from planners import Budget, Status, run


@pytest.mark.bench
@pytest.mark.parametrize(("label", "threads"), [("omnimalloc:threads=3", 3), ("omnimalloc", 2)])
def test_threads_are_those_given_or_of_the_budget(
    label: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import omnimalloc

    load_plugins(find_study("exact").plugins)
    told: list[int] = []
    monkeypatch.setattr(omnimalloc, "set_max_threads", told.append)
    result = run(tight_capacity(20, utilisation=0.8), label, Budget(5, threads=2))
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert told == [threads]
