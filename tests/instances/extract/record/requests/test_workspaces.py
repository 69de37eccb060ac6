"""Workspaces by rule, against the bytes that PyTorch 2.11 asked for on an NVIDIA H200."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import pytest

from instances.extract.record.requests.workspaces import (
    FREE,
    HOPPER,
    NEXT_RESULT,
    RESULTS,
    LibraryWorkspaces,
    result_bytes,
    staging_bytes,
    workspace_script,
)


@dataclass(frozen=True)
class Storage:
    """Memory behind a tensor."""

    size: int

    def nbytes(self) -> int:
        return self.size


@dataclass(frozen=True)
class Shape:
    """As much of a tensor as a rule looks at."""

    shape: tuple[int, ...]
    dtype: str = "int64"
    contiguous: bool = True
    bytes_each: int = 8

    def untyped_storage(self) -> Storage:
        return Storage(self.nbytes)

    def element_size(self) -> int:
        return self.bytes_each

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return prod(self.shape)

    def is_contiguous(self) -> bool:
        return self.contiguous

    @property
    def nbytes(self) -> int:
        return self.bytes_each * self.numel()


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
    assert script(name, query, query, query, query) == [RESULTS, 51_118_336]
    # Four queries share keys and values: 3 of 12 heads.
    shared = Shape((32, 3, 512, 64))
    own = 2 * query.nbytes
    assert script(name, query, query, shared, shared) == [RESULTS, 51_118_336 + own]
    assert script("_scaled_dot_product_cudnn_attention.default", query) == [RESULTS, 256]


def test_a_prefix_sum_converts_what_has_another_dtype() -> None:
    sums = Shape((32, 1024))
    assert script("cumsum.default", Shape((32, 1024), "bool"), 1, results=(sums,)) == [
        RESULTS,
        262_144,
    ]
    assert script("cumsum.default", sums, 1, results=(sums,)) == [RESULTS]


def test_the_gradient_of_aligned_labels_sums_from_the_end() -> None:
    sums = Shape((2, 49, 101))
    given = [Shape((2,))] * 6
    assert script("_ctc_loss_backward.Tensor", *given, sums) == [2 * 49 * 101 * 8, RESULTS]


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


def image(channels: int, side: int) -> Shape:
    return Shape((128, channels, side, side), "bfloat16", bytes_each=2)


# Image, channels and side of the result, side of the kernel, stride; what was recorded beside the
# results of a ResNet-50's convolution, of its gradient by the image and of that by the weights.
CONVOLUTIONS = [
    (image(64, 56), 64, 56, 3, 1, 102_834_323, 102_834_323, 104_751_783),
    (image(128, 56), 128, 28, 3, 2, 128_745_619, 128_745_619, 136_413_863),
    (image(128, 28), 128, 28, 3, 1, 51_675_283, 51_675_283, 59_343_527),
    (image(256, 56), 512, 28, 1, 2, 308_281_491, 308_281_491, 311_951_983),
    (image(512, 28), 128, 28, 1, 1, 0, 0, 33_554_432),
    (image(256, 56), 64, 56, 1, 1, 0, 0, 8_388_608),
]


@pytest.mark.parametrize(
    ("given", "channels", "side", "kernel", "stride", "forward", "by_image", "by_weight"),
    CONVOLUTIONS,
)
def test_a_convolution_turns_its_images_round_beside_them(
    given: Shape,
    channels: int,
    side: int,
    kernel: int,
    stride: int,
    forward: int,
    by_image: int,
    by_weight: int,
) -> None:
    made = image(channels, side)
    weight = Shape((channels, given.shape[1], kernel, kernel), "bfloat16", bytes_each=2)
    how = ([stride, stride], [0, 0], [1, 1], False, [0, 0], 1)
    found = script("convolution.default", given, weight, None, *how, results=(made,))
    assert found == ([RESULTS, pytest.approx(forward, abs=1024)] if forward else [RESULTS])
    wanted = [True, True, False]
    backward = script(
        "convolution_backward.default", made, given, weight, None, *how, wanted,
        results=(given, weight),
    )  # fmt: skip
    of_image = [pytest.approx(by_image, abs=1024), FREE] if by_image else []
    near = pytest.approx(by_weight, rel=0.015)
    assert backward == [NEXT_RESULT, *of_image, NEXT_RESULT, near, FREE]


def test_an_image_of_three_channels_is_filled_up() -> None:
    given, made = image(3, 224), image(64, 112)
    weight = Shape((64, 3, 7, 7), "bfloat16", bytes_each=2)
    how = ([2, 2], [3, 3], [1, 1], False, [0, 0], 1)
    found = script("convolution.default", given, weight, None, *how, results=(made,))
    assert found == [RESULTS, 308_331_536 - 16]
    first = script(
        "convolution_backward.default", made, given, weight, None, *how, [False, True, False],
        results=(weight,),
    )  # fmt: skip
    assert first[0] == NEXT_RESULT
    assert len(first) == 3


@pytest.mark.parametrize("change", ["groups", "float32", "transposed", "channels last"])
def test_other_convolutions_have_no_known_workspace(change: str) -> None:
    each = 4 if change == "float32" else 2
    given = Shape((8, 64, 56, 56), "any", change != "channels last", bytes_each=each)
    weight = Shape((64, 64, 3, 3), "any", bytes_each=each)
    how = ([1, 1], [1, 1], [1, 1], change == "transposed", [0, 0], 64 if change == "groups" else 1)
    assert script("convolution.default", given, weight, None, *how, results=(given,)) == [RESULTS]


def test_a_mean_squared_error_keeps_the_bytes_of_the_differences() -> None:
    own, other = (Shape((64, 12, 128, 128), "float32", bytes_each=4) for _ in range(2))
    loss = Shape((), "float32", bytes_each=4)
    kept = result_bytes("mse_loss.default", (own, other), loss)  # type: ignore[arg-type]
    assert kept == 50_331_648
    assert script("mse_loss.default", own, other, results=(loss,)) == [RESULTS, 50_331_648]
    assert script("mse_loss.default", own, other, results=(own,)) == [RESULTS]


def test_a_batch_norm_keeps_its_statistics_in_float32() -> None:
    mean = Shape((64,), "bfloat16", bytes_each=2)
    kept = result_bytes("native_batch_norm.default", (), mean)  # type: ignore[arg-type]
    assert kept == 256
