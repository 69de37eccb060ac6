"""Lower a network to ExecuTorch, and keep the problem that its memory planning poses.

Note: the whole lowering
------------------------
Rationale. The tensors that a planner of ExecuTorch places depend on all earlier stages: the export,
the decomposition into ExecuTorch's operators, the passes. So these run as in a user's script.

Approach. Memory is planned by ExecuTorch's default pass, with its alignment and with inputs and
outputs. This pass calls a planner of ours, which keeps the problem.

Limits. The network must have one graph without control flow, on one memory, so there is one
problem.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instances.catalogue.instance_folders import named_after
from instances.extract.executorch.networks import NETWORKS, Network, find_network
from instances.extract.models.required_packages import package_versions
from planners.command_line.typer_frame import CommandLine
from planners.errors import InstanceError, MissingDependencyError
from planners.files.output_file import require_suffix, require_targets, say_written
from planners.files.problem_file import SUFFIXES, write_problem
from planners.integrations.executorch import gapless_planner
from planners.model.problem import Problem, Scalar
from planners.text.progress_line import show_progress

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


# Any planner will do, because only the problem is needed.
RECORDER = "naive"


def extract_memory(name: str, on_stage: Callable[[str], None] = lambda _text: None) -> Problem:
    """Return the problem that ExecuTorch's memory planning has for a network."""
    network = find_network(name)
    on_stage(f"{name}: importing ExecuTorch")
    for package in ("executorch.exir", "torch", "transformers"):
        try:
            import_module(package)
        except ImportError as error:
            raise MissingDependencyError(
                f"lowering a network needs {package} ({error})", "executorch"
            ) from None
    on_stage(f"{name}: exporting and lowering")
    recorder = gapless_planner(RECORDER, time_limit=None)
    lower(network, recorder)
    if len(recorder.planned) != 1:
        raise InstanceError(
            f"network {name}: one graph on one memory is needed, found {len(recorder.planned)}"
        )
    problem = recorder.planned[0].problem
    return problem.select(range(problem.tensor_count), origin=_origin(name, network))


def lower(network: Network, algorithm: Callable[..., Any]) -> Any:
    """Return the ExecuTorch program of a network, whose memory an algorithm planned."""
    import torch
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
    from executorch.exir.passes import MemoryPlanningPass

    class FirstOutput(torch.nn.Module):
        def __init__(self, module: Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, given: Tensor) -> Tensor:
            output = self.module(given)
            return output if isinstance(output, torch.Tensor) else output[0]

    module, given = network.build()
    planned_by = MemoryPlanningPass(memory_planning_algo=MemoryPlanningAlgorithmSuite([algorithm]))
    # Passes run operators of the program, which is for inference.
    with torch.no_grad():
        program = to_edge(torch.export.export(FirstOutput(module).eval(), (given,)))
        return program.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planned_by))


def _origin(name: str, network: Network) -> dict[str, Scalar]:
    described: dict[str, Scalar | None] = {
        "compiler": "ExecuTorch",
        "model": network.source,
        "step": "inference; float32",
        "batch": 1,
        "image": network.image,
        "seq": network.seq,
        "command": f"python -m instances.extract executorch {name}",
        "executorch": version("executorch"),
        **package_versions(),
    }
    return {key: value for key, value in described.items() if value is not None}


app = CommandLine()


@app.command()
def executorch(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NETWORKS)}.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Instance file, .json or .json.gz.")
    ],
) -> None:
    """Lower a network to ExecuTorch, without weights or download, and write its memory problem."""
    find_network(name)
    require_targets({"--output": output})
    require_suffix("--output", output, "a problem", SUFFIXES)
    problem = extract_memory(name, show_progress)
    write_problem(named_after(problem, output), output)
    show_progress("")
    say_written(output, f"{output}: {problem.tensor_count} tensors, {output.stat().st_size} bytes")
