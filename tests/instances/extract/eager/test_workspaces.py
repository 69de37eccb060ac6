"""Workspaces by rule, against the bytes that PyTorch 2.11 asked for on an NVIDIA H200."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import pytest

from instances.extract.eager.workspaces import (
    FREE,
    HOPPER,
    RESULTS,
    LibraryWorkspaces,
    staging_bytes,
    workspace_script,
)


@dataclass(frozen=True)
class Shape:
    """As much of a tensor as a rule looks at."""

    shape: tuple[int, ...]
    dtype: str = "int64"
    contiguous: bool = True

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return prod(self.shape)

    def is_contiguous(self) -> bool:
        return self.contiguous

    @property
    def nbytes(self) -> int:
        return 8 * self.numel()


def script(name: str, *arguments: Any, results: tuple[Shape, ...] = ()) -> list[int]:
    return list(workspace_script(name, arguments, results))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "rows", "recorded"),
    [
        (768, 16384, (100_663_296, 24)),
        (3072, 16384, (138_412_032, 96)),
        (30522, 16384, (62_509_056, 1908)),  # pairs of columns, for 30522 is no multiple of 4
        (1024, 32768, (138_412_032, 32)),
        (3072, 32768, (138_412_032, 96)),
        (4096, 32768, (138_412_032, 128)),
    ],
)
def test_the_gradient_of_a_bias_takes_what_was_recorded(
    columns: int, rows: int, recorded: tuple[int, int]
) -> None:
    assert staging_bytes(columns, rows, HOPPER) == recorded
    summed = Shape((rows, columns))
    assert script("sum.dim_IntList", summed, [0], True) == [RESULTS, *recorded]


@pytest.mark.parametrize(
    ("summed", "dims"),
    [
        (Shape((32, 512, 768)), [0]),  # 32 values a column: one block sums them alone
        (Shape((16384, 768)), [1]),
        (Shape((16384, 768), contiguous=False), [0]),
        (Shape((16384, 768)), [0, 1]),
    ],
)
def test_other_sums_take_nothing(summed: Shape, dims: list[int]) -> None:
    assert script("sum.dim_IntList", summed, dims) == [RESULTS]


def test_the_gradient_of_an_embedding_sorts_its_indices() -> None:
    column = 8 * 16384
    assert script("embedding_dense_backward.default", Shape((32, 512, 768)),
                  Shape((32, 512)), 30522, 0, False) == [
        column, column, column, 283_135, FREE, FREE, RESULTS,
        column, 8, column, 1_279, FREE, FREE,
        column, column, 1_535, FREE, 8, 144_176, 55_363_584,
    ]  # fmt: skip


def test_few_indices_are_not_sorted_and_scattered_ones_are_copied() -> None:
    indices = Shape((1, 512), contiguous=False)
    backward = script("embedding_dense_backward.default", Shape((1, 512, 768)), indices, 512)
    assert backward == [8 * 512, RESULTS]
    assert script("embedding.default", Shape((512, 768)), indices) == [8 * 512, RESULTS]
    assert script("embedding.default", Shape((512, 768)), Shape((1, 512))) == [RESULTS]


def test_attention_by_cudnn_sums_gradients_in_float32() -> None:
    query = Shape((32, 12, 512, 64))
    name = "_scaled_dot_product_cudnn_attention_backward.default"
    assert script(name, query, query) == [RESULTS, 51_118_336]
    assert script("_scaled_dot_product_cudnn_attention.default", query) == [RESULTS, 256]


def test_a_prefix_sum_converts_what_has_another_dtype() -> None:
    sums = Shape((32, 1024))
    assert script("cumsum.default", Shape((32, 1024), "bool"), 1, results=(sums,)) == [
        RESULTS,
        262_144,
    ]
    assert script("cumsum.default", sums, 1, results=(sums,)) == [RESULTS]


def test_most_kernels_take_nothing() -> None:
    assert script("gelu.default", Shape((2, 3))) == [RESULTS]


def test_cublas_takes_its_workspace_once_a_thread() -> None:
    libraries = LibraryWorkspaces()
    asked = [
        libraries.first_used_by(name, on_engine_thread=engine)
        for name, engine in (
            ("gelu.default", False),
            ("addmm.default", False),
            ("addmm.default", False),
            ("mm.default", True),
            ("addmm.default", True),
        )
    ]
    assert asked == [[], [32 << 20, 1 << 20], [], [32 << 20], [1 << 20]]
