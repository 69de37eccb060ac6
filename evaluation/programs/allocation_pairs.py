"""What it costs to take memory and to give it back: the allocator alone, and in Python.

A step takes :data:`PAIRS` blocks, one after the other, so that the time of a step is that of so
many pairs of an allocation and its deletion. Nothing is computed.
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
# A processor's allocator is no measure.
TINY_PAIRS = 10
SOURCE = Path(__file__).with_suffix(".cpp")
# As c10::DeviceType has them.
DEVICE_KINDS = {"cpu": 0, "cuda": 1}


def in_python(scene: Scene) -> nn.Module:
    """Ask by ``torch.empty`` in steps; most of that is not allocation."""
    return _loop(scene, _python_loop(scene))


def in_cpp(scene: Scene) -> nn.Module:
    """Ask PyTorch's allocator of the device in steps, and do nothing else."""
    return _loop(scene, _cpp_loop(scene))


def in_python_between_steps(scene: Scene) -> nn.Module:
    """Ask by ``torch.empty`` between steps, of which no plan knows the requests."""
    return _loop(scene, _python_loop(scene), is_in_step=False)


def in_cpp_between_steps(scene: Scene) -> nn.Module:
    """Ask PyTorch's allocator between steps."""
    return _loop(scene, _cpp_loop(scene), is_in_step=False)


def _loop(scene: Scene, ask: Callable[[], object], *, is_in_step: bool = True) -> nn.Module:
    # What has no context yet has no allocator either.
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
