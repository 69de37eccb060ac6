"""Pause and resume of planned memory: when it is refused, what it costs, and what stays."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal

from gpu_runtime._core import PlannedAllocator
from gpu_runtime.allocator.call_counts import DeviceMeter
from planners.errors import DeviceError, GaplessError
from planners.text.byte_units import exact_bytes

Keep = Literal["host", "nothing"]
# With this setting PyTorch registers all of its CUDA memory with NCCL.
_REGISTERING = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"


@dataclass(frozen=True)
class PauseReport:
    """Paused memory, and the last pause and resume.

    Parameters
    ----------
    paused_bytes, kept_bytes
        Bytes that are paused now, and those of them that have a copy on the host.
    given_back_bytes, pause_seconds
        Bytes that the last pause gave back to the device, idle ones included, and its duration.
    passed_on_bytes
        Bytes that no pause gives back: captured graphs, and what PyTorch's own allocator had then,
        such as memory pools and blocks from before the installation.
    resumed_bytes, resume_seconds
        Bytes that the last resume mapped, and its duration.
    """

    paused_bytes: int = 0
    kept_bytes: int = 0
    given_back_bytes: int = 0
    pause_seconds: float = 0.0
    passed_on_bytes: int = 0
    resumed_bytes: int = 0
    resume_seconds: float = 0.0

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values for people."""
        paused, kept = exact_bytes(self.paused_bytes), exact_bytes(self.kept_bytes)
        return [
            ("paused", f"{paused} bytes, {kept} of them kept on the host"),
            ("  given back", _transfer(self.given_back_bytes, self.pause_seconds)),
            (
                "  not",
                f"{exact_bytes(self.passed_on_bytes)} bytes: graphs, pools, blocks from before the "
                f"installation",
            ),
            ("  resumed", _transfer(self.resumed_bytes, self.resume_seconds)),
        ]


def _transfer(size: int, seconds: float) -> str:
    speed = size / seconds / 1e9 if seconds else 0.0
    return f"{exact_bytes(size)} bytes in {seconds * 1e3:,.1f} ms, {speed:,.1f} GB/s"


class MemoryPause:
    """Pauses and resumes the memory of one allocator.

    Parameters
    ----------
    device
        Number of the CUDA device whose requests PyTorch makes; None for another program.
    """

    def __init__(
        self, allocator: PlannedAllocator, meter: DeviceMeter | None, device: int | None
    ) -> None:
        self._allocator = allocator
        self._meter = meter
        self._device = device
        self._last: PauseReport | None = None
        # Guards against accesses, with `check`.
        self._guards = ExitStack()

    def report(self) -> PauseReport | None:
        """Return the report of the last pause and resume; None before the first pause."""
        if self._last is None:
            return None
        figures = self._allocator.figures()
        return replace(self._last, paused_bytes=figures.paused_bytes, kept_bytes=figures.kept_bytes)

    @contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """Give requests of this thread a tag."""
        if not tag:
            raise GaplessError("tag: a name is needed, found ''")
        before = self._allocator.set_tag(tag)
        try:
            yield
        finally:
            self._allocator.set_tag(before)

    def pause(self, tag: str | None, keep: str) -> int:
        """Return the bytes that went back to the device."""
        if keep not in ("host", "nothing"):
            raise GaplessError(f"keep: 'host' or 'nothing', found {keep!r}")
        if os.environ.get(_REGISTERING, "").lower() in ("1", "y", "yes", "t", "true"):
            raise DeviceError(
                f"pause: memory that NCCL has registered must stay mapped, and {_REGISTERING} is "
                f"set, with which PyTorch registers all memory; unset it"
            )
        begun = time.perf_counter()
        with self._call("pause"):
            size = self._allocator.pause(tag, keep == "host")
            seconds = time.perf_counter() - begun
            self._last = replace(
                self._last or PauseReport(),
                given_back_bytes=size,
                pause_seconds=seconds,
                passed_on_bytes=self._passed_on_bytes(is_emptied=tag is None),
            )
        return size

    def resume(self, tag: str | None) -> int:
        """Return the bytes that were mapped again."""
        begun = time.perf_counter()
        with self._call("resume"):
            size = self._allocator.resume(tag)
        if size:
            seconds = time.perf_counter() - begun
            self._last = replace(
                self._last or PauseReport(), resumed_bytes=size, resume_seconds=seconds
            )
        return size

    def _passed_on_bytes(self, *, is_emptied: bool) -> int:
        figures = self._allocator.figures()
        graphs = figures.graphs.scratch_bytes + figures.graphs.own_bytes
        if self._device is None:
            return graphs
        cuda = sys.modules["torch"].cuda
        if is_emptied:
            cuda.empty_cache()
        reserved = int(cuda.memory_reserved(self._device))
        return graphs + max(0, reserved - figures.reserved_bytes)

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        """Count device calls apart from those of steps, and say which call an error is of."""
        try:
            with nullcontext() if self._meter is None else self._meter.apart():
                yield
        except MemoryError as error:
            raise DeviceError(
                f"{name}: {error}; nothing is lost, and it can be tried again"
            ) from None
        except ValueError as error:
            raise GaplessError(f"{name}: {error}") from None
        except (OSError, RuntimeError) as error:
            raise DeviceError(f"{name}: {error}") from None
        finally:
            self._guard()

    def _guard(self) -> None:
        """Refuse operators that get a paused tensor, with `check`."""
        self._guards.close()
        blocks = self._allocator.paused_blocks() if self._allocator.is_checked else []
        if blocks and "torch" in sys.modules:
            from gpu_runtime.allocator.paused_access import PausedAccess

            self._guards.enter_context(PausedAccess(blocks))
