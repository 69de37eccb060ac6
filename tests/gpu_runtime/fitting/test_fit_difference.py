"""Two answers are compared: the growth of memory, and the growth that is allowed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runtime.fit import app
from gpu_runtime.fitting.fit_answer import FitAnswer
from gpu_runtime.fitting.fit_difference import (
    FitDifference,
    Threshold,
    changed_groups_table,
    read_fit,
    reserved_table,
)
from gpu_runtime.fitting.fit_report import fit_json
from gpu_runtime.fitting.live_peak import LiveGroup
from gpu_runtime.fitting.rank_fit import LIVE
from planners.errors import GaplessError, InstanceError
from tests.command_line import require_one_line, run_command
from tests.gpu_runtime.fitting.made_fits import NOTHING, made_fit
from tests.gpu_runtime.replaying.recordings import MIB

CACHING = "pytorch-caching"
OLD = {("forward", "Net.layers.*"): 6, ("before the steps", ""): 3, ("forward", "Net.head"): 1}
NEW = {("forward", "Net.layers.*"): 5, ("before the steps", ""): 3, ("backward", "Net.loss"): 4}


def written(path: Path, groups: dict[tuple[str, str], int], reserved: int, **origin: int) -> Path:
    sizes = {LIVE: sum(groups.values()) * MIB, CACHING: reserved * MIB}
    alive = [LiveGroup(*key, size * MIB, 1) for key, size in groups.items()]
    fit = made_fit(sizes, traced=replace(NOTHING, origin=origin), groups=alive)
    path.write_text(fit_json(FitAnswer([fit])))
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return (
        written(tmp_path / "old.json", OLD, 20, batch=8, seq=4),
        written(tmp_path / "new.json", NEW, 21, batch=16, seq=4),
    )


def difference(files: tuple[Path, Path], threshold: str = "0") -> FitDifference:
    old, new = map(read_fit, files)
    return FitDifference(old, new, Threshold.parse(threshold))


def test_growth_by_allocator_and_by_module(files: tuple[Path, Path]) -> None:
    found = difference(files)
    assert [list(row.cells) for row in reserved_table(found).rows] == [
        [LIVE, "10.00 MiB", "12.00 MiB", "+2,097,152", "+20.00 %"],
        [CACHING, "20.00 MiB", "21.00 MiB", "+1,048,576", "+5.00 %"],
    ]
    assert [list(row.cells) for row in changed_groups_table(found, 9).rows] == [
        ["0 B", "4.000 MiB", "+4,194,304", "-", "backward", "Net.loss"],
        ["6.000 MiB", "5.000 MiB", "-1,048,576", "-16.67 %", "forward", "Net.layers.*"],
        ["1.000 MiB", "0 B", "-1,048,576", "-100.00 %", "forward", "Net.head"],
    ]
    largest, more = changed_groups_table(found, 1).rows
    assert (largest.cells[-1], more.cells[-1]) == ("Net.loss", "... and 2 more")
    assert found.notes == ["batch: 8 -> 16", f"grew under {LIVE}, {CACHING}"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("yes", "fits: the GPU has 24.00 MiB"),
        ("only_planned", "fits only when planned: the GPU has 24.00 MiB"),
        ("no", "does not fit: the GPU has 24.00 MiB"),
    ],
)
def test_the_answer_of_the_new_file_is_said(
    answer: str, said: str, files: tuple[Path, Path]
) -> None:
    changed(files[1], answer=answer, memory=24 * MIB)
    assert difference(files).notes[-2:] == [said, f"grew under {LIVE}, {CACHING}"]
    assert said not in difference((files[1], files[0])).notes


def changed(path: Path, **fields: object) -> Path:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return path


HOSTILE = "a\x1b]0;title\x07\n```\n@all \x9b31m\u202e"


def test_hostile_texts_of_a_file_stay_on_one_line(files: tuple[Path, Path]) -> None:
    rows = [{"label": HOSTILE, "reserved_peak": size} for size in (1, 2)]
    groups = [{"since": HOSTILE, "module": HOSTILE, "size": 5}]
    for path, row in zip(files, rows, strict=True):
        changed(path, allocators=[row], program=f"{HOSTILE}{row['reserved_peak']}")
    changed(files[0], peak={"groups": groups}, origin={HOSTILE: HOSTILE})
    answer = run_command(app, "--diff", *files)
    assert answer.exit_code == 1
    assert all(line.isprintable() and "title" not in line for line in answer.stdout.split("\n"))
    assert not any(line.lstrip().startswith(("```", "@")) for line in answer.stdout.split("\n"))
    assert answer.stdout.count("a ``` @all") == 1 + 2 + 4 + 1  # label, group, notes, answer


def test_many_allocators_are_compared(files: tuple[Path, Path]) -> None:
    for path in files:
        more = path is files[1]
        rows = [{"label": f"m{each}", "reserved_peak": each + more} for each in range(25_000)]
        changed(path, allocators=rows)
    answer = run_command(app, "--diff", *files)
    *_, last = answer.stdout.splitlines()
    assert (answer.exit_code, answer.stdout.count("\nm")) == (1, 25_000)
    assert last.startswith("grew under m0, m1, ")
    assert len(last) < 1100


@pytest.mark.parametrize(
    ("threshold", "grown"),
    [
        ("0", [LIVE, CACHING]),
        ("1MiB", [LIVE]),
        ("2MiB", []),
        ("2,097,151", [LIVE]),
        ("5%", [LIVE]),
        ("4.99 %", [LIVE, CACHING]),
        ("20%", []),
        ("1e99%", []),
    ],
)
def test_growth_up_to_the_threshold_is_allowed(
    threshold: str, grown: list[str], files: tuple[Path, Path]
) -> None:
    assert difference(files, threshold).grown == grown
    answer = run_command(app, "--diff", *files, "--threshold", threshold)
    assert answer.exit_code == bool(grown), answer.stderr
    assert answer.stdout.splitlines()[-1].startswith("grew under" if grown else "did not grow")


def test_less_memory_is_not_growth(files: tuple[Path, Path]) -> None:
    answer = run_command(app, "--diff", *reversed(files))
    assert answer.exit_code == 0
    assert answer.stdout.splitlines()[1].split()[-3:] == ["-2,097,152", "-16.67", "%"]
    assert "Net.loss" not in run_command(app, "--diff", *files, "--groups", "0").stdout


def test_an_allocator_that_was_not_asked_is_not_compared(files: tuple[Path, Path]) -> None:
    old, new = files
    changed(old, allocators=json.loads(old.read_text())["allocators"][:1])
    found = difference((old, new))
    assert list(reserved_table(found).rows[1].cells) == [CACHING, "-", "21.00 MiB", "-", "-"]
    assert found.grown == [LIVE]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("origin", {"a": {"b": 1}}, "Expected `bool | int | float | str | null`, got `object`"),
        ("program", 5, "Expected `str`, got `int` - at `$.program`"),
        ("answer", "perhaps", "Invalid enum value 'perhaps' - at `$.answer`"),
        ("answer", "\ud800", "found: 'utf-8' codec can't encode"),
        ("memory", 2**63, "Expected `int` <= 9223372036854775807 - at `$.memory`"),
        ("allocators", [{"label": "a", "reserved_peak": -1}], "Expected `int` >= 0"),
        ("allocators", [{"label": "a", "reserved_peak": 10**300}], "Expected `int` <= 9223372036"),
        ("allocators", [{"label": "a", "reserved_peak": 1}] * 2, "allocators: each name is needed"),
        ("peak", {"groups": [{"since": "", "module": "", "size": 1}] * 2}, "peak.groups: each nam"),
        ("version", 10**40, "version 1 is needed, found 'gapless-fit', version a whole number of"),
        ("schema", "gapless-comparison", "schema gapless-fit, version 1 is needed, found 'gapl"),
        ("version", 2, "version 1 is needed, found 'gapless-fit', version 2"),
        ("allocators", [{"label": "live", "reserved_peak": "much"}], "reserved_peak"),
        ("peak", {}, "missing required field `groups`"),
    ],
)
def test_only_answers_of_fit_are_read(
    field: str, value: object, said: str, files: tuple[Path, Path]
) -> None:
    old = changed(files[0], **{field: value})
    with pytest.raises(InstanceError) as caught:
        read_fit(old)
    assert str(caught.value).startswith(f"{old}: ")
    assert said in str(caught.value)
    require_one_line(run_command(app, "--diff", old, old), said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'"\xff"', "the file is not UTF-8 text: byte 1"),
        (b"[" * 100_000, "its lists are nested too deeply"),
        (b"1" * 5000, "a whole number of too many digits"),
        (b'{"version": 1, "version": 1}', "field version: given twice"),
        (b"[]", "Expected `object`, got `array`"),
    ],
)
def test_a_file_is_read_by_the_reader_of_all_files(text: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_bytes(text)
    require_one_line(run_command(app, "--diff", path, path), said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--page", "a.html"], "leave out --page"),
        (["--memory", "1GiB", "--json"], "leave out --memory, --json"),
        (["--no-remedies"], "leave out --remedies"),
        (["net.json", "--groups", "3"], "leave out NAME"),
        (["--groups", "-1"], "--groups: at least 0 is needed, found -1"),
    ],
)
def test_options_that_a_comparison_does_not_use(
    arguments: list[str], said: str, files: tuple[Path, Path]
) -> None:
    require_one_line(run_command(app, "--diff", *files, *arguments), said)


@pytest.mark.parametrize(
    "threshold", ["%", "-1%", "1/0%", "much", "nan%", "1e400%", "1e999999999 %", "1e400", "\u0661%"]
)
def test_a_threshold_is_a_percentage_or_bytes(threshold: str) -> None:
    with pytest.raises(GaplessError, match="--threshold: "):
        Threshold.parse(threshold)
