"""Settings of PyTorch's allocator, as its users write them."""

from __future__ import annotations

import pytest

from gpu_runtime._core import LedgerMemory, PytorchCaching
from gpu_runtime.online.pytorch_settings import SettingsError, pytorch_settings
from planners.errors import GaplessError
from planners.registry import choose_online

MIB = 1 << 20


def divisions(text: str) -> list[int]:
    """Return the divisions for 1 MiB and each power of two above, from how sizes are rounded."""
    core = pytorch_settings(text)
    found = []
    for power in range(16):
        step = core.rounded((MIB << power) + 1) - (MIB << power)
        found.append(0 if step == 512 else (MIB << power) // step)
    return found


def test_no_settings_are_the_default() -> None:
    core = pytorch_settings("")
    assert (core.rounded(1), core.segment_for(MIB + 512)) == (512, 20 * MIB)


def test_a_string_is_read_as_pytorch_reads_it() -> None:
    text = " expandable_segments:True, large_segment_size_mb : 40,,garbage_collection_threshold:0.8"
    assert pytorch_settings(text).segment_for(2 * MIB) == 40 * MIB
    text = "large_segment_size_mb:30,large_segment_size_mb:40,per_process_memory_fraction:0.5"
    assert pytorch_settings(text).segment_for(2 * MIB) == 40 * MIB


def test_settings_of_a_run_stand_within_a_list_of_allocators() -> None:
    written = "settings=large_segment_size_mb=40+roundup_power2_divisions=4"
    first, second = choose_online(f"pytorch-caching:{written},pytorch-caching")
    made = pytorch_settings(str(first.parameters["settings"]))
    assert made.segment_for(2 * MIB) == 40 * MIB
    assert made.rounded(4 * MIB + 1) == 5 * MIB
    assert "settings" not in second.parameters


def test_settings_without_effect_on_blocks_are_ignored() -> None:
    text = "backend:native,pinned_num_register_threads:8,release_lock_on_cudamalloc:True"
    assert pytorch_settings(text).segment_for(2 * MIB) == 20 * MIB


def test_a_block_may_be_larger_by_a_large_segment() -> None:
    memory = LedgerMemory(2 * MIB, 1 << 40)
    text = "large_segment_size_mb:40,max_split_size_mb:50"
    allocator = PytorchCaching(memory, pytorch_settings(text))
    allocator.free(allocator.allocate(100 * MIB))
    allocator.allocate(61 * MIB)
    assert allocator.figures().reserved_bytes == 100 * MIB
    allocator.give_back()
    for wanted in (59 * MIB, 59 * MIB):
        allocator.allocate(wanted)
    assert allocator.figures().reserved_bytes == 100 * MIB + 2 * 60 * MIB


# As PyTorch 2.13 has them after the same strings.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4", [4] * 16),
        ("[256:2,512:4,1024:8,>:16]", [2] * 9 + [4, 8] + [16] * 5),
        ("[64:2,16:4,>:8]", [2] * 4 + [4] + [8] * 11),
        ("[>:8]", [0] + [8] * 15),
        ("[65536:2]", [2] * 16),
        ("[2:0,4:2]", [0, 0, 2] + [0] * 13),
    ],
)
def test_divisions_are_by_the_power_of_two(text: str, expected: list[int]) -> None:
    assert divisions(f"roundup_power2_divisions:{text}") == expected


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("max_split_size:64", "no setting 'max_split_size'; did you mean 'max_split_size_mb'"),
        ("expandable_segment:True", "did you mean 'expandable_segments'"),
        ("max_split_size_mb", "a setting is key:value, found 'max_split_size_mb'"),
        ("max_split_size_mb:much", "max_split_size_mb: a whole number, found 'much'"),
        ("max_split_size_mb:19", "max_split_bytes: at least large_segment_bytes, found 19922944"),
        ("large_segment_size_mb:30,max_split_size_mb:25", "at least large_segment_bytes"),
        ("max_split_size_mb:0", "max_split_size_mb: 1 to 268435456, found 0"),
        ("max_split_size_mb:999999999999999", "max_split_size_mb: 1 to 268435456"),
        ("large_segment_size_mb:10", "more than 10 MiB, found 10485760"),
        ("max_non_split_rounding_mb:19", "max_non_split_rounding_bytes: at least"),
        ("expandable_segments:true", "expandable_segments: True or False, found 'true'"),
        ("expandable_segments_page_size:-1", "expandable_segments_page_size: 1 to"),
        ("garbage_collection_threshold:1.0", "at least 0, less than 1"),
        ("garbage_collection_threshold:nan", "at least 0, less than 1"),
        ("per_process_memory_fraction:2", "0 to 1, found 2"),
        ("roundup_power2_divisions:3", "0 or powers of two up to 1048576, found 3"),
        ("roundup_power2_divisions:-2", "0 or a power of two, found -2"),
        ("roundup_power2_divisions:[100:2]", "MiB that are a power of two, or >, found 100"),
        ("roundup_power2_divisions:[256]", r"a whole number, or \[256:1,512:2,>:4\]"),
        ("backend:cudaMallocAsync", "backend: only native is known here"),
    ],
)
def test_each_fault_is_named(text: str, rule: str) -> None:
    with pytest.raises(SettingsError, match=rule) as raised:
        pytorch_settings(text)
    assert isinstance(raised.value, GaplessError)
