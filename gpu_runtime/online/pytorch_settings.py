"""The settings of PyTorch's allocator, read from the user's string."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gpu_runtime._core import PytorchSettings
from planners.errors import GaplessError, near_names

MIB = 1 << 20
# Sizes from 1 MiB on have a number of divisions for each power of two, up to this many powers.
POWERS = 16
MOST_BYTES = 1 << 48
# Keys that change how memory is obtained or other work, never the place of a block.
WITHOUT_EFFECT = frozenset({
    "graph_capture_record_stream_reuse", "pinned_free_catch_all", "pinned_max_cached_size_mb",
    "pinned_max_round_threshold_mb", "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb", "pinned_use_background_threads",
    "pinned_use_cuda_host_register", "release_lock_on_cudamalloc", "throw_on_cudamalloc_oom",
})  # fmt: skip
# A comma or a plus between two settings; a comma within brackets separates the items of a list.
BETWEEN_SETTINGS = re.compile(r"[,+](?![^\[]*\])")
AFTER_KEY = re.compile("[:=]")
UNBOUNDED = ">"


class SettingsError(GaplessError):
    """A setting of PyTorch's allocator is unknown, or its value breaks a rule."""


def pytorch_settings(text: str) -> PytorchSettings:
    """Read a string in the format of ``PYTORCH_CUDA_ALLOC_CONF``, by the rules of PyTorch 2.13.

    A list of divisions stands in brackets: ``roundup_power2_divisions:[256:1,512:2,>:4]``. Later
    settings of a key win. Where colons and commas already separate allocators and their parameters:
    ``key=value+key=value``. Keys that do not change the places of blocks are ignored. A key that
    PyTorch does not know, which PyTorch ignores, is an error.
    """
    found: dict[str, Any] = {}
    for setting in BETWEEN_SETTINGS.split("".join(str(text).split())):
        if not setting:
            continue
        key, *values = AFTER_KEY.split(setting, maxsplit=1)
        if not values:
            raise SettingsError(f"a setting is key:value, found {setting!r}")
        [value] = values
        if key in READERS:
            found[READERS[key].field] = _read(key, value)
        elif key == "backend":
            if value != "native":
                raise SettingsError(f"backend: only native is known here, found {value!r}")
        elif key not in WITHOUT_EFFECT:
            known = {*READERS, *WITHOUT_EFFECT, "backend"}
            raise SettingsError(
                f"PyTorch's allocator has no setting {key!r}; {near_names(key, known)}"
            )
    # The name of the online allocator decides whether segments are expandable.
    found.pop("", None)
    if "large_segment_bytes" in found:
        found.setdefault("max_non_split_rounding_bytes", found["large_segment_bytes"])
    try:
        return PytorchSettings(**found)
    except ValueError as error:
        raise SettingsError(error) from None


def _read(key: str, text: str) -> Any:
    reader = READERS[key]
    try:
        value = reader.read(text)
    except ValueError:
        raise SettingsError(f"{key}: {reader.accepted}, found {text!r}") from None
    if reader.unit and not 0 < value <= MOST_BYTES // reader.unit:
        raise SettingsError(f"{key}: 1 to {MOST_BYTES // reader.unit}, found {value}")
    return value * reader.unit if reader.unit else value


def _boolean(text: str) -> bool:
    if text not in ("True", "False"):
        raise ValueError
    return text == "True"


def _divisions(text: str) -> list[int]:
    """Return the divisions of each power of two from 1 MiB on."""
    if not text.startswith("["):
        return [_division(int(text))] * POWERS
    divisions = [0] * POWERS
    last: int | None = None
    for part in text.removeprefix("[").removesuffix("]").split(","):
        power, _, written = part.partition(":")
        value = _division(int(written))
        if power == UNBOUNDED:
            behind = 1 + (last or 0)
            divisions[behind:] = [value] * (POWERS - behind)
            continue
        mebibytes = int(power)
        if mebibytes < 1 or mebibytes & (mebibytes - 1):
            raise SettingsError(
                f"roundup_power2_divisions: MiB that are a power of two, or >, found {mebibytes}"
            )
        index = min(mebibytes.bit_length() - 1, POWERS - 1)
        if last is None:
            divisions[:index] = [value] * index
        divisions[index] = value
        last = index
    return divisions


def _division(value: int) -> int:
    if value < 0:
        raise SettingsError(f"roundup_power2_divisions: 0 or a power of two, found {value}")
    return value


class Reader(NamedTuple):
    """The rule for the values of a key, and the function that reads them."""

    # Field of the core's settings; empty for a key that the allocator's name decides.
    field: str
    read: Callable[[str], Any]
    accepted: str
    # Bytes of one unit of a size; 0 for other values.
    unit: int = 0


WHOLE, SHARE = "a whole number", "a number"
READERS = {
    "expandable_segments": Reader("", _boolean, "True or False"),
    # A free block from this size on is not split.
    "max_split_size_mb": Reader("max_split_bytes", int, WHOLE, MIB),
    # Such a block may exceed a request by so much; the default is the size of a large segment.
    "max_non_split_rounding_mb": Reader("max_non_split_rounding_bytes", int, WHOLE, MIB),
    # Divisions between two powers of two: one number for all sizes, or one from each power of two
    # in MiB on. The first number also holds for smaller sizes. 0 and 1 round up to 512 bytes.
    "roundup_power2_divisions": Reader(
        "roundup_power2_divisions", _divisions, "a whole number, or [256:1,512:2,>:4]"
    ),
    # Idle segments are freed above this share of the usable memory; 0 for never.
    "garbage_collection_threshold": Reader("garbage_collection_threshold", float, SHARE),
    # A segment for requests of more than 1 and less than 10 MiB.
    "large_segment_size_mb": Reader("large_segment_bytes", int, WHOLE, MIB),
    # Page size of such requests; by default the size of such a segment.
    "expandable_segments_page_size": Reader("expandable_page_bytes", int, WHOLE, 1),
    # Share of the device that may be used.
    "per_process_memory_fraction": Reader("per_process_memory_fraction", float, SHARE),
}
