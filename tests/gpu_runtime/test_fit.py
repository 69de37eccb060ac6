"""``python -m gpu_runtime.fit`` in this process: answers, searches, exit statuses, errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from gpu_runtime.fit import app
from tests.command_line import run_command
from tests.gpu_runtime.replaying.recordings import MIB
from tests.instances.extract.own.user_scripts import BERT, STEP, written

# Steps that a plan serves in 50 MiB for each part and PyTorch in 60.
FRAGMENTING = """
import torch

MIB = 1 << 20


def make_step(parts=1, most=None, names="none"):
    if most and parts > most:
        raise {ending}

    def step():
        first = torch.empty(40 * parts * MIB, dtype=torch.uint8, device="cuda")
        del first
        second = torch.empty(30 * parts * MIB, dtype=torch.uint8, device="cuda")
        third = torch.empty(20 * parts * MIB, dtype=torch.uint8, device="cuda")

    return step
"""

# As the user presses it, who reaches the command and not the process of the script.
CTRL_C = "(__import__('os').kill(__import__('os').getppid(), 2), __import__('time').sleep(60))"

# What a script does before its step is there, and how its line goes on.
HOSTILE = {
    "import os; os._exit(0)": "its process ended with exit status 0 before it answered",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": "its process ended by signal SIGKI",
    "import os; os.closerange(3, 256)": "its process ended with exit status 70 before",
    "import os; [os.dup2(2, fd) for fd in range(3, 256)]": "its process ended",
    "import os; [OPEN(os.write, fd, b'yes' * 9) for fd in range(256)]": "its process sent more",
    "import json; json.dumps = lambda *_, **__: '{}'": "its process sent no valid answer",
    "import json; make = json.dumps; json.dumps = lambda one, **_: make({**one, 'values': [1]})": (
        "its process sent no valid answer"
    ),
    "raise KeyboardInterrupt": "its process ended with exit status 70 before it answered",
    "import sys; sys.exit(0)": "SystemExit: 0",
    "raise GeneratorExit": "GeneratorExit",
    "def f(): f()\nf()": "RecursionError",
    "class E(Exception):\n __str__ = lambda _: 1 / 0\nraise E": "E: an object",
    "class E(Exception):\n def __str__(self): raise SystemExit(0)\nraise E": "E: an object",
}
HARMLESS = [
    "import atexit; atexit.register(print, 'bye')",
    "import threading; threading.Thread(target=lambda: [print('on') for _ in range(9)]).start()",
    "import os; os.fork()",
    "import os, sys; sys.stdout = None; os.write(1, b'hello')",
    "import sys; sys.stdout = open('/dev/null', 'w'); sys.__stdout__.write('hello')",
]
OPEN = """
def OPEN(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        pass
"""


WITH_WORDS = """
import sys

import torch


def main():
    assert sys.argv == [__file__, "a b", "-b", "4000", "--memory", "1", "--", "--last"], sys.argv
    weight = torch.nn.Linear(1000, 1000, bias=False).cuda()
    optimizer = torch.optim.SGD(weight.parameters())
    for _ in range(4):
        weight(torch.ones(int(sys.argv[3]), 1000, device="cuda")).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""


def fit(*arguments: str | Path) -> Result:
    return run_command(app, *arguments)


def record(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fit(*arguments, "--json").stdout)
    return found


def refused(*arguments: str | Path) -> str:
    answer = fit(*arguments)
    assert (answer.exit_code, answer.stdout) == (2, "")
    return answer.stderr


def script(folder: Path, text: str = FRAGMENTING, ending: str = "ValueError('too many')") -> str:
    return f"{written(folder, text.replace('{ending}', ending))}:make_step"


@pytest.mark.torch
@pytest.mark.parametrize(
    ("memory", "status", "said"),
    [
        ("60MiB", 0, "fits under pytorch-caching, pytorch-expandable, planned: 60.00 MiB"),
        ("51MiB", 3, "fits only when planned: 51.00 MiB (53,477,376)"),
        ("49MiB", 1, "does not fit: 49.00 MiB"),
    ],
)
def test_the_exit_status_is_the_answer(memory: str, status: int, said: str, tmp_path: Path) -> None:
    answer = fit(script(tmp_path), "--memory", memory, "--beside", "0")
    assert answer.exit_code == status, answer.stderr
    assert answer.stdout.splitlines()[-1].startswith(said)


@pytest.mark.torch
@pytest.mark.parametrize("function", ["", ":main"])
def test_all_behind_two_hyphens_is_the_scripts(function: str, tmp_path: Path) -> None:
    name = f"{written(tmp_path, WITH_WORDS)}{function}"
    words = ("a b", "-b", "4000", "--memory", "1", "--", "--last")
    answer = fit(name, "--allocators", "pytorch-caching", "--json", "--", *words)
    found = json.loads(answer.stdout)
    assert found["peak"]["size"] > 4000 * 1000 * 4
    assert found["origin"]["command"].endswith("-- 'a b' -b 4000 --memory 1 -- --last")


@pytest.mark.torch
def test_prints_the_need_without_a_limit(tmp_path: Path) -> None:
    answer = fit(script(tmp_path), "--set", "parts=2")
    assert (answer.exit_code, answer.stderr) == (0, "")
    above, headings, live, caching, _, planned, *kinds, blank, _, peak = answer.stdout.splitlines()
    assert [line.split()[-1] for line in kinds[-2:]] == ["kind", "temporaries"]
    parts = [line.split() for line in kinds[2:5]]
    assert [part[-8:-4] for part in parts] == [
        ["0", "B", "0", "B"], *[["100.0", "MiB", "120.0", "MiB"]] * 2
    ]  # fmt: skip
    assert above == (
        "my_script.py:make_step parts=2: 9 requests in 3 steps; live peak 100.0 MiB (104,857,600), "
        "in step 1, forward"
    )
    assert headings.split() == ["allocator", "reserved", "peak", "bytes", "over", "live"]
    assert live.split() == ["live", "100.0", "MiB", "104,857,600", "-"]
    assert caching.split() == ["pytorch-caching", "120.0", "MiB", "125,829,120", "20.00", "%"]
    assert planned.split()[:2] == ["*", "planned"]
    assert blank == ""
    assert peak.split() == ["100.0", "MiB", "100.0", "%", "2", "forward", "-"]


@pytest.mark.torch
def test_memory_beside_the_tensors_is_taken_off(tmp_path: Path) -> None:
    answer = fit(script(tmp_path), "--memory", "310MiB", "--json")
    found = json.loads(answer.stdout)
    assert (found["memory"], found["beside"]) == (310 * MIB, 250 * MIB)
    assert (answer.exit_code, found["answer"]) == (0, "yes")
    assert fit(script(tmp_path), "--memory", "309MiB").exit_code == 3


@pytest.mark.torch
def test_the_largest_value_under_each(tmp_path: Path) -> None:
    given = (script(tmp_path), "--memory", "1200MiB", "--beside", "0", "--vary", "parts")
    found = json.loads(fit(*given, "--json").stdout)["vary"]
    largest = {label: one["value"] for label, one in found["largest"].items()}
    assert all(one["found"] for one in found["largest"].values())
    assert largest.keys() == {"live", "pytorch-caching", "pytorch-expandable", "planned"}
    assert (largest["live"], largest["planned"], largest["pytorch-caching"]) == (24, 24, 20)
    for label, value in largest.items():
        for parts, fits in ((value, True), (value + 1, False)):
            rows = {row["label"]: row for row in found["tried"][str(parts)]}
            assert rows[label]["fits"] is fits
    _, headings, *rows = fit(*given, "--by", "7", "--groups", "0").stdout.splitlines()
    assert headings.endswith("largest parts")
    assert [row.split()[-1] for row in rows[:4]][::3] == ["21", "21"]


@pytest.mark.torch
def test_the_frontier_of_two_parameters(tmp_path: Path) -> None:
    text = FRAGMENTING.replace("parts=1", "parts=1, times=1").replace("* parts", "* parts * times")
    picture = tmp_path / "frontier.png"
    answer = fit(
        script(tmp_path, text), "--memory", "110MiB", "--beside", "0", "--vary", "parts,times",
        "--allocators", "pytorch-caching,planned", "--groups", "0", "--plot", picture,
    )  # fmt: skip
    assert answer.exit_code == 0, answer.stderr
    lines = answer.stdout.splitlines()
    begin = lines.index("largest parts in 110.0 MiB")
    assert lines[begin - 1 : begin + 4] == [
        "", "largest parts in 110.0 MiB", "times  live  pytorch-caching  planned",
        "    1     2                1        2",
        "    2     1             none        1",
    ]  # fmt: skip
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.torch
def test_a_configuration_file_is_a_program(tmp_path: Path) -> None:
    fields = {"model_type": "gpt2", "n_layer": 1, "n_embd": 64, "n_head": 2, "vocab_size": 100}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(fields))
    shape = ("--batch", "2", "--seq", "32", "--precision", "bfloat16", "--lora", "r=4")
    answer = fit("--model", path, *shape, "--groups", "0")
    assert answer.exit_code == 0, answer.stderr
    assert answer.stdout.startswith("config.json batch=2 seq=32 lora=r=4: ")
    assert fit(path, *shape, "--groups", "0").stdout == answer.stdout
    assert "at most 1024 tokens, the positions of the model" in refused(path, "--seq", "1025")


