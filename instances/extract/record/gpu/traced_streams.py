"""Streams of a program that is traced: on which one a block was requested, and who else uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from instances.extract.record.requests.allocation_mode import AllocationMode
from instances.extract.record.requests.request_recorder import DEFAULT_STREAM

# PyTorch leaves these untyped; the names let types check alike with PyTorch and without.
_CpuStream: Any = torch.cpu.Stream
_CpuEvent: Any = torch.cpu.Event


class _Event(_CpuEvent):
    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def elapsed_time(self, _: object) -> float:
        return 0.0


@contextmanager
def traced_streams(mode: AllocationMode) -> Iterator[None]:
    """Within this context the recorder of a mode knows streams, resized storages and host waits.

    PyTorch has streams of the CPU, which do nothing, for programs of any device. Those of a GPU
    become such ones with a number.
    """
    numbers = count(DEFAULT_STREAM)

    class Stream(_CpuStream):
        def __init__(self, *_: object, **__: object) -> None:
            self.number = next(numbers)

        def is_capturing(self) -> bool:
            return False

        def record_event(self, event: Any = None) -> Any:
            return _Event() if event is None else event

        def synchronize(self) -> None:
            mode.recorder.device_is_done()

        def query(self) -> bool:
            return True

    def record_stream(tensor: Tensor, stream: Any) -> None:
        block = mode.block_of(tensor)
        if block is not None and _number(stream) != block.stream:
            block.is_shared = True

    def resize(storage: Any, size: int) -> Any:
        mode.resize(storage, size)
        return unchanged(storage, size)

    def synchronize(*_: object) -> None:
        mode.recorder.device_is_done()

    unchanged: Any = torch.UntypedStorage.resize_
    default = Stream()
    mode.recorder.current_stream = lambda: _number(torch.cpu.current_stream())
    with ExitStack() as stack:
        for owner, name, value in (
            (torch.cpu, "_default_cpu_stream", default),
            (torch.cpu, "_current_stream", default),
            (torch.cpu, "Stream", Stream),
            (torch.cuda, "Stream", Stream),
            (torch.cpu, "Event", _Event),
            (torch.cuda, "Event", _Event),
            (torch.cuda, "stream", torch.cpu.stream),
            (torch.cuda, "current_stream", lambda *_: torch.cpu.current_stream()),
            (torch.cuda, "default_stream", lambda *_: default),
            (torch.cuda, "synchronize", synchronize),
            (torch.accelerator, "current_stream", lambda *_: torch.cpu.current_stream()),
            (torch.accelerator, "synchronize", lambda *_: synchronize()),
            (Tensor, "record_stream", record_stream),
            (torch.UntypedStorage, "resize_", resize),
            # A PyTorch without CUDA has none, and bitsandbytes asks for it when it is imported.
            (torch._C, "_cuda_getCurrentRawStream", lambda _: DEFAULT_STREAM),
        ):
            stack.enter_context(mock.patch.object(owner, name, value, create=owner is torch._C))
        yield


def _number(stream: Any) -> int:
    number: int = getattr(stream, "number", DEFAULT_STREAM)
    return number
