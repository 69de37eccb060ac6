"""The page on whether a training fits: its commands run, and end as it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_runtime.fitting.outside_memory import LIBRARIES
from tests.docs.test_recording import BLOCKS
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "fit.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^    (python -m .*)$", PAGE, re.M)]


@pytest.mark.torch
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    (sharded,) = re.findall(r"^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "my_script.py").write_text(f"{BLOCKS[0]}\n\n{sharded}", encoding="utf-8")
    own = [words for words in COMMANDS if any(word.startswith("my_script.py") for word in words)]
    # The others train a registered model or run a study, on a GPU in part.
    assert (len(own), len(COMMANDS)) == (5, 10)
    for words in own:
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "fits under pytorch-caching" in done.stdout


@pytest.mark.torch
def test_the_commands_of_the_page_on_ci_give_its_tables(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "fit-in-ci.md").read_text(encoding="utf-8")
    first, second, third = re.findall(r"^    gapless (fit .*)$", page, re.MULTILINE)
    (tmp_path / "config.json").write_text(re.findall(r"`config.json` is `(.+)` here", page)[0])
    for words in (first, second):
        asked, _, file = words.partition(" > ")
        (tmp_path / file).write_text(ran(shlex.split(asked), tmp_path).stdout)
    answer = ran(shlex.split(third), tmp_path)
    assert answer.returncode == 1
    for line in answer.stdout.splitlines():
        assert f"    {line}\n" in page or not line


@pytest.mark.torch
@pytest.mark.parametrize(
    ("row", "options", "figure"),
    [
        (
            "`seven_billion optimizer=sgd in_backward=True`", "optimizer=sgd in_backward=True",
            lambda rows: f"{rows['live'] / 1e9:.2f}",
        ),
        (
            "the same with checkpointing",
            "max_steps=3 per_device_train_batch_size=1 gradient_accumulation_steps=4 "
            "gradient_checkpointing=True",
            lambda rows: f"{rows['pytorch-caching'] >> 20:,}",
        ),
    ],
    ids=["live", "reserved"],
)  # fmt: skip
def test_trainings_that_others_reported_are_predicted_as_the_page_says(
    row: str, options: str, figure: Callable[[dict[str, int]], str], tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "studies" / "fit-against-reality.md").read_text(encoding="utf-8")
    (predicted,) = re.findall(rf"^\| {re.escape(row)} \|.*\| ([\d.,]+) \| [^|]*\|$", page, re.M)
    name = "seven_billion" if "seven" in row else "sequence_classes"
    asked = [f"{ROOT}/evaluation/programs/published.py:{name}"]
    sets = [word for option in options.split() for word in ("--set", option)]
    answer = ran(["fit", *asked, *sets], tmp_path)
    of_row = re.compile(r"^[ *]*(live|pytorch-caching) .* ([\d,]+)  +\S+(?: %)?$", re.M)
    rows = {name: int(count.replace(",", "")) for name, count in of_row.findall(answer.stdout)}
    assert figure(rows) == predicted


def ran(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpu_runtime.fit", *words[1:]]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_page_has_the_default_of_what_is_taken_off() -> None:
    assert f"`--beside {LIBRARIES >> 20}MiB`" in PAGE