@pytest.mark.torch
def test_a_registered_model_by_its_settings(tmp_path: Path) -> None:
    arguments = ("bert-base", "--layers", "1", "--seq", "16", "--batch", "2", "--memory", "5GiB")
    answer = fit(*arguments, "--vary", "batch", "--by", "500", "--allocators", "pytorch-caching")
    assert answer.exit_code == 0, answer.stderr
    assert answer.stdout.startswith("bert-base batch=2 seq=16 layers=1: ")
    own = fit(script(tmp_path, BERT), "--json")
    modules = {group["module"] for group in json.loads(own.stdout)["peak"]["groups"]}
    assert "BertForMaskedLM.bert.encoder.layer.*.output.dense" in modules


@pytest.mark.torch
@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("ValueError('too many')", 2, "error: parts 8: {path}:9: ValueError: too many\n"),
        (CTRL_C, 130, "interrupted\n"),
    ],
)
def test_an_interrupted_search_prints_its_results(
    ending: str, status: int, said: str, tmp_path: Path
) -> None:
    name = script(tmp_path, ending=ending)
    answer = fit(
        name, "--memory", "1GiB", "--beside", "0", "--vary", "parts", "--set", "most=4",
        "--groups", "0",
    )  # fmt: skip
    assert answer.exit_code == status
    assert answer.stderr == said.format(path=name.rpartition(":")[0])
    assert answer.stdout.splitlines()[2].endswith(">= 2")


