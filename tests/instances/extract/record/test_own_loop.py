"""Loops that users write: their steps, what is on the GPU, the numbers that they read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from instances.extract.record import own_loop
from instances.extract.record.own_extraction import OWN_DEFAULTS, extract_own, open_own, trace_own
from instances.traces.allocation_trace import AllocationTrace, Role
from planners.errors import InstanceError
from tests.instances.extract.own.user_scripts import written

pytestmark = pytest.mark.torch

HEAD = """
import argparse
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

ITEMS = TensorDataset(torch.randn(40, 16), torch.randint(0, 4, (40,)))


def made(device="cuda"):
    model = nn.Linear(16, 4, bias=False).to(device)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def ahead(loader):
    batches = iter(loader)
    read = next(batches)
    for batch in batches:
        yield read
        read = batch
    yield read

"""
WEIGHT_BYTES = 4 * 16 * 4
STEPS = 3


def trace_of(folder: Path, body: str, *settings: str, name: str = ":main") -> AllocationTrace:
    path = written(folder, f"{HEAD}\ndef main():\n{body}")
    return trace_own(open_own(f"{path}{name}", list(settings)), STEPS)


def phases(trace: AllocationTrace) -> str:
    return "".join("FBO"[phase] for phase in trace.mark_phase.tolist())


def loop(inside: str, before: str = "", loader: str = "DataLoader(ITEMS, 8)") -> str:
    return (
        f"    model, optimizer = made()\n{before}"
        f"    loader = {loader}\n"
        f"    for epoch in range(9):\n"
        f"        for x, y in loader:\n"
        f"            x = x.cuda()\n{inside}"
    )


STEP = """
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
"""
ACCUMULATED = """
            scaler.scale(model(x).square().mean()).backward()
            count = locals().get("count", 0) + 1
            if count % 2 == 0:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
"""
EVALUATED = """
        model.eval()
        for x, _ in DataLoader(ITEMS, 4):
            model(x.cuda())
"""
CLOSURE = """
            def closure():
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                return loss
            optimizer.step(closure)
"""
TWO = """
            for each in (optimizer, other):
                model(x).square().mean().backward()
                each.step()
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (loop(STEP), "FBO" * 3),
        (loop(ACCUMULATED, "    scaler = torch.amp.GradScaler('cuda')\n"), "FBFBO" * 3),
        (loop(STEP + EVALUATED), "FBO" * 3 + "FO"),
        (loop(CLOSURE), "FBO" * 3),
        # A step more is made of the batch that was read ahead, and then the evaluation.
        (loop(STEP + EVALUATED).replace("in loader", "in ahead(loader)"), "FBO" * 4 + "FO"),
        (loop(TWO, "    other = copy.deepcopy(optimizer)\n"), "FBO" * 3),
        # The data set is short, and its loader begins again.
        (loop(STEP, loader="DataLoader(ITEMS, 40)"), "FBO" * 3),
    ],
)
def test_steps_of_a_loop(body: str, expected: str, tmp_path: Path) -> None:
    assert phases(trace_of(tmp_path, body)) == expected


