"""Time pairs of an allocation and a free: in the allocator alone, and from Python.

A step allocates and frees :data:`PAIRS` blocks, one after the other, and computes nothing. The
time of a step is the time of these pairs.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from gpu_runtime.training.scene import Scene
from planners.errors import GaplessError

PAIR_BYTES = 1 << 20
PAIRS = 10_000
# Pairs at the scale ``tiny``, which is for CPUs, whose allocator is not measured.
TINY_PAIRS = 10
SOURCE = Path(__file__).with_suffix(".cpp")
# The values of c10::DeviceType.
DEVICE_KINDS = {"cpu": 0, "cuda": 1}


def in_python(scene: Scene) -> nn.Module:
    """Call ``torch.empty`` in steps; most of its time is not spent in the allocator."""
    return _loop(scene, _python_loop(scene))


def in_cpp(scene: Scene) -> nn.Module:
    """Call PyTorch's allocator of the device in steps, and do nothing else."""
    return _loop(scene, _cpp_loop(scene))


def in_python_between_steps(scene: Scene) -> nn.Module:
    """Call ``torch.empty`` between steps, whose requests are in no plan."""
    return _loop(scene, _python_loop(scene), is_in_step=False)


def in_cpp_between_steps(scene: Scene) -> nn.Module:
    """Call PyTorch's allocator between steps."""
    return _loop(scene, _cpp_loop(scene), is_in_step=False)


def _loop(scene: Scene, ask: Callable[[], object], *, is_in_step: bool = True) -> nn.Module:
    # A device without a context has no allocator: this tensor makes both.
    torch.empty(PAIR_BYTES, dtype=torch.uint8, device=scene.device)
    for _ in scene.rounds:
        if not is_in_step:
            ask()
        with scene.step():
            if is_in_step:
                ask()
    return nn.Identity()


def _python_loop(scene: Scene) -> Callable[[], None]:
    def ask() -> None:
        for _ in range(scene.wide(PAIRS, TINY_PAIRS)):
            torch.empty(PAIR_BYTES, dtype=torch.uint8, device=scene.device)

    return ask


def _cpp_loop(scene: Scene) -> Callable[[], object]:
    with TemporaryDirectory(prefix="gapless-") as folder:
        ask = ctypes.CDLL(str(_compiled(Path(folder)))).take_pairs
    ask.argtypes = (ctypes.c_int, ctypes.c_size_t, ctypes.c_long)
    ask.restype = None
    kind = DEVICE_KINDS[scene.device.type]
    return partial(ask, kind, PAIR_BYTES, scene.wide(PAIRS, TINY_PAIRS))


def _compiled(folder: Path) -> Path:
    package = Path(torch.__file__).parent
    made = folder / "allocation_pairs.so"
    command = [
        *shlex.split(os.environ.get("CXX") or "c++"),
        *("-std=c++20", "-O2", "-fPIC", "-shared", f"-I{package / 'include'}"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(str(SOURCE), "-o", str(made), f"-L{package / 'lib'}", "-lc10"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise GaplessError(f"{SOURCE.name} does not compile: {ended.stderr.strip()[-500:]}")
    return made
