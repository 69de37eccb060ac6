"""Online allocators of the core, made by name over any device."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from gpu_runtime._core import (
    DeviceMemory,
    Gmlake,
    GmlakeRules,
    OnlineAllocator,
    PytorchCaching,
    PytorchExpandable,
    Vpmm,
    VpmmSettings,
)
from gpu_runtime.allocator.pytorch.allocator_settings import Settings
from planners.errors import GaplessError, near_names

FRAGMENTATION_LIMIT_MIB = 128
PAGE_MIB = 2
MOST_MIB = 1 << 28
# What a chunk of the address space has.
MOST_PAGE_MIB = 1 << 23

MakePolicy = Callable[[DeviceMemory], OnlineAllocator]


def pytorch_caching(*, settings: str = "") -> MakePolicy:
    """PyTorch's allocator as it is by default; settings as ``PYTORCH_CUDA_ALLOC_CONF`` has them."""
    made = Settings.from_text(settings).for_core()
    return lambda memory: PytorchCaching(memory, made)


def pytorch_expandable(*, settings: str = "") -> MakePolicy:
    """PyTorch's allocator with expandable segments."""
    made = Settings.from_text(settings).for_core()
    return lambda memory: PytorchExpandable(memory, made)


def gmlake(
    *, fragmentation_limit_mib: int = FRAGMENTATION_LIMIT_MIB, limits_blocks: bool = False
) -> MakePolicy:
    """Stitch free blocks that are apart."""
    limit = _bytes("fragmentation_limit_mib", fragmentation_limit_mib)
    rules = GmlakeRules(fragmentation_limit_bytes=limit, limits_blocks=limits_blocks)
    return lambda memory: Gmlake(memory, rules)


def vpmm(*, page_mib: int = PAGE_MIB) -> MakePolicy:
    """Move pages to where a request needs them."""
    page_bytes = _bytes("page_mib", page_mib)
    if not PAGE_MIB <= page_mib <= MOST_PAGE_MIB or page_mib & (page_mib - 1):
        raise GaplessError(
            f"page_mib: a power of two from {PAGE_MIB} to {MOST_PAGE_MIB} is needed, "
            f"found {page_mib}"
        )
    settings = VpmmSettings(page_bytes=page_bytes)
    return lambda memory: Vpmm(memory, settings)


POLICIES: Mapping[str, Callable[..., MakePolicy]] = {
    "pytorch-caching": pytorch_caching,
    "pytorch-expandable": pytorch_expandable,
    "gmlake": gmlake,
    "vpmm": vpmm,
}


def choose_policy(name: str, parameters: Mapping[str, int | str]) -> MakePolicy:
    """Return what makes a policy of this name; ``GaplessError`` where there is no such thing."""
    if name not in POLICIES:
        raise GaplessError(f"no policy is called {name!r}; {near_names(name, POLICIES)}")
    make = POLICIES[name]
    known = inspect.signature(make).parameters
    for parameter, value in parameters.items():
        if parameter not in known:
            raise GaplessError(
                f"{name} has no parameter {parameter!r}; {near_names(parameter, known)}"
            )
        wanted = type(known[parameter].default)
        if not isinstance(value, wanted):
            raise GaplessError(f"{name}, {parameter}: {wanted.__name__}, found {value!r}")
    return make(**parameters)


def _bytes(parameter: str, mebibytes: int) -> int:
    if not 0 <= mebibytes <= MOST_MIB:
        raise GaplessError(f"{parameter}: 0 to {MOST_MIB}, found {mebibytes}")
    return mebibytes << 20
