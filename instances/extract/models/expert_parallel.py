"""Expert parallelism with static shapes: operators that dispatch, exchange and combine rows.

Note: a mixture of experts under fake tensors
---------------------------------------------
Rationale. The number of rows of an expert depends on data, which fake tensors do not have, and a
static plan needs sizes that hold for every step.

Approach. Routing is uniform: every expert gets the same number of the ``tokens * top_k`` rows,
rounded up. Balancing losses aim at this, and a capacity factor of 1 enforces it. A fused
permutation kernel (as in Transformer Engine) writes one chunk for each expert, straight into the
send buffer of an all-to-all; an expert receives one chunk from all ranks together. So both buffers
of an exchange are lists of whole tensors, each a chain, and nothing is concatenated or split. The
gradient of an exchange is the exchange back, and the backward pass of dispatching is combining.

Every operator has a shape function for extraction, and an implementation for one rank, which its
tests need.

Limits. Rows over an expert's share would be dropped, as with a capacity. All ranks count as equal:
each sends as much as it receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

NAMESPACE = "gapless"


@torch.library.custom_op(f"{NAMESPACE}::all_to_all", mutates_args=())
def all_to_all(chunks: Sequence[Tensor], rows: Sequence[int]) -> list[Tensor]:
    """Exchange chunks of (any, width) for chunks of these rows, together as many as are sent."""
    if [len(chunk) for chunk in chunks] != list(rows):
        raise NotImplementedError("an exchange is computed for one rank; more are only traced")
    return [chunk.clone() for chunk in chunks]


@all_to_all.register_fake
def _(chunks: Sequence[Tensor], rows: Sequence[int]) -> list[Tensor]:
    return [chunks[0].new_empty((count, chunks[0].shape[1])) for count in rows]


def _remember_rows(ctx: Any, inputs: tuple[Any, ...], **_: Any) -> None:
    ctx.rows = [len(chunk) for chunk in inputs[0]]


def _exchange_back(ctx: Any, gradients: list[Tensor]) -> tuple[list[Tensor], None]:
    return all_to_all([_own_storage(gradient) for gradient in gradients], ctx.rows), None


all_to_all.register_autograd(_exchange_back, setup_context=_remember_rows)


def _own_storage(chunk: Tensor) -> Tensor:
    """Copy a chunk that is part of a larger storage, which a send buffer cannot hold."""
    alone = chunk.is_contiguous() and chunk.untyped_storage().nbytes() == chunk.nbytes
    return chunk if alone else chunk.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op(f"{NAMESPACE}::dispatch_rows", mutates_args=())
def dispatch_rows(hidden: Tensor, order: Tensor, rows: Sequence[int]) -> list[Tensor]:
    """Write the rows that go to each expert, of (tokens, width), into a chunk of their own.

    The order is of pairs of token and choice by expert, (tokens * top_k,) int64; pair ``p`` is of
    token ``p // top_k``. A chunk is (rows, width); rows that no pair fills are zero.
    """
    chosen = hidden[order // (len(order) // len(hidden))]
    empty = hidden.new_zeros((sum(rows) - len(order), hidden.shape[1]))
    return _copied_parts(torch.cat([chosen, empty]), rows)


def _copied_parts(tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
    return [part.clone() for part in torch.ops.aten.split_with_sizes(tensor, list(rows))]


@dispatch_rows.register_fake
def _(hidden: Tensor, _order: Tensor, rows: Sequence[int]) -> list[Tensor]:
    return [hidden.new_empty((count, hidden.shape[1])) for count in rows]


@torch.library.custom_op(f"{NAMESPACE}::dispatch_rows_backward", mutates_args=())
def dispatch_rows_backward(gradients: Sequence[Tensor], order: Tensor, tokens: int) -> Tensor:
    """Return the gradient of the tokens from those of the chunks."""
    rows = torch.cat(list(gradients))[: len(order)]
    total = rows.new_zeros((tokens, rows.shape[1]))
    return total.index_add_(0, order // (len(order) // tokens), rows)


@dispatch_rows_backward.register_fake
def _(gradients: Sequence[Tensor], _order: Tensor, tokens: int) -> Tensor:
    return gradients[0].new_empty((tokens, gradients[0].shape[1]))


def _remember_order(ctx: Any, inputs: tuple[Any, ...], **_: Any) -> None:
    hidden, order, _ = inputs
    ctx.save_for_backward(order)
    ctx.tokens = len(hidden)


def _dispatch_back(ctx: Any, gradients: list[Tensor]) -> tuple[Tensor, None, None]:
    return dispatch_rows_backward(gradients, *ctx.saved_tensors, ctx.tokens), None, None


dispatch_rows.register_autograd(_dispatch_back, setup_context=_remember_order)


@torch.library.custom_op(f"{NAMESPACE}::combine_rows", mutates_args=())
def combine_rows(chunks: Sequence[Tensor], weights: Tensor, order: Tensor) -> Tensor:
    """Add up, for each token, the rows that its experts returned, by the router's (tokens, top_k).

    Chunks are in the order of the experts, the order is that of :func:`dispatch_rows`.
    """
    rows = torch.cat(list(chunks))[: len(order)] * weights.flatten()[order, None]
    total = rows.new_zeros((len(weights), rows.shape[1]))
    return total.index_add_(0, order // weights.shape[1], rows)


@combine_rows.register_fake
def _(chunks: Sequence[Tensor], weights: Tensor, _order: Tensor) -> Tensor:
    return chunks[0].new_empty((len(weights), chunks[0].shape[1]))


@torch.library.custom_op(f"{NAMESPACE}::combine_rows_backward", mutates_args=())
def combine_rows_backward(
    gradient: Tensor, chunks: Sequence[Tensor], weights: Tensor, order: Tensor
) -> list[Tensor]:
    """Return the gradients of the chunks, and behind them that of the weights."""
    rows = torch.cat(list(chunks))
    arriving = torch.zeros_like(rows)
    arriving[: len(order)] = gradient[order // weights.shape[1]]
    pairs = weights.new_empty(len(order))
    pairs[order] = (arriving * rows)[: len(order)].sum(1)
    arriving[: len(order)] *= weights.flatten()[order, None]
    of_chunks = _copied_parts(arriving, [len(chunk) for chunk in chunks])
    return [*of_chunks, pairs.view_as(weights)]


@combine_rows_backward.register_fake
def _(_gradient: Tensor, chunks: Sequence[Tensor], weights: Tensor, _order: Tensor) -> list[Tensor]:
    return [*(torch.empty_like(chunk) for chunk in chunks), torch.empty_like(weights)]


def _remember_rows_and_weights(ctx: Any, inputs: tuple[Any, ...], **_: Any) -> None:
    chunks, weights, order = inputs
    ctx.save_for_backward(weights, order, *chunks)


def _combine_back(ctx: Any, gradient: Tensor) -> tuple[list[Tensor], Tensor, None]:
    weights, order, *chunks = ctx.saved_tensors
    *of_chunks, of_weights = combine_rows_backward(gradient, chunks, weights, order)
    return of_chunks, of_weights, None


combine_rows.register_autograd(_combine_back, setup_context=_remember_rows_and_weights)


class GatedExpert(torch.nn.Module):
    """An expert for every token, (tokens, width), scaled by a gate, (tokens, 1)."""

    def __init__(self, expert: torch.nn.Module, gate: torch.nn.Module) -> None:
        super().__init__()
        self.expert = expert
        self.gate = gate

    def forward(self, hidden: Tensor) -> Tensor:
        scaled: Tensor = torch.sigmoid(self.gate(hidden)) * self.expert(hidden)
        return scaled


class ExpertParallelBlock(torch.nn.Module):
    """A sparse block of which this rank holds a part of the experts, as many as each other rank.

    The router returns, for (tokens, width), the logits, and the weights and experts of each token's
    choices, (tokens, top_k). Every token goes through the shared expert besides.
    """

    def __init__(
        self,
        router: torch.nn.Module,
        experts: Sequence[torch.nn.Module],
        shared: torch.nn.Module,
        ranks: int,
    ) -> None:
        super().__init__()
        self.router = router
        self.experts = torch.nn.ModuleList(experts)
        self.shared = shared
        self.ranks = ranks
        parameter: Any
        for parameter in self.experts.parameters():
            # No other rank has this expert. Megatron marks such parameters by the same word.
            parameter.allreduce = False

    def forward(self, hidden_states: Tensor) -> Tensor:
        hidden = hidden_states.view(-1, hidden_states.shape[-1])
        _, weights, chosen = self.router(hidden)
        order = chosen.flatten().argsort(stable=True)
        total = self.ranks * len(self.experts)
        share = -(-len(order) // total)
        sent = dispatch_rows(hidden, order, [share] * total)
        received = all_to_all(sent, [share * self.ranks] * len(self.experts))
        # The shared expert has work while the chunks travel.
        shared = self.shared(hidden)
        computed = [
            _own_storage(expert(chunk))
            for expert, chunk in zip(self.experts, received, strict=True)
        ]
        returned = all_to_all(computed, [share] * total)
        combined: Tensor = combine_rows(returned, weights, order) + shared
        return combined.view_as(hidden_states)
