"""Hooks on modules and optimizers tell STWeaver where a PyTorch program is; no GPU is needed."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.torch


class Told:
    """Stands for STWeaver: notes what it is told."""

    def __init__(self) -> None:
        self.iterations: list[list[tuple[int, str]]] = []

    def begin_iteration(self) -> None:
        self.iterations.append([])

    def enter(self, phase: int, module: str) -> None:
        self.iterations[-1].append((phase, module))


def told_of(
    steps: int, microbatches: int, *, checkpointed: bool = False, told: Told | None = None
) -> Told:
    import torch
    from torch.utils.checkpoint import checkpoint

    from gpu_runtime.online.module_hooks import ModuleHooks

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            run = self.first
            hidden = checkpoint(run, x, use_reentrant=False) if checkpointed else run(x)
            return self.second(hidden.relu())

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    told = told or Told()
    hooks = ModuleHooks(told)  # type: ignore[arg-type]
    try:
        for _ in range(steps):
            for _ in range(microbatches):
                net(torch.ones(2, 4, requires_grad=True)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    finally:
        hooks.close()
    net(torch.ones(2, 4)).sum().backward()
    return told


@pytest.mark.parametrize("checkpointed", [False, True])
def test_every_iteration_has_its_phases_and_modules(checkpointed: bool) -> None:
    iterations = told_of(3, 2, checkpointed=checkpointed).iterations
    assert len(iterations) == 3
    assert iterations[0] == iterations[1] == iterations[2]
    phases = [phase for phase, _ in iterations[0]]
    assert phases == sorted(phases)
    # Forward and backward passes of two microbatches, and the update.
    assert set(phases) == {0, 1, 2, 3, 4}
    for phase in range(4):
        modules = {module for its, module in iterations[0] if its == phase}
        assert {"Net.first", "Net.second"} <= modules
    assert {module for phase, module in iterations[0] if phase == 4} == {""}


def test_what_a_graph_captures_begins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    told = Told()
    told.begin_iteration()
    told_of(2, 1, told=told)
    assert len(told.iterations) == 1
    assert {phase for phase, _ in told.iterations[0]} == {-1}


def test_the_forward_pass_goes_through_its_modules() -> None:
    [iteration] = told_of(1, 1).iterations
    forward = [module for phase, module in iteration if phase == 0]
    assert forward == ["", "Net", "Net.first", "Net", "Net.second", "Net", ""]


def test_a_trace_made_without_a_gpu_has_the_visits_of_the_program() -> None:
    import torch

    from gpu_runtime.online.module_hooks import ModuleHooks
    from instances.extract.eager.fake_trace import trace_on_fake_tensors
    from instances.extract.eager.trace_settings import TraceSettings
    from instances.extract.eager.training_loop import TrainingLoop
    from instances.traces.trace_requests import requests_of_trace

    class Output:
        def __init__(self, loss: Any) -> None:
            self.loss = loss

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

        def forward(self, x: Any) -> Output:
            for layer in self.layers:
                x = layer(x).relu()
            return Output(x.sum())

    settings = TraceSettings(precision="float32", microbatches=2)
    batch = {"x": torch.zeros(4, 8)}
    requests = requests_of_trace(trace_on_fake_tensors(lambda: (Net(), batch), settings, "net", {}))
    names = ("", *requests.module_names)
    begin, end = requests.iteration_rows[1:3]
    expected = {
        (phase, names[module + 1])
        for phase, module in zip(
            requests.phase[begin:end].tolist(), requests.module[begin:end].tolist(), strict=True
        )
    }
    told = Told()
    hooks = ModuleHooks(told)  # type: ignore[arg-type]
    try:
        TrainingLoop(
            Net(), lambda: {"x": torch.ones(4, 8)}, settings, "cpu", begin=lambda _: None
        ).run()
    finally:
        hooks.close()
    assert len(told.iterations) == 3
    assert expected == set(told.iterations[1])
    assert (3, "Net.layers.2") in expected
