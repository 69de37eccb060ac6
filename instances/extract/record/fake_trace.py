"""Traces of eager training on fake tensors: no GPU, no weights, no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from unittest import mock

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.nn import functional
from torch.utils import _pytree as pytree

from instances.extract.record.gpu.cuda_autocast import cuda_autocast_on_cpu
from instances.extract.record.gpu.eager_branches import eager_branches
from instances.extract.record.gpu.gpu_kernels import cudnn_attention, fused_dropout
from instances.extract.record.gpu.gpu_names import cuda_named_cpu
from instances.extract.record.gpu.traced_pools import traced_pools
from instances.extract.record.gpu.traced_streams import traced_streams
from instances.extract.record.ranks.rank import Rank
from instances.extract.record.requests.allocation_mode import AllocationMode
from instances.extract.record.requests.module_names import innermost_module, track_modules
from instances.extract.record.requests.optimizer_roles import OptimizerRoles
from instances.extract.record.requests.request_recorder import RequestRecorder
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.record.training_loop import TrainingLoop, zero_inputs
from instances.traces.allocation_trace import NOTES, AllocationTrace
from planners.errors import InstanceError
from planners.model.problem import Scalar

if TYPE_CHECKING:
    # It imports transformers, which takes seconds in each process that traces a user's script.
    from instances.extract.models.building import Build

Mode = TypeVar("Mode", bound=AllocationMode)


def trace_on_fake_tensors(
    build: Build,
    settings: TraceSettings,
    name: str,
    origin: Mapping[str, Scalar],
    rank: Rank | None = None,
) -> AllocationTrace:
    """Trace a training loop without running it on a device; the model is built of fake tensors too.

    Parameters and buffers come first. With a rank, the trace is that of one process of several:
    the model is built on the host, and what the rank keeps of it goes to the GPU. A model whose
    shapes depend on data raises ``InstanceError``, because fake tensors have no data.
    """
    with recorded_on_fake_tensors(AllocationMode, rank) as mode:
        with mode.not_recorded():
            module, batch = build()
            if rank is not None:
                from instances.extract.record.ranks.parallel_model import parallel_module

                module = parallel_module(module, rank.parallel, name)
        if rank is None:
            mode.adopt([*module.parameters(), *module.buffers()])
        else:
            mode.adopt_all(but=filter(torch.is_tensor, pytree.tree_leaves(batch)))
        inputs = partial(zero_inputs, batch, module, "cuda")
        loop = TrainingLoop(module, inputs, settings, "cuda", mode.recorder.begin)
        try:
            optimizer = loop.run()
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise InstanceError(
                f"{name}: its memory depends on the values of its data ({error}), which fake "
                f"tensors do not have; record it with --device cuda"
            ) from None
        trace = mode.recorder.trace(name, origin_of_run(origin, [*mode.notes], rank))
        # Until here, so that weights and state outlive the trace.
        del module, optimizer
        return trace


@contextmanager
def recorded_on_fake_tensors(
    make_mode: Callable[[RequestRecorder], Mode], rank: Rank | None
) -> Iterator[Mode]:
    """Within this context programs run as on a GPU, on fake tensors, and a mode records them.

    With a rank, they run as one process of several.
    """
    with ExitStack() as stack:
        tracker = stack.enter_context(track_modules())
        mode = make_mode(RequestRecorder(lambda: innermost_module(tracker)))
        for context in (
            *(FakeTensorMode(), mode, cuda_autocast_on_cpu()),
            mock.patch.object(functional, "dropout", fused_dropout),
            mock.patch.object(functional, "scaled_dot_product_attention", cudnn_attention),
            *(eager_branches(), OptimizerRoles(mode).told()),
            cuda_named_cpu(mode, *(() if rank is None else rank.of_host)),
            traced_streams(mode),
            traced_pools(mode.recorder),
        ):
            stack.enter_context(context)
        if rank is not None:
            # PyTorch takes seconds to import its distributed part.
            from instances.extract.record.ranks.fake_group import fake_group

            stack.enter_context(fake_group(rank, mode))
        yield mode


def origin_of_run(
    origin: Mapping[str, Scalar], notes: Sequence[str], rank: Rank | None
) -> Mapping[str, Scalar]:
    """Return an origin with what a run says about itself and about other ranks."""
    lines = [*str(origin.get(NOTES, "")).splitlines(), *notes]
    found: dict[str, Scalar] = {NOTES: "\n".join(lines)} if lines else {}
    if rank is not None:
        from instances.extract.record.ranks.fake_group import group_facts

        found |= group_facts(rank).fields(rank)
    return {**origin, **found}
