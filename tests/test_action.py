"""The GitHub action: its steps run with bash, in the environment that GitHub would give them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu_runtime.test_fit import FRAGMENTING
from tests.repository import ROOT

# Takes the place of GitHub's program `gh`: it records its calls, and chooses earlier comments by
# `jq`, which the machines of GitHub have.
GH = """#!/bin/sh
printf '%s\\n' "$*" >> "$GH_CALLS"
case "$*" in *--jq*) printf '%s' "$EARLIER" | jq -r "$5" ;; esac
"""
BOT, PERSON = ({"user": {"login": name, "type": kind}} for name, kind in (
    ("github-actions[bot]", "Bot"), ("someone", "User"),
))  # fmt: skip


class Runner:
    """Runs the steps of the action as GitHub documents it for `shell: bash`."""

    def __init__(self, folder: Path, earlier: list[object] | None = None, **inputs: str) -> None:
        import yaml  # comes with transformers

        self.action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
        self.folder = folder
        defaults = {name: one.get("default") for name, one in self.action["inputs"].items()}
        self.known = {f"inputs.{name}": one for name, one in {**defaults, **inputs}.items()}
        self.known |= {
            "runner.temp": str(folder), "github.action_path": str(ROOT),
            "github.repository": "someone/model", "github.event.pull_request.number": "7",
        }  # fmt: skip
        self.said: dict[str, str] = {}
        (folder / "gh").write_text(GH)
        (folder / "gh").chmod(0o755)
        self.calls, self.summary = folder / "calls", folder / "summary"
        self.environment = {
            **os.environ, "EARLIER": json.dumps(earlier or []), "GH_CALLS": str(self.calls),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }  # fmt: skip

    def value(self, text: str) -> str:
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: self.known[found[1]], text)

    def run(self, *, installs: bool = False) -> int:
        """Return the exit status of the first step that fails, else 0."""
        for step in self.action["runs"]["steps"]:
            if "run" not in step or (step["name"] == "Install") is not installs:
                continue
            if step.get("if") and not self.known["inputs.token"]:
                continue
            output, script = self.folder / "output", self.folder / "step.sh"
            output.write_text("")
            script.write_text(step["run"])
            given = {name: self.value(text) for name, text in step["env"].items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
                env={**self.environment, "GITHUB_OUTPUT": str(output), **given},
                cwd=self.folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.said[step["name"]] = done.stdout + done.stderr
            if done.returncode:
                return done.returncode
            for line in output.read_text().splitlines():
                name, _, value = line.partition("=")
                self.known[f"steps.{step['id']}.outputs.{name}"] = value
        return 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(FRAGMENTING.replace("{ending}", "ValueError"))
    return tmp_path


@pytest.mark.torch
def test_growth_fails_and_is_told(folder: Path) -> None:
    program = "train.py:make_step"
    first = Runner(folder, program=program, baseline="memory.json")
    assert first.run() == 0, first.said
    assert "did not grow" in first.summary.read_text()
    Path(first.known["steps.predict.outputs.prediction"]).rename(folder / "memory.json")

    grown = {"program": program, "arguments": "--set 'parts=2'", "baseline": "memory.json"}
    later = Runner(folder, token="secret", **grown)
    assert later.run() == 1
    assert later.said["Answer"] == "::error::the memory of the training step grew\n"
    table = Path(later.known["steps.compare.outputs.table"]).read_text().splitlines()
    assert table[1:3] == [f"### Memory of `{program}`", "```"]
    assert table[4].split() == [
        "live", "50.00", "MiB", "100.0", "MiB", "+52,428,800", "+100.00", "%",
    ]  # fmt: skip
    asked, written = later.calls.read_text().splitlines()
    assert asked.startswith("api --paginate repos/someone/model/issues/7/comments --jq")
    assert written.startswith("api --method POST repos/someone/model/issues/7/comments --field")

    body = "\n".join(table)
    comments: list[object] = [
        {"id": 40, "body": body, **PERSON}, {"id": 41, "body": "\n".join(table[1:]), **BOT},
        {"id": 42, "body": f"> {body}", **BOT}, {"id": 43, "body": body, **BOT},
        {"id": 44, "body": body, **BOT},
    ]  # fmt: skip
    again = Runner(folder, earlier=comments, token="secret", threshold="100%", **grown)
    assert again.run() == 0, again.said
    assert "--method PATCH repos/someone/model/issues/comments/43 " in again.calls.read_text()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "status", "summary"),
    [
        ("--memory 49MiB", 1, "\ndoes not fit: the GPU has 49.00 MiB\ndid not grow\n```\n"),
        ("--memory 51MiB", 3, "\nfits only when planned: the GPU has 51.00 MiB\n"),
        ("--memory '1 GiB'", 0, "\nfits: the GPU has 1.000 GiB\n"),
        ("--bathc 3", 2, ""),
        ("--set 'parts=1 --memory 49MiB", 2, ""),
    ],
)
def test_a_training_that_fits_passes(
    arguments: str, status: int, summary: str, folder: Path
) -> None:
    runner = Runner(folder, program="train.py:make_step", arguments=f"--beside 0 {arguments}")
    assert runner.run() == status, runner.said
    assert summary in (runner.summary.read_text() if summary else "")


def written_body(folder: Path, program: str, said: str, status: int = 0) -> str:
    """Return the text of the comment if a comparison prints this and ends so."""
    prints = f"#!/bin/sh\ncat {folder}/said\nexit $(({status} * $#  / 6))\n"
    (folder / "said").write_text(said, encoding="utf-8")
    (folder / "gapless").write_text(prints)
    (folder / "gapless").chmod(0o755)
    (folder / "old.json").touch()
    runner = Runner(folder, program=program, baseline="old.json")
    assert runner.run() == status, runner.said
    return runner.summary.read_text(encoding="utf-8") if runner.summary.exists() else ""


@pytest.mark.parametrize("said", ["x: ``` -> 1\n```\n@all\n````\ndid not grow", "`" * 50_000])
def test_nothing_leaves_the_block_of_code(said: str, tmp_path: Path) -> None:
    body = written_body(tmp_path, "a`b\n@all\n```.json", said)
    _, heading, *inner, last = body.splitlines()
    assert (heading, inner[0], last) == ("### Memory of `ab@all.json`", "```", "```")
    assert not any("`" in line for line in inner[1:])


@pytest.mark.parametrize("lines", [["é" * 99] * 2000, ["é" * 99] * 3 + ["x" * 70_000], ["y" * 9]])
def test_a_long_comment_is_cut_before_its_answer(lines: list[str], tmp_path: Path) -> None:
    body = written_body(tmp_path, "net.json", "\n".join([*lines, "grew under live"]), 1)
    assert len(body) <= 65_536
    *_, above, answer, _ = body.splitlines()
    assert answer == "grew under live"
    more = "... and more, which is too long for a comment"
    assert above == (lines[0] if len(lines) == 1 else more)


def test_an_error_is_not_growth(tmp_path: Path) -> None:
    assert written_body(tmp_path, "net.json", "", 1) == ""


@pytest.mark.torch
def test_the_package_of_the_action_is_installed(folder: Path) -> None:
    requirements = "--dry-run --no-deps"
    runner = Runner(folder, program="train.py:make_step", requirements=requirements)
    assert runner.run(installs=True) == 0, runner.said
    assert "Would install gapless-" in runner.said["Install"]
    assert Runner(folder, program="x", requirements="'numpy").run(installs=True) == 2


def test_expressions_stand_in_no_script() -> None:
    """Bash would run an expression in a script, such as the title of a pull request."""
    text = (ROOT / "action.yml").read_text("utf-8")
    scripts = text.split("      run: ")[1:]
    assert scripts
    assert not any("${{" in script.partition("    - name")[0] for script in scripts)