ALONE = "    model = made()[0]\n"
MADE = "    model, optimizer = made()\n"
PASS = "        model(torch.randn(8, 16, device='cuda')).square().mean().backward()\n"
FOREVER = f"{ALONE}    while True:\n{PASS}"
BY_HAND = """        with torch.no_grad():
            for weight in model.parameters():
                {}
                weight.grad = None
"""
IN_BACKWARD = """    def update(weight):
        {}
        weight.grad = None
    model.weight.register_post_accumulate_grad_hook(update)
"""
# Loops without a loader, which never end, and the phases of their steps.
ENDLESS = {
    "an optimizer": (f"{MADE}    while True:\n{PASS}        optimizer.step()\n", "FBO" * 3),
    "in place": (FOREVER + BY_HAND.format("weight -= 0.1 * weight.grad"), "FBO" * 3),
    "by data": (FOREVER + BY_HAND.format("weight.data.add_(weight.grad)"), "FBO" * 3),
    "new data": (FOREVER + BY_HAND.format("weight.data = weight - weight.grad"), "FBO" * 3),
    "microbatches": (FOREVER + PASS + BY_HAND.format("weight -= weight.grad"), "FBFBO" * 3),
    "an optimizer in the backward pass": (
        f"{MADE}{IN_BACKWARD.format('optimizer.step()')}    while True:\n{PASS}", "FBO" * 3),
    "by hand in the backward pass": (
        f"{ALONE}{IN_BACKWARD.format('weight.data.sub_(weight.grad)')}    while True:\n{PASS}",
        "FBO" * 3),
    "without a module": (
        "    weight = torch.ones(9, device='cuda', requires_grad=True)\n    while True:\n"
        "        weight.square().sum().backward()\n        weight.data.sub_(weight.grad)\n",
        "FBO" * 3),
    "no gradients": (
        f"{MADE}    with torch.inference_mode():\n        while True:\n"
        "            model(torch.randn(8, 16, device='cuda'))\n", "FO" * 3),
    "no update": (FOREVER, "FB" * 4 + "O" + "FBO" * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_a_loop_without_a_loader_ends_a_step_at_the_next_forward_pass(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_loop, "MOST_PASSES", 4)
    body, expected = ENDLESS[name]
    trace = trace_of(tmp_path, body)
    assert phases(trace) == expected
    assert ("no update in 4 passes" in trace.origin.get("notes", "")) == (
        name in ("no gradients", "no update")
    )


CRITIC = """
    critic, generator = nn.Linear(16, 16), nn.Linear(16, 16)
    optimizers = [torch.optim.AdamW(one.cuda().parameters()) for one in (critic, generator)]
{loop}
        critic(torch.randn(8, 16, device="cuda")).mean().backward()
        optimizers[0].step()
        if count % {every} == {every} - 1:
            critic(generator(torch.randn(8, 16, device="cuda"))).mean().backward()
            optimizers[1].step()
"""


@pytest.mark.parametrize("is_step", [False, True])
def test_steps_go_on_until_each_optimizer_has_updated_twice(
    is_step: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = "    from itertools import count as numbers\n    counts = numbers()\n"
    loop = (
        f"{counts}    def step():\n        count = next(counts)"
        if is_step
        else (f"{counts}    for count in counts:")
    )
    ends = "    return step\n" if is_step else ""

    def updates(every: int) -> tuple[int, str]:
        trace = trace_of(tmp_path, CRITIC.format(loop=loop, every=every) + ends)
        states = trace.size[trace.role == Role.STATE]
        return int((states == 16 * 16 * 4).sum()), trace.origin.get("notes", "")

    assert updates(5) == (4, "")  # two states of each weight
    monkeypatch.setattr(own_loop, "MOST_STEPS", 4)
    found, said = updates(5)
    assert found == 2
    assert said.startswith("1 optimizer of 2 made fewer than 2 updates in ")


def test_a_step_that_a_function_returns_may_draw_from_a_loader(tmp_path: Path) -> None:
    body = """
    model, optimizer = made()
    batches = iter(DataLoader(ITEMS, 20, shuffle=True))

    def step():
        x, y = next(batches)
        torch.cat([x, x, x]).mean(0)  # on the host
        model(x.cuda()).square().mean().backward()
        optimizer.step()

    return step
"""
    trace = trace_of(tmp_path, body)
    assert phases(trace) == "FBO" * 3
    assert np.count_nonzero(trace.size == 20 * 16 * 4) == STEPS
    assert 60 * 16 * 4 not in trace.size


@pytest.mark.parametrize("move", ["to(0)", "to(device=0)", "to(device='cuda')"])
def test_a_device_is_named_in_any_way(move: str, tmp_path: Path) -> None:
    named = loop(STEP)
    moved = named.replace("x.cuda()", f"x.{move}").replace(
        "made()\n", f"made('cpu')\n    model.{move}\n"
    )
    sizes = [trace_of(tmp_path, body).size.tolist() for body in (named, moved)]
    assert sizes[0] == sizes[1]


def test_a_program_that_names_no_gpu_is_told_so(tmp_path: Path) -> None:
    body = "    model, optimizer = made('cpu')\n    for x, _ in DataLoader(ITEMS, 8):\n" + STEP
    with pytest.raises(InstanceError, match="puts nothing on the GPU"):
        trace_of(tmp_path, body)


ANSWERS = """
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    torch.cuda.set_device(0)
    torch.cuda.manual_seed_all(1)
    model, optimizer = made(f"cuda:{torch.cuda.current_device()}")
    assert next(model.parameters()).device == torch.device("cuda", torch.cuda.current_device())
    assert next(model.parameters()).is_cuda and "H100" in torch.cuda.get_device_name(0)
    assert torch.cuda.get_device_properties(0).total_memory > 1 << 30
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    model = torch.compile(model)
    for x, y in DataLoader(ITEMS, 8, num_workers=2, pin_memory=True, persistent_workers=True):
        start.record()
        with torch.cuda.stream(torch.cuda.Stream()), torch.autocast("cuda", dtype=torch.bfloat16):
            assert torch.is_autocast_enabled("cuda")
            loss = model(x.to("cuda", non_blocking=True)).mean()
        loss.backward()
        optimizer.step()
        end.record()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        print(start.elapsed_time(end), torch.cuda.memory_allocated(), loss, f"{loss:.3f}")
        assert loss.cpu().device.type == "cpu" and loss.detach().float().cpu().numpy().shape == ()
        total = locals().get("total", 0) + loss.item() + (y > 1).sum().item() / len(y)
        print(f"{total:.3f}", round(total, 2))
"""


def test_questions_about_the_gpu_are_answered(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert phases(trace_of(tmp_path, ANSWERS)) == "FBO" * 3
    error = capfd.readouterr().err
    assert "decides" not in error
    assert "eagerly" not in error


def test_a_number_that_decides_is_named_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    inside = STEP + "            if model(x).mean().item() < 0.1 + epoch:\n                break\n"
    trace_of(tmp_path, loop(inside))
    error = capfd.readouterr().err
    assert error.count("the program decides here by a number that it read from the GPU") == 1
    path = tmp_path / "my_script.py"
    line = path.read_text().splitlines().index(inside.splitlines()[-2]) + 1
    assert f"{path}:{line}: " in error


def test_a_number_that_becomes_a_plain_one_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where it is a length then, memory depends on it, and nobody can tell."""
    inside = (
        "            count = (x > 0).sum()\n"
        "            torch.tensor([count.item()], device='cuda')\n"
        "            x = torch.cat([x, x[: int(count.item())]])\n"
        "            x = torch.cat([x, x[: int(count)]])\n"
    )
    trace_of(tmp_path, loop(inside + STEP))
    error = capfd.readouterr().err
    assert error.count("a whole number here of a number that it read from the GPU") == 2


def test_an_error_before_the_last_step_is_one_and_after_it_ends_the_trace(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InstanceError, match=r"my_script\.py:\d+: ZeroDivisionError"):
        trace_of(tmp_path, loop(STEP + "            1 / 0\n"))
    trace = trace_of(tmp_path, loop(STEP + "        torch.load('unsaved.pt')\n"))
    assert phases(trace) == "FBO" * 3
    assert "after 3 steps the program ended: " in capfd.readouterr().err


def test_settings_of_a_whole_script_are_its_options(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    batch = parser.parse_args().batch
    model, optimizer = made()
    for x, y in DataLoader(ITEMS, batch):
        x = x.cuda()
"""
        + STEP.replace("    ", "  ").replace("      ", "        ")
    )
    path = written(tmp_path, text)
    small, large = (trace_own(open_own(str(path), [f"batch={batch}"]), STEPS) for batch in (4, 8))
    assert 4 * 16 * 4 * 2 in large.size.tolist()
    assert 4 * 16 * 4 * 2 not in small.size.tolist()
    untrained = written(tmp_path, "print(1)")
    with pytest.raises(InstanceError, match="no module was called"):
        trace_own(open_own(str(untrained), []), STEPS)


def test_the_graph_of_a_loop_is_that_of_its_second_step(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HEAD}\ndef main():\n{loop(STEP + EVALUATED)}")
    problem = extract_own(open_own(f"{path}:main", []), OWN_DEFAULTS)
    assert problem.graph is not None
    ops = list(problem.graph.op)
    assert ops.count("mm") == 2  # forward, and the gradient of the weight
    assert sum(op.startswith("_foreach_add") for op in ops) == 1


BY_INDEX = """
    model, optimizer = made()
    data = np.arange(4000, dtype=np.float32)
    order = torch.randperm(100)
    assert sorted(order.tolist()) == list(range(100)) and not (order[:50] == -1).any()
    with ThreadPoolExecutor(2) as pool:
        assert pool.submit(lambda: torch.ones(3, device="cuda").is_cuda).result()
    while True:
        starts = torch.randint(len(data) - 16, (8,))
        x = torch.stack([torch.from_numpy(data[i : i + 16]) for i in starts])
        loss = model(x.pin_memory().cuda()).mean()
        assert not torch.isnan(loss).any() and (loss == loss).all()
        loss.backward()
        optimizer.step()
"""


def test_numbers_drawn_on_the_host_choose_the_items_of_a_batch(tmp_path: Path) -> None:
    head = "    import numpy as np\n    from concurrent.futures import ThreadPoolExecutor\n"
    trace = trace_of(tmp_path, head + BY_INDEX)
    assert np.count_nonzero(trace.size == 8 * 16 * 4) >= STEPS


OTHERS_OPERATOR = """
    from torch.library import custom_op, get_ctx

    @custom_op("mine::{name}", mutates_args=())
    def chosen(boxes: torch.Tensor) -> torch.Tensor:
        return boxes.sum(1).nonzero().flatten()

    @chosen.register_fake
    def _(boxes):
        return boxes.new_empty(get_ctx().new_dynamic_size({limit}), dtype=torch.int64)

"""


@pytest.mark.parametrize(("limit", "rows"), [("", 8), ("max=5", 5)])
def test_an_operator_of_another_library_picks_all_that_it_can(
    limit: str, rows: int, tmp_path: Path
) -> None:
    inside = "            x = x.cuda()\n            x = x[chosen(x)]\n" + STEP
    body = OTHERS_OPERATOR.format(name=f"chosen{rows}", limit=limit) + loop(inside)
    trace = trace_of(tmp_path, body)
    assert np.count_nonzero(trace.size == rows * 8) >= STEPS


def test_weights_are_read_from_a_file_onto_the_gpu(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"weight": torch.ones(4, 16)}, tmp_path / "weights.safetensors")
    body = loop(STEP).replace(
        "    loader =",
        "    from safetensors import safe_open\n"
        f"    read = safe_open({str(tmp_path / 'weights.safetensors')!r}, framework='pt')\n"
        "    taken = read.get_slice('weight')[2:].to(device='cuda')\n"
        "    model.weight.data[2:].copy_(taken)\n"
        "    loader =",
    )
    assert 2 * 16 * 4 in trace_of(tmp_path, body).size


def test_a_data_set_mixes_tensors_of_the_program_with_its_own(tmp_path: Path) -> None:
    body = (
        "    shift = torch.zeros(16)\n\n"
        "    class Shifted(torch.utils.data.Dataset):\n"
        "        def __len__(self):\n            return 40\n\n"
        "        def __getitem__(self, index):\n"
        "            return torch.full((16,), float(index)) + shift, 0\n\n"
    ) + loop(STEP, loader="DataLoader(Shifted(), 8)")
    assert np.count_nonzero(trace_of(tmp_path, body).size == 8 * 16 * 4) >= STEPS
