"""The page on programs, from made-up figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.benchmarks import __main__ as command_line
from evaluation.benchmarks.measuring.program_turns import ProgramSettings
from evaluation.benchmarks.pages.programs_page import programs_page
from evaluation.benchmarks.programs.program_list import ONE_GPU, TWO_GPUS, Program
from evaluation.benchmarks.programs.program_specification import Scale
from evaluation.benchmarks.programs.program_study import ProgramStudy, read_study
from evaluation.benchmarks.programs.stream_times import StreamTimes
from gpu_runtime.training.run_specification import ONLINE, Allocator
from gpu_runtime.training.worker_result import Failure
from planners.errors import GaplessError
from tests.evaluation.benchmarks.pages.test_verification_page import rows_of
from tests.evaluation.benchmarks.programs.made_up_studies import (
    CHECK,
    bad,
    good,
    study,
    timed,
    with_online,
)


def part(text: str, heading: str) -> str:
    """Return what stands below a heading; the empty one is that of the page."""
    return dict(each.split("\n", 1) for each in f"\n{text}".split("\n## "))[heading]


def test_a_row_a_program_with_the_least_memory_in_bold() -> None:
    text = programs_page([study(random_lengths=bad(), plain=good())]).render()
    rows = rows_of(part(text, ""))
    assert [name for name in rows if name in ("plain", "random-lengths")] == [
        "plain", "random-lengths",
    ]  # fmt: skip
    assert rows["plain"] == [
        "9.000", "8.500", "**8.040**", "8.000", "0.50%", "110.000", "+0.00%", "0.0%", "140.000",
        "+7.69%", "0.00%",
    ]  # fmt: skip
    assert rows["random-lengths"] == [
        "9.000", "**8.500**", "12.000", "8.000", "50.00%", "220.000", "+100.00%", "0.0%",
        "600.000", "+361.54%", "25.00%",
    ]  # fmt: skip
    times = rows_of(part(text, "Step times"))
    assert times["plain"] == ["110.000", "150.000", "120.000", "130.000", "110.000", "140.000"]


def test_what_does_not_hold_is_said() -> None:
    text = programs_page([study(random_lengths=bad(), plain=good())]).render()
    reach = part(text, "What is reached")
    rows = rows_of(reach)
    assert rows["plain"] == ["-5.41%", "+0.50%", "+0.00%", "+7.69%", "equal"]
    assert rows["random-lengths"] == [
        "**+41.18%**", "**+50.00%**", "**+100.00%**", "**+361.54%**", "**differ**",
    ]  # fmt: skip
    lines = [line for line in reach.splitlines() if line.startswith("- ")]
    assert len(lines) == 5
    assert all(line.endswith("holds for 1 of 2; not for random-lengths") for line in lines)
    assert "## Failures" not in text
    assert "## Streams" not in text


def test_programs_with_private_pools_are_not_counted_where_live_memory_is_the_measure() -> None:
    reach = part(programs_page([study(plain=bad(), cuda_graph=bad())]).render(), "What is reached")
    assert rows_of(reach)["cuda-graph"][1] == "private pool"
    assert "- near live memory: holds for 0 of 1; not for plain\n" in reach
    assert "- bits: holds for 0 of 2; not for plain, cuda-graph" in reach


def test_the_noise_of_the_faster_one_is_shown() -> None:
    findings = good()
    findings.timings[Allocator.DEFAULT] = timed(9.0, 8.1, (0.1,), (0.1125,))
    findings.timings[Allocator.PLANNED] = timed(9.0, 8.1, (0.1,), (0.1,))
    rows = rows_of(part(programs_page([study(plain=findings)]).render(), ""))
    assert rows["plain"][6:8] == ["-5.56%", "12.5%"]


def test_streams_are_shown_where_they_were_profiled() -> None:
    findings = good()
    streams = (StreamTimes("compute", 98.7654, 0.5), StreamTimes("communication", 20.0, 70.25))
    profiled = replace(timed(8.0, 8.0, (0.1,)), streams=streams)
    findings.timings[Allocator.PLANNED] = profiled
    text = part(programs_page([study(plain=good(), ddp=findings)]).render(), "Streams")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert [row for row in cells if row and row[0] in ("plain", "ddp")] == [
        ["ddp", "planned", "1 compute", "98.765", "0.500"],
        ["ddp", "planned", "2 communication", "20.000", "70.250"],
    ]


def test_online_allocators_are_beside_the_others_where_they_ran() -> None:
    text = programs_page([study(plain=with_online(), vit=good())]).render()
    rows = rows_of(part(text, ""))
    assert rows["program"][:5] == ["default", "expandable", "planned", "gmlake", "vpmm"]
    assert rows["plain"][:7] == ["9.000", "8.500", "8.040", "**8.000**", "-", "8.000", "0.50%"]
    assert rows["vit"][:5] == ["9.000", "8.500", "**8.040**", "-", "-"]
    times = rows_of(part(text, "Step times"))
    assert times["plain"][-4:] == ["165.000", "900.000", "-", "-"]
    online = part(text, "Online allocators").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in online]
    assert [row for row in cells if row and row[0] in ("plain", "vit")] == [
        [
            "plain", "gmlake", "8.000", "-11.11%", "-5.88%", "-0.50%", "165.000", "+50.00%",
            "900.000", "equal",
        ],
        ["plain", "vpmm", "**failed**", *["-"] * 6, "**differ**"],
    ]  # fmt: skip
    assert "- plain, time vpmm: out of memory: CUDA out of memory" in text
    # They are not what a plan is judged by.
    reach = part(text, "What is reached")
    assert reach == part(
        programs_page([study(plain=good(), vit=good())]).render(), "What is reached"
    )
    assert "Online allocators" not in programs_page([study(plain=good())]).render()


def test_equal_memory_is_in_bold_for_each() -> None:
    findings = good()
    findings.timings[Allocator.EXPANDABLE] = timed(8.04, 8.0, (0.1,))
    rows = rows_of(programs_page([study(plain=findings)]).render().partition("## ")[0])
    assert rows["plain"][:3] == ["9.000", "**8.040**", "**8.040**"]


def test_a_failure_is_a_row_without_figures_and_a_line() -> None:
    findings = good()
    findings.timings[Allocator.PLANNED] = Failure("RuntimeError: no statistics here")
    findings.checks[Allocator.PLANNED] = Failure("the process died, by SIGABRT")
    text = programs_page([study(trainer=findings)]).render()
    rows = rows_of(part(text, ""))
    assert rows["trainer"] == ["9.000", "**8.500**", "-", "8.000", *["-"] * 3, "0.0%", *["-"] * 3]
    assert "- trainer, time planned: RuntimeError: no statistics here" in text
    assert "- trainer, check planned: the process died, by SIGABRT" in text
    reach = part(text, "What is reached")
    assert rows_of(reach)["trainer"] == ["**not measured**"] * 5
    assert "bits: holds for 0 of 1; not for trainer" in reach


def test_operators_without_a_deterministic_algorithm_are_told() -> None:
    findings = good()
    findings.checks[Allocator.DEFAULT] = replace(CHECK, undetermined=("put_", "add_"))
    text = programs_page([study(gan=findings)]).render()
    assert "- gan: no deterministic algorithm for add_, put_" in text


def test_a_page_is_written_from_several_files(
    main: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one, two = study(plain=good()), study(fsdp=bad())
    two.command += " --gpus 2"
    for name, its in (("one", one), ("two", two)):
        (tmp_path / name).write_text(its.to_json())
    page = tmp_path / "page.md"
    files = ("--from", tmp_path / "one", "--from", tmp_path / "two")
    assert main("programs", *files, "-o", page) == 0
    text = page.read_text()
    assert capsys.readouterr().out == text
    assert (
        "Made by `python -m evaluation.benchmarks programs` and `python -m evaluation.benchmarks "
        "programs --gpus 2` on 2026-11-22; a GPU machine.\n"
    ) in text
    assert text.count("torch 2.11.0; device NVIDIA H200") == 1
    assert list(rows_of(part(text, "Step times")))[-2:] == ["plain", "fsdp"]
    assert "- **fsdp**: fully sharded, Llama" in text
    assert main("programs", "--from", tmp_path / "one", "-o", tmp_path / "one") == 2
    assert "which this command reads" in capsys.readouterr().err.replace("\n", " ")


def test_a_program_is_measured_once_and_is_in_the_list() -> None:
    with pytest.raises(GaplessError, match="program plain was measured in two of the files"):
        programs_page([study(plain=good()), study(plain=bad())])
    with pytest.raises(GaplessError, match="program 'plane' was measured, which is not in the li"):
        programs_page([study(plane=good())])


def test_a_file_that_cannot_be_read_is_one_line(
    main: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text("{}")
    for name, said in (("other.json", "not a file that --json wrote"), ("none.json", "none.json")):
        assert main("programs", "--from", tmp_path / name) == 2
        assert said in capsys.readouterr().err


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], ProgramSettings]]:
    """What would have been measured; all of it is good."""
    calls: list[tuple[list[str], ProgramSettings]] = []

    def stand_in(
        programs: list[Program],
        settings: ProgramSettings,
        made: ProgramStudy,
        _: object,
        keep: Callable[[], None],
    ) -> None:
        calls.append(([program.name for program in programs], settings))
        for program in programs:
            made.findings[program.name] = good()
            keep()

    monkeypatch.setattr(command_line, "study_programs", stand_in)
    monkeypatch.setattr(command_line, "require_gpu", lambda: None)
    monkeypatch.setattr(command_line, "use_every_core", lambda: None)
    return calls


def test_the_options_choose_what_is_measured(
    main: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    measured: list[tuple[list[str], ProgramSettings]],
) -> None:
    assert main("programs") == 0
    assert "Made by `python -m evaluation.benchmarks programs --gpus 1 --timed-steps 20 " in (
        capsys.readouterr().out
    )
    some = ("--timed-steps", 21, "--turns", 3, "--programs-at-once", 2)
    assert main("programs", "--gpus", 2, *some) == 0
    assert "programs --gpus 2 --timed-steps 21 --turns 3 --programs-at-once 2`" in (
        capsys.readouterr().out
    )
    assert main("programs", "--only", "vit,plain", "--only", "lora", "--quick") == 0
    assert "programs --only vit,plain,lora --quick --turns 5`" in capsys.readouterr().out
    assert main("programs", "--only", "vit", "--online", "vpmm,gmlake") == 0
    assert "--only vit --timed-steps 20 --turns 5 --online gmlake,vpmm`" in capsys.readouterr().out
    assert [names for names, _ in measured] == [
        [program.name for program in ONE_GPU],
        [program.name for program in TWO_GPUS],
        ["plain", "vit", "lora"],
        ["vit"],
    ]
    assert [settings for _, settings in measured] == [
        ProgramSettings(),
        ProgramSettings(turns=3, turn_steps=7, programs_at_once=2),
        ProgramSettings(scale=Scale.QUICK, turns=5, turn_steps=2),
        ProgramSettings(online=ONLINE),
    ]


def test_steps_that_cannot_be_split_are_one_line(
    main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    for options, steps in ((("--timed-steps", 21), 21), (("--quick", "--turns", 3), 10)):
        assert main("programs", *options) == 2
        assert f"error: --turns: {steps} timed steps are to be split evenly, found" in (
            capsys.readouterr().err
        )


def test_figures_are_kept_in_a_file(
    main: Callable[..., int],
    measured: list[tuple[list[str], ProgramSettings]],
    tmp_path: Path,
) -> None:
    record = tmp_path / "record.json"
    assert main("programs", "--only", "plain", "--json", record) == 0
    found = read_study(record.read_text(), record.name)
    assert found.findings == {"plain": good()}
    assert found.command == (
        "python -m evaluation.benchmarks programs --only plain --timed-steps 20 --turns 5"
    )
    assert len(measured) == 1


def test_an_online_allocator_that_does_not_exist_is_one_line(
    main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("programs", "--online", "gmlak") == 2
    assert "error: --online: none is called 'gmlak'; did you mean 'gmlake'" in (
        capsys.readouterr().err
    )


def test_a_program_that_does_not_exist_is_one_line(
    main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("programs", "--only", "plain,fdsp") == 2
    assert "error: --only: no program is called 'fdsp'; did you mean 'fsdp'" in (
        capsys.readouterr().err
    )
