"""The page on verification: right plans pass, injections are caught, ignored streams are seen."""

from __future__ import annotations

import re

from evaluation.benchmarks import verification
from gpu_runtime.verification.devices.device_kinds import DeviceKind
from instances.synthetic import training_graph
from planners import Problem
from tests.gpu_runtime.verification.devices.cuda.cuda_on_host import on_host


def small_problem() -> Problem:
    problem = training_graph(200, streams=5, seed=3)
    return Problem(problem.size // 512, graph=problem.graph, name="five streams")


def rows_of(text: str) -> dict[str, list[str]]:
    """Return the cells of each row by its first."""
    rows = [re.split(r" *\| *", line.strip("| ")) for line in text.splitlines() if "|" in line]
    return {row[0]: row[1:] for row in rows}


def test_a_row_a_plan() -> None:
    page = verification.verification_page(
        small_problem(), "command", DeviceKind.SIMULATED, trials=6, seed=0
    )
    rows = rows_of(page.render())
    columns = rows["plan"]
    cells = {name: dict(zip(columns, row, strict=True)) for name, row in rows.items()
             if len(row) == len(columns)}  # fmt: skip
    assert cells["right"]["unsafe pairs"] == cells["right"]["seen"] == "0"
    assert cells["20 moved"]["injected"] == cells["20 moved"]["caught"] == "20"
    random, attacks = cells["streams ignored, random delays"], cells["streams ignored, attacks"]
    assert int(random["unsafe pairs"]) > int(random["seen"]) > 0
    assert random["directed"] == "0"
    assert int(attacks["directed"]) > 0
    for row in ("right", "20 moved", "streams ignored, random delays", "streams ignored, attacks"):
        assert cells[row]["false alarms"] == "0"


def page_of_sizes() -> str:
    """Return a page of a GPU, with one small size of tensor."""
    verification.SIZES_MIB, verification.RATE_BYTES = (1,), 2 << 20
    page = verification.verification_page(
        small_problem(), "command", DeviceKind.CUDA, trials=2, seed=0
    )
    return page.render()


def test_a_row_a_size_of_tensor_on_a_gpu() -> None:
    page = on_host(f"from {__name__} import page_of_sizes; print(page_of_sizes())")
    # The host's driver takes a millisecond for each launch and each copy, which moves both ways.
    assert rows_of(page)["1 MiB"][:5] == ["1.05", "1.05", "2.1", "50.0%", "50.0%"]