@pytest.mark.torch
def test_json_says_how_the_trace_is_made_again(tmp_path: Path) -> None:
    found = record(script(tmp_path), "--set", "parts=2")
    assert found.keys() == {
        "schema", "version", "environment", "program", "origin", "memory", "beside", "nccl",
        "answer", "peak", "allocators", "ranks", "vary", "frontier", "fewest_ranks",
        "graphs", "remedies",
    }  # fmt: skip
    assert found["origin"]["command"] == (
        "python -m instances.extract trace my_script.py:make_step --set parts=2 --steps 3"
    )
    assert (found["memory"], found["answer"], found["vary"]) == (None, None, None)
    assert found["peak"]["size"] == 100 * MIB


# Command lines, and what is said of them.
REFUSED = (
    ("bert-base 24GiB", "bert-base is a registered model, which has options, found '24GiB'"),
    ("bert-base --vary batch", "--vary: --memory is needed"),
    (
        "bert-base --memory 100MiB",
        "--memory: more than the 250.0 MiB of --beside are needed, found",
    ),
    ("bert-base --memory much", "--memory: bytes are needed, such as 24GiB"),
    ("bert-base --by 0", "--by: at least 1 is needed, found 0"),
    ("bert-base --groups -1", "--groups: at least 0 is needed, found -1"),
    ("bert-base --ranks 0", "--ranks: at least 1"),
    ("bert-base --allocators pytroch", "no online allocator matches 'pytroch'"),
    ("bert-base --set batch=3", "bert-base is a registered model, which has options"),
    ("bert-base --steps 0", "setting steps: at least 1, found 0"),
    ("bert-base --model gpt2-medium", "one program is needed: NAME, or --model, or two files"),
    ("bert-base --diff old.json new.json", "--diff: two files are compared; leave out NAME"),
    ("bert-base --threshold 0", "--threshold: two files to compare are needed, after --diff"),
    ("bert-base --memory 1GiB --vary a,b,c", "--vary: one name or two are needed, found a,b"),
    ("bert-base --plot a.png --vary batch", "--plot: --vary with ranks or two names is needed"),
    ("bert-base --plot a.docx --vary batch,seq", "--plot a.docx: a picture is written as"),
    ("bert-base --plot a.png --vary batch,seq", "--vary: --memory is needed"),
    ("bert-base --ranks 2", "the model bert-base is not parallel by itself"),
    ("bert-base --ranks 8 --parallel tp=2", "multiply to those of --ranks, 8"),
    *(
        (
            f"bert-base --ranks 2 --memory 1GiB {wrong}",
            "--vary ranks: it goes alone, and --parallel without num",
        )
        for wrong in ("--vary ranks,batch --parallel fsdp2", "--vary ranks --parallel fsdp2=2")
    ),
)
# Those that PyTorch is needed for; PARTS and STEP are files.
REFUSED_AT_WORK = (
    ("bert-base --memory 1GiB --vary microbatches", "bert-base has no setting 'microbatches' that"),
    ("bert-base --memory 1GiB --vary image", "bert-base image: a whole number from 1 on"),
    ("PARTS --memory 1GiB --vary pats", "my_script.py:7: make_step has no parameter 'pats'; did"),
    (
        "PARTS --memory 1GiB --vary most",
        "most: a whole number from 1 on is needed to begin with, found None",
    ),
    (
        "PARTS --memory 1GiB --vary names",
        "names: a whole number from 1 on is needed to begin with, found 'none'",
    ),
    ("STEP --batch 3", "--batch: "),
    ("STEP --ranks 2 --parallel tp", "a base_model_tp_plan, found Network without one"),
)


