"""The workspaces that GPU kernels allocate while they run, by rules.

Note: the modelled workspaces
-----------------------------
Rationale. Fake tensors show the results of an operator, and no other allocation of its kernel. Most
kernels have none. A few allocate workspaces, and one of them requests more bytes than it reads: the
sum over rows, which makes the gradient of a bias.

Approach. A rule is a script of a kernel: it allocates, frees its latest workspace, and allocates
its results in between. The rules follow PyTorch's own arithmetic for an H100 or H200 (132
multiprocessors of 2,048 threads). Recorded traces confirm them to the byte, unless the comment of a
rule says otherwise.

A library allocates a workspace for several calls once for each thread and stream, and never frees
it.

A convolution in 16 bits may get images with channels first, but its kernels need channels last. So
cuDNN converts input, output and weights in a workspace as large as all three. For a ResNet this was
12 % of the bytes that the caching allocator reserves. cuDNN itself decides which kernels take more;
these parts are fitted to a recorded ResNet-50 and MobileNetV2.

Limits. Sums that reduce the fastest dimension take a few KiB, which are left out. So are the
workspaces of convolutions in float32, in groups, and transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

FREE = -1
RESULTS = -2
NEXT_RESULT = -3
NO_WORKSPACE = (RESULTS,)

Script = Sequence[int]
Rule = Callable[[Sequence[Any], "Sequence[Tensor]"], Script]


@dataclass(frozen=True)
class GpuModel:
    """The properties of a GPU on which the launch of a kernel depends."""

    multiprocessors: int = 132
    threads_per_multiprocessor: int = 2048


HOPPER = GpuModel()
WARP = 32
FLOAT32_BYTES = 4
INT64_BYTES = 8


def workspace_script(name: str, arguments: Sequence[Any], results: Sequence[Tensor]) -> Script:
    """Return the allocations of an operator, given without namespace: ``"sum.dim_IntList"``.

    A number is bytes to allocate, and :data:`FREE` frees the latest workspace. :data:`RESULTS`
    stands once, where the results are allocated, or :data:`NEXT_RESULT` for each of them. At the
    end all remaining workspaces are freed, the latest first.
    """
    rule = RULES.get(name)
    return NO_WORKSPACE if rule is None else rule(arguments, results)


def result_bytes(name: str, arguments: Sequence[Any], result: Tensor) -> int:
    """Return the bytes of a result's storage on a GPU."""
    size: int = result.untyped_storage().nbytes()
    if name == "mse_loss.default" and result.dim() == 0:
        # Made as large as the differences, then resized to the one number, which frees nothing.
        size *= broadcast_elements(arguments[0], arguments[1])
    elif name == "native_batch_norm.default" and result.dim() == 1:
        size = result.numel() * FLOAT32_BYTES
    return size


# cuBLAS keeps 32 MiB on Hopper for every thread and stream that multiply matrices, cuBLASLt, which
# adds a bias on the way, 1 MiB.
MATRIX_PRODUCTS = frozenset({"mm.default", "addmm.default", "bmm.default", "baddbmm.default"})
CUBLAS_BYTES = 32 << 20
BIASED_PRODUCTS = frozenset({"addmm.default"})
CUBLAS_LT_BYTES = 1 << 20


@dataclass
class LibraryWorkspaces:
    """The workspaces that cuBLAS has allocated so far and never frees."""

    taken: set[tuple[int, bool, int]] = field(default_factory=set)

    def first_used_by(self, name: str, stream: int, *, on_engine_thread: bool) -> list[int]:
        """Return the bytes of the lasting workspaces that a library allocates at an operator.

        A library allocates them for each stream of each thread: the program's, and autograd's.
        """
        wanted = []
        for size, operators in (
            (CUBLAS_BYTES, MATRIX_PRODUCTS),
            (CUBLAS_LT_BYTES, BIASED_PRODUCTS),
        ):
            key = (size, on_engine_thread, stream)
            if name in operators and key not in self.taken:
                self.taken.add(key)
                wanted.append(size)
        return wanted


