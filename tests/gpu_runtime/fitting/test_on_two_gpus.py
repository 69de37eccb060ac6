"""What is said of each rank of a training without GPUs is what it takes on two of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gpu_runtime.own_processes import outputs_of
from tests.repository import ROOT

pytestmark = pytest.mark.gpus

SCRIPT = ROOT / "tests" / "instances" / "extract" / "record" / "ranks" / "llama_on_two_gpus.py"
FUNCTIONS = ("make_sharded", "make_copied", "make_stages")
LABELS = ("pytorch-caching", "pytorch-expandable", "planned")
# Reserved bytes may be that much above or below the prediction.
TOLERANCE = 0.01


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], Any]:
    """Return what was measured and what was predicted, by function, allocator and rank.

    All of them run side by side, for time does not count.
    """
    folder = tmp_path_factory.mktemp("ranks")
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    measured = "tests.gpu_runtime.fitting.measured_ranks"
    fits = [["gpu_runtime.fit", f"{SCRIPT}:{name}", "--ranks", "2", "--json"] for name in FUNCTIONS]
    trainings = [
        [*torchrun, measured, name, label, str(folder)] for name in FUNCTIONS for label in LABELS
    ]
    said = outputs_of([*fits, *trainings], {"OMP_NUM_THREADS": "1"})
    found = {}
    for name, (text, _) in zip(FUNCTIONS, said, strict=False):
        for of_rank in json.loads(text)["ranks"]:
            rank, peak = of_rank["rank"], of_rank["peak"]
            reserved = {its["label"]: its["reserved_peak"] for its in of_rank["allocators"]}
            for label in LABELS:
                file = folder / f"{name}-{label}-{rank}.json"
                predicted = {"requested": peak, "reserved": reserved[label]}
                found[name, label, rank] = json.loads(file.read_text()), predicted
    return found


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_rank_takes_what_was_predicted(
    every: dict[tuple[str, str, int], Any], function: str, label: str
) -> None:
    pairs = [every[function, label, rank] for rank in range(2)]
    assert [its["requested"] for its, _ in pairs] == [said["requested"] for _, said in pairs]
    for its, said in pairs:
        assert its["reserved"] == pytest.approx(said["reserved"], rel=TOLERANCE), pairs
