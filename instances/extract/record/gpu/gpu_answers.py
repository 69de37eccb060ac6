"""Answers of ``torch.cuda`` to a traced program: a GPU is there, and nothing is measured.

Note: which answers
-------------------
Rationale. A training asks which GPU there is, waits for it, empties caches and measures. None of
that asks for memory, and a PyTorch without CUDA refuses most of it.

Approach. Questions are answered as on a process's own H100; commands do nothing. A gradient
scaler finds no infinity, so each update takes place.

Limits. A program that decides by the bytes that are in use finds none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.amp.grad_scaler import GradScaler

NAME = "NVIDIA H100 80GB HBM3"
BYTES = 80 << 30
CAPABILITY = (9, 0)
PROPERTIES = SimpleNamespace(
    name=NAME,
    total_memory=BYTES,
    major=CAPABILITY[0],
    minor=CAPABILITY[1],
    multi_processor_count=132,
    warp_size=32,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65_536,
    is_integrated=False,
    gcnArchName="",
    uuid="",
)

_ANSWERS: dict[str, object] = {
    "is_available": True,
    "is_initialized": True,
    "is_bf16_supported": True,
    "get_device_name": NAME,
    "get_device_capability": CAPABILITY,
    "get_device_properties": PROPERTIES,
    "mem_get_info": (BYTES, BYTES),
    "memory_summary": "",
    "initial_seed": 0,
    "utilization": 0,
    **dict.fromkeys(
        ["memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"], 0
    ),
    **dict.fromkeys(
        [
            *("init", "_lazy_init", "set_device", "empty_cache", "ipc_collect", "seed", "seed_all"),
            *("manual_seed", "manual_seed_all", "get_rng_state", "set_rng_state"),
            *("get_rng_state_all", "set_rng_state_all", "set_per_process_memory_fraction"),
            *("reset_peak_memory_stats", "reset_max_memory_allocated"),
            *("reset_max_memory_cached", "reset_accumulated_memory_stats"),
        ]
    ),
}


@contextmanager
def gpu_answered(device: int, devices: int) -> Iterator[None]:
    """Within this context ``torch.cuda`` answers for the GPU of this number out of several."""
    of_autocast = [
        (torch, name, _of_host_autocast(getattr(torch, name)))
        for name in ("is_autocast_enabled", "get_autocast_dtype")
    ]
    with ExitStack() as stack:
        for owner, name, value in (
            *((torch.cuda, name, _always(answer)) for name, answer in _ANSWERS.items()),
            (torch.cuda, "current_device", _always(device)),
            (torch.cuda, "device_count", _always(devices)),
            *((torch.accelerator, name, _always(device)) for name in _names_of_current()),
            (torch.accelerator, "is_available", _always(True)),
            (torch.accelerator, "device_count", _always(devices)),
            (torch.accelerator, "current_accelerator", _always(torch.device("cuda"))),
            (torch._C, "_get_accelerator", _always(torch.device("cuda"))),
            (torch.cuda, "memory_stats", lambda *_: defaultdict(int)),
            (torch.cuda, "device", nullcontext),
            *((torch.cuda.nvtx, name, _always(None)) for name in ("mark", "range_push")),
            (torch.cuda.nvtx, "range_pop", _always(None)),
            (GradScaler, "_maybe_opt_step", _update),
            *of_autocast,
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


def _names_of_current() -> list[str]:
    # PyTorch 2.6 has the first name alone.
    names = ("current_device_idx", "current_device_index")
    return [name for name in names if hasattr(torch.accelerator, name)]


def _always(answer: object) -> Callable[..., object]:
    return lambda *_, **__: answer


def _of_host_autocast(asked: Callable[..., Any]) -> Callable[..., Any]:
    # Autocast of the host stands for the GPU's; without a device the GPU is meant.
    return lambda device="cuda": asked("cpu" if device == "cuda" else device)


def _update(_: GradScaler, optimizer: Any, __: object, *args: Any, **named: Any) -> Any:
    return optimizer.step(*args, **named)