def column_sum_script(arguments: Sequence[Any], _: Sequence[Tensor]) -> Script:
    """Sum over all dimensions but the last ones of a contiguous tensor: the gradient of a bias.

    Blocks of the grid share the rows among them. Each writes float32 partial sums into a buffer
    in global memory, and a counter per column of blocks tells the last one to finish.
    """
    summed = arguments[0]
    dims = sorted(dim % summed.dim() for dim in arguments[1] or range(summed.dim()))
    kept = summed.shape[len(dims) :]
    if dims != list(range(len(dims))) or not kept or not summed.is_contiguous():
        return NO_WORKSPACE
    buffer, counters = staging_bytes(prod(kept), prod(summed.shape[: len(dims)]), HOPPER)
    return (RESULTS, buffer, counters) if buffer else NO_WORKSPACE


def staging_bytes(outputs: int, rows: int, device: GpuModel) -> tuple[int, int]:
    """Return the bytes of buffer and counters of a sum over rows; 0 where a block sums alone."""
    vector = next(width for width in (4, 2, 1) if outputs % width == 0)
    threads = 512 // vector
    width = min(_power_of_two(outputs // vector), WARP)
    height = min(_power_of_two(rows), threads // width)
    width = min(_power_of_two(outputs // vector), threads // height)
    values = -(-rows // height)
    blocks = -(-(outputs // vector) // width)
    resident = device.multiprocessors * (device.threads_per_multiprocessor // (width * height))
    if values < 256 or rows < min(16 * height, 256) or blocks > resident:
        return 0, 0
    shares = max(min(-(-resident // blocks), -(-values // 16)), -(-values // 256))
    if shares == 1:
        return 0, 0
    return FLOAT32_BYTES * outputs * shares * width * vector, 4 * blocks


def prefix_sum_script(arguments: Sequence[Any], results: Sequence[Tensor]) -> Script:
    """Sum up to each element; an input with another dtype than the result is converted first."""
    if arguments[0].dtype == results[0].dtype:
        return NO_WORKSPACE
    return (RESULTS, results[0].nbytes)


def embedding_script(arguments: Sequence[Any], _: Sequence[Tensor]) -> Script:
    """Gather rows: indices that are not contiguous are copied first."""
    indices = arguments[1]
    if indices.is_contiguous():
        return NO_WORKSPACE
    return (INT64_BYTES * indices.numel(), RESULTS)


# With so few indices one kernel adds the gradients without sorting.
MOST_UNSORTED_INDICES = 3072
ROWS_PER_PART = 10


def embedding_backward_script(arguments: Sequence[Any], _: Sequence[Tensor]) -> Script:
    """Add up the gradients of gathered rows: sort the indices, find their segments, sum in parts.

    The bytes of the sort and of the prefix sums are fitted to two recorded sizes.
    """
    gradient, indices, weight_rows = arguments[:3]
    count = indices.numel()
    column = INT64_BYTES * count
    contiguous_copy = () if indices.is_contiguous() else (column,)
    if count <= MOST_UNSORTED_INDICES:
        return (*contiguous_copy, RESULTS)
    segments = min(count, weight_rows)
    parts = count // ROWS_PER_PART + segments
    sort = 2 * column + count // 4 + 16_895
    scan = 1_279 + segments // 64
    return (
        *contiguous_copy,
        *(column, column, column, sort, FREE, FREE, RESULTS),
        *(column, INT64_BYTES, column, 1_279, FREE, FREE),
        *(INT64_BYTES * segments, INT64_BYTES * segments, scan, FREE, INT64_BYTES),
        *(INT64_BYTES * parts, FLOAT32_BYTES * parts * gradient.shape[-1]),
    )


# Workspace of a cuDNN kernel in addition to that of its algorithm.
CUDNN_BYTES = 256


def cudnn_attention_script(_: Sequence[Any], __: Sequence[Tensor]) -> Script:
    """Attend by cuDNN, whose forward kernel requests one small workspace for all arguments."""
    return (RESULTS, CUDNN_BYTES)


def cudnn_attention_backward_script(arguments: Sequence[Any], _: Sequence[Tensor]) -> Script:
    """Differentiate attention by cuDNN: queries' gradients and row sums in float32.

    If several heads of queries share a head of keys and values, the kernel first computes the
    gradients of keys and values for each head of queries, in 16 bits.
    """
    query, key, value = arguments[1:4]
    row_sums = prod(query.shape[:3])
    own = 0
    if key.shape[1] != query.shape[1]:
        own = (key.nbytes + value.nbytes) // key.shape[1] * query.shape[1]
    return (RESULTS, FLOAT32_BYTES * (query.numel() + row_sums) + own + CUDNN_BYTES)


def mean_squared_error_script(arguments: Sequence[Any], results: Sequence[Tensor]) -> Script:
    """Average squared differences, which are written down first."""
    if results[0].dim():
        return NO_WORKSPACE
    return (RESULTS, broadcast_elements(*arguments[:2]) * results[0].element_size())


def broadcast_elements(one: Tensor, other: Tensor) -> int:
    """Return the number of elements of an elementwise result of two tensors."""
    return prod(np.broadcast_shapes(tuple(one.shape), tuple(other.shape)))


def ctc_backward_script(arguments: Sequence[Any], _: Sequence[Tensor]) -> Script:
    """Differentiate the loss of alignments: sums from the end are as large as those of the loss.

    The rule is that of PyTorch's code; no recording confirms it.
    """
    return (arguments[6].nbytes, RESULTS)


# A kernel over 16-bit channels last needs a multiple of so many channels. A matrix product of
# images in their own layout needs a multiple of so many pixels.
CHANNELS_AT_ONCE = 8
PIXELS_AT_ONCE = 4
# Partial sums of the gradient of a weight: of a kernel over pixels, and of a matrix product.
PARTS_OVER_PIXELS = 27
MOST_OVER_PIXELS = 8 << 20
PARTS_OF_PRODUCT = 256


def convolution_script(arguments: Sequence[Any], results: Sequence[Tensor]) -> Script:
    """Convolve, by a matrix product if no layout has to be converted."""
    image, weight, _, stride, *_ = arguments
    if not has_known_workspace(image, weight, arguments[6], arguments[8]):
        return NO_WORKSPACE
    turned = turned_bytes(image, results[0], weight, stride)
    return (RESULTS, turned + weight_bytes_over_pixels(weight)) if turned else NO_WORKSPACE


def convolution_backward_script(arguments: Sequence[Any], results: Sequence[Tensor]) -> Script:
    """Differentiate a convolution: by its input, then by its weights, each by a kernel."""
    gradient, image, weight, _, stride, _, _, transposed, _, groups, wanted = arguments
    if not has_known_workspace(image, weight, transposed, groups):
        return NO_WORKSPACE
    of_weight = weight_bytes_over_pixels(weight)
    script: list[int] = []
    if wanted[0]:
        script.append(NEXT_RESULT)
        if turned := turned_bytes(image, gradient, weight, stride):
            script += (turned + of_weight, FREE)
    if wanted[1]:
        script += (NEXT_RESULT, bytes_by_weight(image, gradient, weight, stride), FREE)
    return (*script, *[NEXT_RESULT] * (len(results) - script.count(NEXT_RESULT)))


def bytes_by_weight(image: Tensor, gradient: Tensor, weight: Tensor, stride: Sequence[int]) -> int:
    """Return the workspace of the gradient of weights; the smaller of two for a matrix product."""
    of_weight = weight_bytes_over_pixels(weight)
    turned = padded_bytes(image) + padded_bytes(gradient)
    if is_product(weight, stride):
        parts: int = PARTS_OF_PRODUCT * weight.nbytes
        return min(parts, turned)
    return turned + min(PARTS_OVER_PIXELS * of_weight, MOST_OVER_PIXELS)


def is_product(weight: Tensor, stride: Sequence[int]) -> bool:
    """Return True if a convolution is a matrix product of images in their own layout."""
    return prod(weight.shape[2:]) == 1 and set(stride) == {1}


def turned_bytes(image: Tensor, result: Tensor, weight: Tensor, stride: Sequence[int]) -> int:
    """Return the bytes of images that a convolution converts to channels last; 0 for none."""
    if is_product(weight, stride) and prod(image.shape[2:]) % PIXELS_AT_ONCE == 0:
        return 0
    return padded_bytes(image) + padded_bytes(result)


def has_known_workspace(image: Tensor, weight: Tensor, transposed: bool, groups: int) -> bool:
    """Return True if the convolution is in 16 bits, on contiguous images."""
    is_plain = not transposed and groups == 1 and weight.dim() == 4
    return is_plain and weight.element_size() == 2 and image.is_contiguous()


def padded_bytes(image: Tensor) -> int:
    """Return the bytes of images with their channels padded to `CHANNELS_AT_ONCE`."""
    channels: int = -(-image.shape[1] // CHANNELS_AT_ONCE) * CHANNELS_AT_ONCE
    a_channel: int = image.nbytes // image.shape[1]
    return a_channel * channels


def weight_bytes_over_pixels(weight: Tensor) -> int:
    """Return the bytes of weights in another layout; kernels of one pixel need none."""
    return padded_bytes(weight) if prod(weight.shape[2:]) > 1 else 0


# A kernel that copies many tensors at once gets lists of whole numbers, in a tensor of their own. A
# block of threads copies so many bytes.
TILE_BYTES = 128 * 16


def split_copy_script(arguments: Sequence[Any], _: Sequence[Tensor]) -> Script:
    """Copy parts of a tensor to tensors of their own, after FSDP has gathered shards.

    The lists have four numbers for each part, one more, and the part of each block.
    """
    source, parts, dim = arguments[:3]
    chunks = prod(source.shape[:dim])
    part_bytes = [part * source.stride(dim) * source.element_size() for part in parts]
    blocks = sum(_divided_up(size, TILE_BYTES) for size in part_bytes)
    threads = HOPPER.multiprocessors * HOPPER.threads_per_multiprocessor
    rounds = _divided_up(blocks * chunks, threads // 128 * 2)
    chunks_each = min(ceil(sqrt(rounds)), chunks)
    tile = TILE_BYTES * _divided_up(rounds, chunks_each)
    numbers = 4 * len(parts) + 1 + sum(_divided_up(size, tile) for size in part_bytes)
    return (INT64_BYTES * numbers, FREE)


def chunk_cat_script(arguments: Sequence[Any], _: Sequence[Tensor]) -> Script:
    """Join gradients by shards, before FSDP reduces them.

    The lists have six numbers for each tensor, two more, and the tensor of each block.
    """
    tensors, dim, chunks, out = arguments
    blocks = 0
    for tensor in tensors:
        padded = _divided_up(tensor.shape[dim], chunks)
        blocks += _divided_up(
            padded * prod(tensor.shape[dim + 1 :]) * out.element_size(), TILE_BYTES
        )
    return (INT64_BYTES * (6 * len(tensors) + 2 + blocks), FREE)


def _divided_up(number: int, by: int) -> int:
    return -(-number // by)


def _power_of_two(number: int) -> int:
    """Return the largest power of two that is at most a positive number."""
    return 1 << (number.bit_length() - 1) if number else 1


# FSDP operators that write into existing tensors; they allocate nothing.
WITHOUT_RESULTS: dict[str, Rule] = {
    "split_with_sizes_copy.default": split_copy_script,
    "chunk_cat.default": chunk_cat_script,
}
RULES: dict[str, Rule] = {
    **WITHOUT_RESULTS,
    "convolution.default": convolution_script,
    "convolution_backward.default": convolution_backward_script,
    "_ctc_loss_backward.Tensor": ctc_backward_script,
    "mse_loss.default": mean_squared_error_script,
    "sum.dim_IntList": column_sum_script,
    "cumsum.default": prefix_sum_script,
    "embedding.default": embedding_script,
    "embedding_dense_backward.default": embedding_backward_script,
    "_scaled_dot_product_cudnn_attention.default": cudnn_attention_script,
    "_scaled_dot_product_cudnn_attention_backward.default": cudnn_attention_backward_script,
}
