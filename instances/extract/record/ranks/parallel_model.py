"""``--parallel``: a step whose model the command makes parallel, as its user would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from instances.extract.own.one_step import Step, TrainingStep
from planners.errors import InstanceError, near_names

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

DDP, FSDP, TP = "ddp", "fsdp2", "tp"
# From the outermost dimension of the mesh to the innermost.
KINDS = (DDP, FSDP, TP)
PLANS_OF_CONFIG = "base_model_tp_plan"


def parse_parallel(text: str, ranks: int) -> dict[str, int]:
    """Return the ranks of each kind, in the order of the mesh: ``"fsdp2=4,tp=2"``."""
    found: dict[str, int] = {}
    for part in text.split(","):
        kind, equals, count = part.strip().partition("=")
        if kind not in KINDS:
            raise InstanceError(
                f"--parallel: no kind is called {kind!r}; {near_names(kind, KINDS)}"
            )
        if kind in found or (equals and not (count.isdecimal() and int(count))):
            raise InstanceError(
                f"--parallel: each kind once, with its number of ranks, such as fsdp2=4,tp=2, "
                f"found {text!r}"
            )
        found[kind] = int(count) if equals else ranks
    if prod(found.values()) != ranks:
        product = " x ".join(f"{kind} {count}" for kind, count in found.items())
        raise InstanceError(
            f"--parallel: the numbers of ranks multiply to those of --ranks, {ranks}; "
            f"found {product} = {prod(found.values())}"
        )
    if DDP in found and len(found) > 1:
        raise InstanceError(
            f"--parallel: {DDP} goes alone; found {text!r}. Make a mesh in the function for others"
        )
    return {kind: found[kind] for kind in KINDS if kind in found}


def parallel_step(step: Step, parallel: Mapping[str, int], where: str) -> TrainingStep:
    """Return a training step with its model made parallel, and its optimizer for the new model."""
    if not isinstance(step, TrainingStep):
        raise InstanceError(
            f"--parallel: {where} has to return a TrainingStep, whose module is made parallel, "
            f"found {type(step).__name__}; or make the model parallel in the function, and leave "
            f"out --parallel"
        )
    before = dict(step.module.named_parameters())
    module = parallel_module(step.module, parallel, where)
    now = dict(step.module.named_parameters())
    new = {id(old): now[name] for name, old in before.items()}
    groups = step.optimizer.param_groups
    for group in list(groups):
        params = [new.get(id(old), old) for old in group["params"]]
        group["params"], *more = of_one_kind(params)
        groups += [{**group, "params": kind} for kind in more]
    return replace(step, module=module)


def of_one_kind(parameters: Iterable[Tensor]) -> list[list[Tensor]]:
    """Return the distributed parameters and the others: a kernel takes tensors of one kind."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    found = list(parameters)
    kinds = [
        [one for one in found if is_traceable_wrapper_subclass(one) is is_distributed]
        for is_distributed in (True, False)
    ]
    return [kind for kind in kinds if kind]


def parallel_module(module: Module, parallel: Mapping[str, int], where: str) -> Module:
    """Make a model parallel in place; return the model, or the wrapper to call instead."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor
    from torch.nn.parallel import DistributedDataParallel

    parts = [*module.modules(), *module.parameters()]
    for part in parts:
        if isinstance(part, (FSDPModule, DistributedDataParallel, DTensor)):
            raise InstanceError(
                f"--parallel: {where} has to return a model that is not parallel yet, found a "
                f"{type(part).__name__} in it; leave out --parallel"
            )
    mesh = init_device_mesh("cuda", tuple(parallel.values()), mesh_dim_names=tuple(parallel))
    if TP in parallel:
        _split(module, mesh[TP], where)
    if FSDP in parallel:
        _shard(module, mesh[FSDP])
    return DistributedDataParallel(module) if DDP in parallel else module


def _shard(module: Module, mesh: Any) -> None:
    """Shard each repeated block, then the rest of the model."""
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    shard: Any = fully_shard
    for blocks in module.modules():
        if isinstance(blocks, nn.ModuleList):
            for block in blocks:
                shard(block, mesh=mesh)
    shard(module, mesh=mesh)


def _split(module: Module, mesh: Any, where: str) -> None:
    """Split the products of a transformers model by the plan of its configuration."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    make: Any = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}
    plan = getattr(getattr(module, "config", None), PLANS_OF_CONFIG, None)
    if not plan:
        raise InstanceError(
            f"--parallel tp: {where} has to return a model of transformers whose configuration has "
            f"a {PLANS_OF_CONFIG}, found {type(module).__name__} without one; or call "
            f"parallelize_module in the function"
        )
    for name, style in plan.items():
        if style not in make:
            raise InstanceError(
                f"--parallel tp: the styles {' and '.join(make)} are known, found {style} for "
                f"{name} of {type(module).__name__}; call parallelize_module in the function"
            )
    split: Any = parallelize_module
    base: Any = getattr(module, "base_model", module)
    split(base, mesh, {name: make[style]() for name, style in plan.items()})
    head: Any = getattr(module, "lm_head", None)
    # Tied weights are those of the embedding, which stays whole.
    if head is not None and head.weight is not base.get_input_embeddings().weight:
        split(module, mesh, {"lm_head": ColwiseParallel(output_layouts=Replicate())})
