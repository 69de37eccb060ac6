"""What PyTorch's users configure of its allocator: typed, and read from a string."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpu_runtime._core import PytorchSettings
from planners.errors import GaplessError, near_names

MIB = 1 << 20
# Sizes of 1 MiB and more have divisions for each power of two, up to the last.
POWERS = 16
MOST_BYTES = 1 << 48
# Keys that change how memory is obtained or what else is done, never where a block lies.
WITHOUT_EFFECT = frozenset({
    "graph_capture_record_stream_reuse", "pinned_free_catch_all", "pinned_max_cached_size_mb",
    "pinned_max_round_threshold_mb", "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb", "pinned_use_background_threads",
    "pinned_use_cuda_host_register", "release_lock_on_cudamalloc", "throw_on_cudamalloc_oom",
})  # fmt: skip
# Where one setting ends and the next begins: at a comma that is in no list.
BETWEEN_SETTINGS = re.compile(r",(?![^\[]*\])")
UNBOUNDED = ">"


class SettingsError(GaplessError):
    """A setting of PyTorch's allocator is unknown, or its value breaks a rule."""


@dataclass(frozen=True)
class Settings:
    """Settings of PyTorch's allocator, by the names that its users know.

    Parameters
    ----------
    expandable_segments
        Whether pages are mapped into one range of addresses, instead of segments being allocated.
    max_split_size_mb
        MiB from which on a free block is not split; None for no limit.
    max_non_split_rounding_mb
        MiB by which such a block may be larger than a request; None for ``large_segment_size_mb``.
    roundup_power2_divisions
        Into how many steps the way to the next power of two is divided: one number for all sizes,
        or by the power of two, in MiB, from which on it holds for sizes up to the next one. The
        first holds below as well. 0 and 1 round up to 512 bytes.
    garbage_collection_threshold
        Share of the memory that may be used above which idle segments leave; 0 for none.
    large_segment_size_mb
        MiB of a segment for requests of more than 1 and less than 10 MiB.
    expandable_segments_page_size
        Bytes of a page of such requests; None for ``large_segment_size_mb``.
    per_process_memory_fraction
        Share of the device that may be used.

    Raises
    ------
    SettingsError
        A value breaks a rule.

    Notes
    -----
    The rules are those of PyTorch 2.13, where an unknown key is passed over.
    """

    expandable_segments: bool = False
    max_split_size_mb: int | None = None
    max_non_split_rounding_mb: int | None = None
    roundup_power2_divisions: int | Mapping[int | str, int] = 0
    garbage_collection_threshold: float = 0.0
    large_segment_size_mb: int = 20
    expandable_segments_page_size: int | None = None
    per_process_memory_fraction: float = 1.0

    def __post_init__(self) -> None:
        self.for_core()

    @classmethod
    def from_text(cls, text: str) -> Settings:
        """Read a string as ``PYTORCH_CUDA_ALLOC_CONF`` has it.

        Parameters
        ----------
        text
            ``key:value,key:value``; a list of divisions stands in brackets:
            ``roundup_power2_divisions:[256:1,512:2,>:4]``. Later settings of a key win.

        Returns
        -------
        Settings
            Keys that change nothing about where blocks lie are passed over.

        Raises
        ------
        SettingsError
            A key is unknown, or a value is not one of its kind or breaks a rule.
        """
        found: dict[str, Any] = {}
        for setting in BETWEEN_SETTINGS.split("".join(text.split())):
            if not setting:
                continue
            key, colon, value = setting.partition(":")
            if not colon:
                raise SettingsError(f"a setting is key:value, found {setting!r}")
            if key in READERS:
                reader = READERS[key]
                try:
                    found[key] = reader.read(value)
                except ValueError:
                    raise SettingsError(f"{key}: {reader.accepted}, found {value!r}") from None
            elif key == "backend":
                if value != "native":
                    raise SettingsError(f"backend: only native is known here, found {value!r}")
            elif key not in WITHOUT_EFFECT:
                known = {*READERS, *WITHOUT_EFFECT, "backend"}
                raise SettingsError(
                    f"PyTorch's allocator has no setting {key!r}; {near_names(key, known)}"
                )
        return cls(**found)

    def for_core(self) -> PytorchSettings:
        """Return the settings in bytes; whether segments are expandable is which policy runs."""
        large = _bytes("large_segment_size_mb", self.large_segment_size_mb)
        rounding, split = self.max_non_split_rounding_mb, self.max_split_size_mb
        given: dict[str, Any] = {"max_non_split_rounding_bytes": large}
        if rounding is not None:
            given["max_non_split_rounding_bytes"] = _bytes("max_non_split_rounding_mb", rounding)
        if split is not None:
            given["max_split_bytes"] = _bytes("max_split_size_mb", split)
        page = self.expandable_segments_page_size
        try:
            return PytorchSettings(
                **given,
                large_segment_bytes=large,
                roundup_power2_divisions=_divisions(self.roundup_power2_divisions),
                garbage_collection_threshold=self.garbage_collection_threshold,
                expandable_page_bytes=0
                if page is None
                else _bytes("expandable_segments_page_size", page, unit=1),
                per_process_memory_fraction=self.per_process_memory_fraction,
            )
        except ValueError as error:
            raise SettingsError(error) from None


def _bytes(key: str, value: int, unit: int = MIB) -> int:
    if not 0 < value <= MOST_BYTES // unit:
        raise SettingsError(f"{key}: 1 to {MOST_BYTES // unit}, found {value}")
    return value * unit


def _divisions(wanted: int | Mapping[int | str, int]) -> list[int]:
    """Return the divisions of each power of two from 1 MiB on."""
    divisions = [0] * POWERS
    last: int | None = None
    for power, value in (
        wanted if isinstance(wanted, Mapping) else {1: wanted, ">": wanted}
    ).items():
        if value < 0:
            raise SettingsError(f"roundup_power2_divisions: 0 or a power of two, found {value}")
        if power == UNBOUNDED:
            behind = 1 + (last or 0)
            divisions[behind:] = [value] * (POWERS - behind)
            continue
        if not isinstance(power, int) or power < 1 or power & (power - 1):
            raise SettingsError(
                f"roundup_power2_divisions: MiB that are a power of two, or >, found {power!r}"
            )
        index = min(power.bit_length() - 1, POWERS - 1)
        if last is None:
            divisions[:index] = [value] * index
        divisions[index] = value
        last = index
    return divisions


def _boolean(text: str) -> bool:
    if text not in ("True", "False"):
        raise ValueError
    return text == "True"


def _read_divisions(text: str) -> int | dict[int | str, int]:
    if not text.startswith("["):
        return int(text)
    pairs = [pair.partition(":") for pair in text.removeprefix("[").removesuffix("]").split(",")]
    return {power if power == UNBOUNDED else int(power): int(value) for power, _, value in pairs}


class Reader(NamedTuple):
    """How the value of a key is read, and what it has to be."""

    read: Callable[[str], Any]
    accepted: str


WHOLE, SHARE = Reader(int, "a whole number"), Reader(float, "a number")
READERS = {
    "expandable_segments": Reader(_boolean, "True or False"),
    "max_split_size_mb": WHOLE,
    "max_non_split_rounding_mb": WHOLE,
    "roundup_power2_divisions": Reader(_read_divisions, "a whole number, or [256:1,512:2,>:4]"),
    "garbage_collection_threshold": SHARE,
    "large_segment_size_mb": WHOLE,
    "expandable_segments_page_size": WHOLE,
    "per_process_memory_fraction": SHARE,
}
