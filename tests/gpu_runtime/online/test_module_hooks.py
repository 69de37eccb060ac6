"""Hooks on modules and optimizers tell STWeaver where a PyTorch program is; no GPU is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.optim.optimizer import _global_optimizer_pre_hooks
from torch.utils.checkpoint import checkpoint

from gpu_runtime import OnlineMemory
from gpu_runtime._core import ServingOnlineAllocator, SimulatedMemory
from gpu_runtime.online.module_hooks import ModuleHooks
from gpu_runtime.online.stweaver_program import StweaverProgram
from instances.extract.record.fake_trace import trace_on_fake_tensors
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.record.training_loop import TrainingLoop
from instances.traces.trace_requests import requests_of_trace
from planners.model.request_sequence import RequestAction, RequestSequence
from tests.gpu_runtime.online.allocating_mode import AllocatingMode

pytestmark = pytest.mark.torch

WIDTH, EXPERTS = 16, 3
ROWS = (9, 14, 11, 17, 8, 21, 13, 16)


class Net(nn.Module):
    """Two layers, of which the first may be recomputed."""

    def __init__(self, *, checkpointed: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.checkpointed = checkpointed

    def forward(self, x: Tensor) -> Tensor:
        """Return the second layer's output."""
        run: Any = self.first
        hidden = checkpoint(run, x, use_reentrant=False) if self.checkpointed else run(x)
        out: Tensor = self.second(hidden.relu())
        return out


class Mixture(nn.Module):
    """A layer, then experts that each get some of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))

    def forward(self, x: Tensor, parts: list[int]) -> Tensor:
        """Return the layers' output; `parts` are the rows of each expert."""
        rows = self.before(x).relu().split(parts)
        mixed = torch.cat([expert(its) for expert, its in zip(self.experts, rows, strict=True)])
        out: Tensor = self.after(mixed)
        return out


def below() -> tuple[OnlineMemory, ServingOnlineAllocator, StweaverProgram]:
    memory = OnlineMemory("stweaver")
    serving = memory.attach(SimulatedMemory(2 << 20, 1 << 40))
    assert memory.program is not None
    return memory, serving, memory.program


@contextmanager
def allocating(
    serving: ServingOnlineAllocator, program: StweaverProgram, net: nn.Module
) -> Iterator[AllocatingMode]:
    """Serve a program with hooks, which are gone at the end."""
    hooks = ModuleHooks(program)
    try:
        with AllocatingMode(serving) as mode:
            mode.adopt(net)
            yield mode
    finally:
        hooks.close()
    assert hooked(net) == []


class Visits:
    """The visits of a program, as STWeaver writes down its requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, self._serving, self.program = below()
        self.iterations: list[list[tuple[int, str]]] = []
        keep = StweaverProgram._adopt

        def seen(program: StweaverProgram, requests: RequestSequence, *, lasting: bool) -> None:
            self.iterations = visits_of(requests)
            keep(program, requests, lasting=lasting)

        monkeypatch.setattr(StweaverProgram, "_adopt", seen)

    def of(self, net: nn.Module, *, microbatches: int = 1) -> list[list[tuple[int, str]]]:
        with allocating(self._serving, self.program, net):
            train(net, 3, microbatches=microbatches)
        return self.iterations


def visits_of(requests: RequestSequence) -> list[list[tuple[int, str]]]:
    names = ("", *requests.module_names)
    bounds = [*requests.iteration_rows.tolist(), requests.row_count]
    made = requests.action == RequestAction.ALLOCATE
    visits = [
        (phase, names[module + 1])
        for phase, module in zip(requests.phase.tolist(), requests.module.tolist(), strict=True)
    ]
    return [
        [visits[row] for row in range(begin, end) if made[row]] for begin, end in pairwise(bounds)
    ]


def train(net: nn.Module, steps: int, *, microbatches: int = 1) -> list[float]:
    """Return the losses; a mixture gets other rows for its experts in each step."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        for _ in range(microbatches):
            more: tuple[Any, ...] = ()
            if isinstance(net, Mixture):
                first = ROWS[step % len(ROWS)]
                more = ([first, 64 - 2 * first, first],)
            x = torch.linspace(-1, 1, 64 * WIDTH).reshape(64, WIDTH)
            loss = net(x, *more).square().mean()
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def hooked(net: nn.Module) -> list[str]:
    """Return the modules that have a hook of their own."""
    return [
        name for name, its in net.named_modules() if its._forward_pre_hooks or its._forward_hooks
    ]


def has_global_hooks() -> bool:
    hooks: Any = torch_module
    return bool(hooks._has_any_global_hook())


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    backward, grad = torch.autograd.backward, torch.autograd.grad
    yield
    assert not has_global_hooks()
    assert torch.autograd.backward is backward
    assert torch.autograd.grad is grad
    assert not _global_optimizer_pre_hooks


