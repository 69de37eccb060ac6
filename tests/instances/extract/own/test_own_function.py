"""What is wrong with a user's file is one line that names it and the line in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.extract.record.own_extraction import open_own, trace_own
from planners.errors import InstanceError
from tests.instances.extract.own.user_scripts import NETWORK, STEP, written

pytestmark = pytest.mark.torch


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if part in line)


def error_of(name: str, *settings: str) -> str:
    with pytest.raises(InstanceError) as raised:
        trace_own(open_own(name, list(settings)), 1)
    return str(raised.value)


def test_a_name_without_a_function(tmp_path: Path) -> None:
    path = written(tmp_path, STEP)
    message = error_of(f"{path}:")
    assert message.startswith(f"{path}:: FILE.py:FUNCTION is needed, such as my_script.py:make_")


def test_no_file(tmp_path: Path) -> None:
    path = tmp_path / "none.py"
    assert error_of(f"{path}:make_step") == f"{path}: a Python file is needed, found none"


def test_no_such_function_names_those_that_are_near(tmp_path: Path) -> None:
    path = written(tmp_path, STEP)
    message = error_of(f"{path}:make_stop")
    assert message.startswith(
        f"{path}: no function is called 'make_stop'; did you mean 'make_step'"
    )


@pytest.mark.parametrize(
    ("text", "part", "said"),
    [
        ("x = 1\nimport no_such_package\n", "import", "No module named 'no_such_package'"),
        ("def make_step(:\n", "def", "SyntaxError"),
        ("import sys\nsys.exit(3)\n", "exit", "SystemExit: 3"),
    ],
)
def test_a_file_that_cannot_be_run(text: str, part: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    message = error_of(f"{path}:make_step")
    assert message.startswith(f"{path}:{line_of(text, part)}: ")
    assert said in message


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("bach=3", "has no parameter 'bach'; did you mean 'batch'"),
        ("batch=much", "parameter batch: int is needed, found 'much'"),
        ("batch", "--set: NAME=VALUE is needed, such as batch=16, found 'batch'"),
        ("returns=3", "parameter returns: str is needed, found 3"),
    ],
)
def test_a_parameter_that_does_not_fit(setting: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, STEP)
    message = error_of(f"{path}:make_step", setting)
    assert said in message
    if "=" in setting:
        assert f"{path}:{line_of(STEP, 'def make_step')}: make_step" in message


# A body of make_step, the part of it that is wrong, and what is said of it.
WRONG = [
    ("    return 3\n", "def make_step", "has to return a TrainingStep or a function that runs one "
     "step, found int"),
    ("    return nn.Linear(3, 3)\n", "def make_step", "found Linear"),
    ("    raise ValueError('no data')\n", "raise", "ValueError: no data"),
    ("    net = Network()\n    return TrainingStep(net, 3, torch.optim.SGD(net.parameters()))\n",
     "return TrainingStep", "TrainingStep, inputs: a tensor, a sequence"),
    ("    net = Network('scores')\n    return TrainingStep(net, data(3), "
     "torch.optim.SGD(net.parameters()))\n",
     "def make_step", "found a tensor of shape (3, 4); give loss="),
    ("    def step():\n        Network()(torch.ones(2, 7))\n    return step\n",
     "self.second(", "RuntimeError"),
    ("    def step():\n        x = torch.ones(7).long()\n        x.repeat_interleave(x)\n"
     "    return step\n",
     "x.repeat_interleave", "memory that depends on the values of data cannot be traced"),
    *((f"    def step():\n        n = torch.ones(7).long().sum().item()\n        {use}\n"
       "    return step\n", use, "a whole number that is read from the GPU is used as a length")
      for use in ("torch.zeros(n)", "torch.zeros(2, n)", "torch.zeros(n, 2)", "range(n)",
                  "torch.ones(7)[:n]", "torch.ones(7).repeat(n, 1)", "torch.ones(7).split(n)",
                  "torch.ones(7).new_zeros(n, 2)", "torch.ones(7).view(n, -1)", "[0] * n",
                  "torch.ones(7).reshape(2 * n + 1, -1)", "torch.zeros(round(n / 2))",
                  "torch.randint(9, (n,))", "torch.zeros(-(n // -8))", "nn.Linear(n, n)")),
]  # fmt: skip


@pytest.mark.parametrize(("body", "part", "said"), WRONG)
def test_a_fault_in_a_step_names_its_line(body: str, part: str, said: str, tmp_path: Path) -> None:
    text = f"{NETWORK}\n\ndef make_step():\n{body}"
    path = written(tmp_path, text)
    message = error_of(f"{path}:make_step")
    assert message.startswith(f"{path}:{line_of(text, part)}: "), message
    assert said in message


def test_a_parameter_without_a_default_has_to_be_given(tmp_path: Path) -> None:
    path = written(tmp_path, NETWORK + "\n\ndef make_step(batch):\n    return print\n")
    message = error_of(f"{path}:make_step")
    assert message.endswith("parameter batch has no default; give it by --set batch=VALUE")
    assert trace_own(open_own(f"{path}:make_step", ["batch=3"]), 1).iteration_count == 1


def test_modules_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    written(tmp_path, STEP, "my_network_beside.py")
    path = written(tmp_path, "from my_network_beside import make_step as make\n")
    assert trace_own(open_own(f"{path}:make", ["batch=4"]), 1).request_count