@pytest.mark.parametrize(
    ("command", "said"),
    [*REFUSED, *(pytest.param(*one, marks=pytest.mark.torch) for one in REFUSED_AT_WORK)],
)
def test_refuses(command: str, said: str, tmp_path: Path) -> None:
    name, *options = command.split()
    text = {"PARTS": FRAGMENTING, "STEP": STEP}.get(name)
    assert said in refused(name if text is None else script(tmp_path, text), *options)


def test_without_pytorch_the_error_has_the_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("bert-base", script(tmp_path)):
        assert refused(name).endswith("pip install 'gapless[torch]'\n")


@pytest.mark.torch
@pytest.mark.parametrize("does", HOSTILE)
def test_nothing_but_an_answer_is_an_answer(does: str, tmp_path: Path) -> None:
    name = script(tmp_path, f"{OPEN}{does}\n{FRAGMENTING}")
    answer = fit(name, "--memory", "1GiB", "--json")
    assert (answer.exit_code, answer.stdout) == (2, "")
    line = answer.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    assert HOSTILE[does] in line


@pytest.mark.torch
@pytest.mark.parametrize("does", HARMLESS)
def test_output_of_a_script_is_not_in_the_answer(does: str, tmp_path: Path) -> None:
    name = script(tmp_path, f"{does}\n{FRAGMENTING}")
    answer = fit(name, "--memory", "1GiB", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert json.loads(answer.stdout)["answer"] == "yes"


RANKED = """
import os

import torch

RANK = int(os.environ["RANK"])


def make_step(parts=1):
    def step():
        block = torch.empty(parts * (RANK + 1) << 20, dtype=torch.uint8, device="cuda")

    return step
"""


@pytest.mark.torch
def test_ranks_are_shown_apart_and_the_worst_answers(tmp_path: Path) -> None:
    given = (script(tmp_path, RANKED), "--ranks", "3", "--beside", "0", "--channels", "1")
    nccl = 2 * (512 * 1024 + 4_915_200 + 4 * MIB)
    found = json.loads(fit(*given, "--memory", str(nccl + 2 * MIB), "--json").stdout)
    assert (found["answer"], found["nccl"], found["origin"]["rank"]) == ("no", nccl, 2)
    assert [(one["rank"], one["peak"]) for one in found["ranks"]] == [(0, MIB), (2, 3 * MIB)]
    answer = fit(*given, "--memory", str(nccl + 20 * MIB), "--groups", "0")
    assert answer.exit_code == 0, answer.stderr
    above, *_, nccl_line, _, last = answer.stdout.splitlines()
    assert above.startswith("my_script.py:make_step, rank 2 of 3: 3 requests in 3 steps")
    assert nccl_line.endswith("18.38 MiB  a model: 1 channel in 1 group of 3 ranks")
    assert last.endswith("less 18.38 MiB for libraries and NCCL")
    rows = [line.split() for line in answer.stdout.splitlines()]
    assert [row[0] for row in rows if row[-1:] == ["fits"]] == ["0", "2"]
    most = json.loads(fit(*given, "--memory", "40MiB", "--vary", "parts", "--json").stdout)["vary"]
    assert most["largest"]["live"]["value"] == (40 * MIB - nccl) // (3 * MIB)


SHARDED = """
import torch

from instances.extract import TrainingStep


class Network(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def make_step(batch=8, width=512):
    network = Network(width)
    optimizer = torch.optim.AdamW(network.parameters())
    loss = lambda result: result.sum()
    return TrainingStep(network, torch.ones(batch, width), optimizer, loss=loss)
"""


@pytest.mark.torch
def test_the_fewest_ranks_are_those_of_a_second_run(tmp_path: Path) -> None:
    own = (
        script(tmp_path, SHARDED), "--parallel", "fsdp2", "--memory", "80MiB", "--beside", "0",
        "--channels", "0", "--allocators", "planned",
    )  # fmt: skip
    found = record(*own, "--ranks", "2", "--vary", "ranks", "--no-remedies")
    tried = found["fewest_ranks"]["tried"]
    assert found["fewest_ranks"]["fewest"] == {"live": 2, "planned": 4}
    assert tried.keys() == {"2", "4"}
    assert tried["2"] == found["allocators"] != tried["4"]
    second = record(*own, "--ranks", "4", "--no-remedies")
    assert (tried["4"], second["remedies"]) == (second["allocators"], None)


@pytest.mark.torch
def test_remedies_are_what_a_second_run_says(tmp_path: Path) -> None:
    fields = {"model_type": "gpt2", "n_layer": 1, "n_embd": 128, "n_head": 2, "vocab_size": 500}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(fields))
    shape = (path, "--seq", "512", "--memory", "2MiB", "--beside", "0", "--steps", "2")
    page = tmp_path / "fit.html"
    found = record(*shape, "--batch", "8", "--page", page)
    by_name = {one["name"]: one["allocators"] for one in found["remedies"]["found"]}
    for name, *options in (
        ("checkpointing", "--batch", "8", "--checkpointing"),
        ("selective checkpointing", "--batch", "8", "--checkpointing", "--selective"),
        ("half the batch", "--batch", "4"),
    ):
        second = record(*shape, *options, "--no-remedies")
        assert by_name[name] == second["allocators"], name
    assert by_name["expandable segments"] == by_name["a plan"] == found["allocators"]
    assert by_name["optimizer in 8 bits"] != found["allocators"]
    assert "What would help" in page.read_text(encoding="utf-8")


@pytest.mark.torch
def test_a_users_function_is_halved_and_what_it_lacks_is_said(tmp_path: Path) -> None:
    own = (script(tmp_path, STEP), "--memory", "1MiB", "--beside", "0")
    answer = fit(*own)
    assert answer.exit_code == 1
    said = answer.stdout
    assert "left out: checkpointing: my_script.py:make_step has no such setting" in said
    (half,) = [line for line in said.splitlines() if line.startswith("half the batch")]
    second = fit(*own, "--set", "batch=4", "--no-remedies").stdout.splitlines()
    caching = next(line for line in second if "pytorch-caching" in line)
    # Bytes stand behind a name, a number and a unit.
    assert half.split()[5] == caching.split()[3 + caching.startswith("*")]
