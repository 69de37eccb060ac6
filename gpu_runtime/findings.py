"""Finds the GPU, the C++ compiler and the version of PyTorch for ``gapless doctor``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

from gpu_runtime._core import CudaMemory
from gpu_runtime.allocator.pytorch.compiled_decorator import (
    built_decorator,
    compile_command,
    require_version,
)
from planners.errors import GaplessError, install_command
from planners.text.byte_units import human_bytes
from planners.text.plain_text import one_line


def findings() -> Iterator[tuple[str, str]]:
    """Yield each part with a line on it; if a part is missing, the line is the reason."""
    yield "GPU", _told(_gpu)
    yield "compiler", _told(_compiler)
    yield "PyTorch", _told(_pytorch)


def _told(find: Callable[[], str]) -> str:
    try:
        return find()
    except (GaplessError, ImportError, OSError) as error:
        return one_line(str(error))


def _gpu() -> str:
    return f"the first has {human_bytes(CudaMemory(0).free_bytes())} free"


def _compiler() -> str:
    command = (os.environ.get("CXX") or "c++").split()
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not found; install g++, or name another one by CXX"
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    lines = (said.stdout or said.stderr).splitlines()
    return f"{command[0]}: {lines[0] if lines else 'no version'}"


def _pytorch() -> str:
    try:
        import torch
    except ImportError:
        return f"not installed: {install_command('torch')}"
    if torch.version.cuda is None:
        return f"{torch.__version__}, without CUDA: it traces models, and trains on no GPU"
    require_version(torch.__version__)
    if built_decorator(torch.__version__, torch.version.cuda) is None:
        compile_command(torch)
        return f"{torch.__version__}: its allocator is supported, compiled at the first use"
    return f"{torch.__version__}: its allocator is supported, built in"
