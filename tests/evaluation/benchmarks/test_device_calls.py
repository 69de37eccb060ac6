"""The page of a device's calls: what is counted for each size, over a simulated device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.benchmarks.device_calls import (
    AT_ONCE,
    CALLS,
    PLAIN,
    DeviceCallStudy,
    device_calls_page,
    mapped_seconds,
    piece_sizes,
    plain_seconds,
    study_device_calls,
)
from gpu_runtime._core import SimulatedMemory
from planners.errors import GaplessError
from tests.gpu_runtime.core.driver_stand_in import output_of, stand_in

MIB = 1 << 20
TOTAL = 8 * MIB


def test_a_row_for_each_size_and_all_goes_back() -> None:
    memory = SimulatedMemory(2 * MIB, TOTAL)
    study = study_device_calls(memory, "memory of a host", TOTAL, repetitions=2)
    assert (memory.created_bytes, memory.mapped_bytes, memory.reserved_ranges) == (0, 0, 0)
    assert [(each.piece_bytes // MIB, each.pieces) for each in study.mapped] == [
        (2, 4), (4, 2), (8, 1),
    ]  # fmt: skip
    assert all(each.seconds.keys() == {*CALLS, AT_ONCE} for each in study.mapped)
    assert study.plain.seconds.keys() == set(PLAIN)
    assert all(seconds > 0 for seconds in (study.mapped[0].seconds | study.plain.seconds).values())


def test_every_call_is_made_as_often_as_it_is_said() -> None:
    """With one repetition there are two rounds to warm up and two that count."""
    memory = SimulatedMemory(2 * MIB, TOTAL)
    before = memory.calls
    found = mapped_seconds(memory, TOTAL, 2 * MIB, repetitions=1)
    of_two_rounds = sum(found.calls(kind) for kind in CALLS) * 2 - found.calls("set_access") + 1
    assert memory.calls - before == 2 * (of_two_rounds + 2 * len(["synchronize"]))
    before = memory.calls
    plain_seconds(memory, TOTAL, repetitions=3)
    assert memory.calls - before == 8


def test_the_page_has_both_tables() -> None:
    plain = plain_seconds(SimulatedMemory(2 * MIB, TOTAL), TOTAL, 1)
    found = mapped_seconds(SimulatedMemory(2 * MIB, TOTAL), TOTAL, 4 * MIB, 1)
    seconds = {kind: number / 1e3 for number, kind in enumerate((*CALLS, AT_ONCE), 1)}
    mapped = type(found)(TOTAL, 4 * MIB, seconds)
    text = device_calls_page(DeviceCallStudy("a device", 1, (mapped,), plain), "command").render()
    in_all, a_call = (
        next(line for line in part.splitlines() if line.startswith("| 4 MiB"))
        for part in text.split("\n## ")[1:]
    )
    assert in_all.replace("|", "").split()[2:] == [
        "2", "1", "2", "3", "4", "8", "5", "6", "7", "10", "18",
    ]  # fmt: skip
    assert a_call.replace("|", "").split()[2:] == [
        "1,000", "1,000", "1,500", "2,000", "8,000", "2,500", "3,000", "7,000",
    ]  # fmt: skip


@pytest.mark.parametrize("total", [0, MIB, 3 * MIB, 24 * MIB])
def test_pieces_are_powers_of_two(total: int) -> None:
    with pytest.raises(GaplessError, match="--bytes: a power of two from"):
        piece_sizes(total)


def test_the_command_over_a_driver(tmp_path: Path) -> None:
    page, record = tmp_path / "page.md", tmp_path / "calls.json"
    code = f"""
    import sys
    sys.argv = ["benchmarks", "device-calls", "--bytes", "8MiB", "--repetitions", "2",
                "-o", "{page}", "--json", "{record}"]
    from evaluation.benchmarks.__main__ import main
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
    """
    said = output_of(code, stand_in())
    assert page.read_text() == said
    assert "`python -m evaluation.benchmarks device-calls --bytes 8MiB --repetitions 2`" in said
    found = json.loads(record.read_text())
    assert (found["schema"], len(found["mapped"])) == ("gapless-device-calls", 3)
    assert found["device"] == "a stand-in"


@pytest.mark.gpu
def test_the_command_on_a_gpu(main: object, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert main("device-calls", "--bytes", "64MiB", "-o", page) == 0
    assert page.read_text().count("\n| 64 MiB") == 2
