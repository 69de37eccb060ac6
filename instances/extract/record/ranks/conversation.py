"""The messages between ranks that are traced at the same time.

Note: which ranks are traced
----------------------------
Rationale. A rank that sends to another one by itself, as a stage of a pipeline does, is unlike it.
It may need an answer before it knows its sizes: PyTorch's stages tell one another their shapes.

Approach. A rank is traced in a process of its own. When it first names another rank, to send to it
or to receive from it, that rank is begun as well. So the ranks that are traced are those that talk
to the first one, directly or through others. Objects go through a file that all of them open, and
so do whole numbers that fake tensors know, as those of a shape or a vote. All other tensors have no
values, and only their memory counts: a rank waits for none but those of ``recv``. A tensor within
an object goes as its shape, type and device. Gathered objects are all like the rank's own.

Limits. A value that is received by ``irecv`` is not known. Memory of a tensor that arrives within
an object is not counted.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest import mock

import torch
import torch.distributed
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from instances.extract.record.ranks.rank import Rank
from instances.extract.record.requests.known_counts import compute_with_counts, known_values

# PyTorch leaves it partly untyped; the name lets types check alike with PyTorch and without.
_distributed: Any = torch.distributed
_c10d: Any = _distributed.distributed_c10d
_fake_mode: Any = detect_fake_mode
_make_fake: Any = FakeTensor


class _Conversation:
    """The messages of one rank, each sender's of one kind in their order."""

    def __init__(self, rank: Rank) -> None:
        self.number, self.begin = rank.number, cache(rank.begin)
        self._store = _distributed.FileStore(str(rank.messages), -1)
        self._count: Counter[tuple[str, int]] = Counter()

    def next(self, kind: str, sender: int) -> str:
        """Return the name of a sender's next message of a kind."""
        self._count[kind, sender] += 1
        return f"{kind} of {sender}, {self._count[kind, sender]}"

    def tell(self, kind: str, value: Any) -> None:
        with _disable_current_modes():
            self._store.set(self.next(kind, self.number), _packed(value))

    def hear(self, kind: str, sender: int) -> Any:
        self.begin(sender)
        mode = _fake_mode()
        with _disable_current_modes():
            return _Unpacked(self._store.get(self.next(kind, sender)), mode).load()


class _Packer(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        """Return what describes a fake tensor, which belongs to its process; None otherwise."""
        if not isinstance(value, FakeTensor):
            return None
        return tuple(value.shape), value.stride(), value.dtype, str(value.device)


class _Unpacked(pickle.Unpickler):
    def __init__(self, packed: bytes, mode: Any) -> None:
        super().__init__(io.BytesIO(packed))
        self._mode = mode

    def persistent_load(self, described: Any) -> Any:
        shape, strides, kind, device = described
        bare = torch.empty_strided(shape, strides, dtype=kind, device="meta")
        return _make_fake(self._mode, bare, torch.device(device))


def _packed(value: Any) -> bytes:
    file = io.BytesIO()
    _Packer(file).dump(value)
    return file.getvalue()


@contextmanager
def talking(rank: Rank) -> Iterator[None]:
    """Within this context a rank's messages reach the ranks that are traced at the same time."""
    own = _Conversation(rank)
    to_this = f"to {rank.number}"

    def sends(send: Callable[..., Any]) -> Callable[..., Any]:
        def run(tensor: Any, dst: Any = None, group: Any = None, *rest: Any, **named: Any) -> Any:
            peer = _rank_of(dst, group, named.get("group_dst"))
            own.begin(peer)
            constant = known_values(tensor)
            own.tell(f"tensor to {peer}", None if constant is None else constant.tolist())
            return send(tensor, dst, group, *rest, **named)

        return run

    def receives(receive: Callable[..., Any]) -> Callable[..., Any]:
        def run(tensor: Any, src: Any = None, group: Any = None, *rest: Any, **named: Any) -> Any:
            done = receive(tensor, src, group, *rest, **named)
            peer = _rank_of(src, group, named.get("group_src"))
            if receive.__name__ == "irecv":
                own.begin(peer)
                own.next(f"tensor {to_this}", peer)
            elif (value := own.hear(f"tensor {to_this}", peer)) is not None:
                with _disable_current_modes():
                    tensor.constant = torch.tensor(value, dtype=tensor.dtype)
            return done

        return run

    def send_objects(objects: Any, dst: Any = None, group: Any = None, **named: Any) -> None:
        peer = _rank_of(dst, group, named.get("group_dst"))
        own.begin(peer)
        own.tell(f"objects to {peer}", list(objects))

    def receive_objects(objects: Any, src: Any = None, group: Any = None, **named: Any) -> int:
        peer = _rank_of(src, group, named.get("group_src"))
        objects[:] = own.hear(f"objects {to_this}", peer)
        return peer

    def broadcast_objects(objects: Any, src: Any = None, group: Any = None, **named: Any) -> None:
        sender = _rank_of(src, group, named.get("group_src"))
        kind = f"objects to {(group or _distributed.group.WORLD).group_name}"
        if sender == own.number:
            own.tell(kind, list(objects))
        else:
            objects[:] = own.hear(kind, sender)

    def gather_objects(objects: Any, one: Any, *_: Any, **__: Any) -> None:
        objects[:] = [one] * len(objects)

    compute_with_counts()
    with ExitStack() as stack:
        for name, value in (
            *((name, sends(getattr(_c10d, name))) for name in ("send", "isend")),
            *((name, receives(getattr(_c10d, name))) for name in ("recv", "irecv")),
            ("send_object_list", send_objects),
            ("recv_object_list", receive_objects),
            ("broadcast_object_list", broadcast_objects),
            ("all_gather_object", gather_objects),
        ):
            for module in (_distributed, _c10d):
                stack.enter_context(mock.patch.object(module, name, value))
        yield


def _rank_of(rank: int | None, group: Any, in_group: int | None) -> int:
    if rank is not None:
        return rank
    found: int = _distributed.get_global_rank(group or _distributed.group.WORLD, in_group or 0)
    return found