@pytest.mark.parametrize("checkpointed", [False, True])
def test_every_iteration_has_its_phases_and_modules(
    checkpointed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterations = Visits(monkeypatch).of(Net(checkpointed=checkpointed), microbatches=2)
    assert len(iterations) == 2
    visits = iterations[1]
    phases = [phase for phase, _ in visits]
    assert phases == sorted(phases)
    # Forward and backward passes of two microbatches; the update makes its state in the first.
    assert set(phases) >= {0, 1, 2, 3}
    assert {phase for phase, _ in iterations[0]} == {0, 1, 2, 3, 4}
    for phase in range(4):
        modules = {module for its, module in visits if its == phase}
        assert {"Net.first", "Net.second"} <= modules
    assert {module for phase, module in iterations[0] if phase == 4} == {""}


def test_the_backward_pass_is_in_the_module_of_each_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visits = Visits(monkeypatch).of(Net())[1]
    backward = [module for phase, module in visits if phase == 1]
    turns = [module for at, module in enumerate(backward) if backward[at - 1] != module or at == 0]
    # The gradient of the mean, of the second layer, of the activation between, of the first.
    assert turns == ["", "Net.second", "Net", "Net.first", ""] or turns == [
        "", "Net.second", "Net", "Net.first",
    ]  # fmt: skip


def test_captured_calls_begin_no_visit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert Visits(monkeypatch).of(Net()) == []


def test_a_plan_of_static_requests_keeps_the_hook_of_the_outermost_module_alone() -> None:
    memory, serving, program = below()
    net = Net()
    with allocating(serving, program, net) as mode:
        train(net, 2)
        assert has_global_hooks()
        begun = len(mode.addresses)
        train(net, 6)
        assert memory.report().note.startswith("a static pool of ")
        assert program.told_apart == frozenset()
        assert hooked(net) == [""]
        assert not has_global_hooks()
        assert sum(address in program.pool for address in mode.addresses[begun:]) > 50


def test_a_plan_of_a_mixture_keeps_hooks_on_its_experts() -> None:
    memory, serving, program = below()
    net = Mixture()
    with allocating(serving, program, net):
        train(net, 8)
        assert memory.report().note.startswith("a static pool of ")
        assert {"experts.0", "experts.1", "experts.2"} <= set(hooked(net))
        assert not {"before", "after"} & set(hooked(net))
    serving.check()


@pytest.mark.parametrize("kind", [Net, Mixture])
def test_bits_are_equal(kind: type[nn.Module]) -> None:
    found = []
    for is_below in (False, True):
        torch.manual_seed(0)
        net = kind()
        if is_below:
            _, serving, program = below()
            with allocating(serving, program, net):
                losses = train(net, 8)
        else:
            losses = train(net, 8)
        found.append((losses, [its.detach().numpy().tobytes() for its in net.parameters()]))
    assert found[0] == found[1]


def test_nothing_to_plan_leaves_no_hook() -> None:
    memory, _, program = below()
    net = Net()
    with closing(ModuleHooks(program)):
        # No request comes, so none is static.
        train(net, 3)
        assert memory.report().note.startswith("planned nothing")
        assert hooked(net) == []
        assert not has_global_hooks()


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
def test_a_compiled_network_is_planned() -> None:
    memory, serving, program = below()
    net = Net()
    compiled: Any = torch.compile(net, backend="eager")
    with closing(ModuleHooks(program)):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(5):
            compiled(torch.ones(64, WIDTH)).sum().backward()
            serving.free(serving.allocate(20 << 20))
            optimizer.step()
        assert memory.report().note.startswith("a static pool of ")
        assert compiled._forward_pre_hooks
        assert hooked(net) == []
    assert not compiled._forward_pre_hooks


@pytest.mark.parametrize("steps", [1, 5])
def test_an_error_in_a_module_leaves_the_modules_around_it(steps: int) -> None:
    _, serving, program = below()
    net = Mixture()
    with allocating(serving, program, net):
        train(net, steps)
        with pytest.raises(RuntimeError, match="split_with_sizes"):
            net(torch.ones(64, WIDTH), [1, 2, 3])
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            net(torch.ones(64, WIDTH + 1), [16, 32, 16])
        assert program.visits.depth == 0
        train(net, 4)


def test_a_trace_made_without_a_gpu_has_the_visits_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Output:
        def __init__(self, loss: Any) -> None:
            self.loss = loss

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x: Any) -> Output:
            for layer in self.layers:
                x = layer(x).relu()
            return Output(x.sum())

    settings = TraceSettings(precision="float32", microbatches=2)
    batch = {"x": torch.zeros(4, 8)}
    trace = trace_on_fake_tensors(lambda: (Layers(), batch), settings, "net", {})
    expected = visits_of(requests_of_trace(trace))[1]
    visits = Visits(monkeypatch)
    with allocating(visits._serving, visits.program, net := Layers()):
        TrainingLoop(
            net, lambda: {"x": torch.ones(4, 8)}, settings, "cpu", begin=lambda _: None
        ).run()
    found = visits.iterations[1]
    # The trace copies its inputs to the device.
    assert set(expected) == {*found, (0, ""), (2, "")}
    assert (3, "Layers.layers.2") in expected
