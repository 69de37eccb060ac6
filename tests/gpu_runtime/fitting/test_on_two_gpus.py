"""The prediction for each rank of a training is held against two or four GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.gpu_runtime.own_processes import outputs_of
from tests.repository import ROOT

SCRIPT = ROOT / "tests" / "instances" / "extract" / "record" / "ranks" / "llama_on_two_gpus.py"
ON_TWO = ("make_sharded", "make_copied", "make_stages")
FUNCTIONS = {2: ON_TWO, 4: (*ON_TWO, "make_split")}
MARKS = {2: pytest.mark.gpus, 4: pytest.mark.four_gpus}
LABELS = ("pytorch-caching", "pytorch-expandable", "planned")
# No block of these waits for an event of another stream, whose moment differs from run to run.
EXACT = ("make_sharded", "make_split")
# Reserved bytes may be that much above the prediction, those of `EXACT` below it too.
TOLERANCE = 0.01
# Measured and predicted peaks of each rank, by function and allocator.
Every = dict[tuple[str, str], list[Any]]


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Every]:
    """Return a function of a number of ranks, which measures and predicts once for each number.

    All functions and allocators run side by side, for time does not count.
    """

    @cache
    def of_ranks(ranks: int) -> Every:
        folder = tmp_path_factory.mktemp("ranks")
        torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m"]
        measured = "tests.gpu_runtime.fitting.measured_ranks"
        functions = FUNCTIONS[ranks]
        fits = [
            ["gpu_runtime.fit", f"{SCRIPT}:{name}", "--ranks", str(ranks), "--json"]
            for name in functions
        ]
        trainings = [
            [*torchrun, measured, name, label, str(folder)]
            for name in functions
            for label in LABELS
        ]
        said = outputs_of([*fits, *trainings], {"OMP_NUM_THREADS": "1"})
        found = {}
        for name, (text, _) in zip(functions, said, strict=False):
            # Rank 0 stands for those of its kind, which are not traced.
            of_rank = {its["rank"]: its for its in json.loads(text)["ranks"]}
            for label in LABELS:
                found[name, label] = [
                    (
                        json.loads((folder / f"{name}-{label}-{rank}.json").read_text()),
                        predicted(of_rank.get(rank, of_rank[0]), label),
                    )
                    for rank in range(ranks)
                ]
        return found

    return of_ranks


def predicted(of_rank: dict[str, Any], label: str) -> dict[str, int]:
    """Return the peaks; of planned memory what it promises from its first step on."""
    reserved = {its["label"]: its["reserved_peak"] for its in of_rank["allocators"]}
    most = reserved[label] if label != "planned" else min(reserved[name] for name in LABELS[:2])
    return {"requested": of_rank["peak"], "reserved": most}


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    ("ranks", "function"),
    [
        pytest.param(ranks, name, marks=MARKS[ranks])
        for ranks, functions in FUNCTIONS.items()
        for name in functions
    ],
)
def test_each_rank_takes_what_was_predicted(
    every: Callable[[int], Every], ranks: int, function: str, label: str
) -> None:
    for its, said in every(ranks)[function, label]:
        print(its, said)
        if function in EXACT:
            assert its["requested"] == said["requested"]
            if label != "planned":
                assert its["reserved"] == pytest.approx(said["reserved"], rel=TOLERANCE)
        assert its["requested"] <= said["requested"] * (1 + TOLERANCE)
        assert its["reserved"] <= said["reserved"] * (1 + TOLERANCE)
