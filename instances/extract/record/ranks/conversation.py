"""What ranks tell one another that are traced at the same time.

Note: which ranks are traced
----------------------------
Rationale. A rank that sends to another one by itself, as a stage of a pipeline does, is unlike it.
It may need an answer before it knows its sizes: PyTorch's stages tell one another their shapes.

Approach. A rank is traced in a process of its own. When it first names another rank, to send to it
or to receive from it, that rank is begun as well. So the ranks that are traced are those that talk
to the first one, directly or through others. Objects go through a file that all of them open, and
so do whole numbers that fake tensors know, as those of a shape or a vote. All other tensors have no
values, and only their memory counts: a rank waits for none but those of ``recv``. Gathered objects
are all like the rank's own.

Limits. A value that is received by ``irecv`` is not known.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed
from torch.utils._python_dispatch import _disable_current_modes

from instances.extract.record.requests.known_counts import compute_with_counts, known_values
from planners.errors import InstanceError

# PyTorch leaves it partly untyped; the name lets types check alike with PyTorch and without.
_distributed: Any = torch.distributed
_MODULES = (_distributed, _distributed.distributed_c10d)


@dataclass
class Conversation:
    """The messages of one rank."""

    number: int
    file: Path
    # Called with the number of a rank that is to be traced at the same time.
    begin: Callable[[int], None]
    begun: set[int] = field(default_factory=set)
    count: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._store = _distributed.FileStore(str(self.file), -1)

    def reach(self, peer: int) -> None:
        if peer != self.number and peer not in self.begun:
            self.begun.add(peer)
            self.begin(peer)

    def tell(self, kind: str, value: Any) -> None:
        with _disable_current_modes():
            self._store.set(self._key(kind, self.number), pickle.dumps(value))

    def hear(self, kind: str, peer: int) -> Any:
        self.reach(peer)
        with _disable_current_modes():
            try:
                return pickle.loads(self._store.get(self._key(kind, peer)))
            except RuntimeError as error:
                raise InstanceError(
                    f"rank {self.number} waits for rank {peer}, which sends nothing ({error})"
                ) from None

    def pass_over(self, kind: str, peer: int) -> None:
        """Count a message that need not be heard."""
        self._key(kind, peer)

    def _key(self, kind: str, sender: int) -> str:
        key = f"{kind} of {sender}"
        self.count[key] += 1
        return f"{key}, {self.count[key]}"


@contextmanager
def talking(own: Conversation) -> Iterator[None]:
    """Within this context a rank's messages reach the ranks that are traced at the same time."""

    def sends(send: Callable[..., Any]) -> Callable[..., Any]:
        def run(tensor: Any, dst: Any = None, group: Any = None, *rest: Any, **named: Any) -> Any:
            peer = _rank_of(dst, group, named.get("group_dst"))
            own.reach(peer)
            constant = known_values(tensor)
            own.tell(f"tensor to {peer}", None if constant is None else constant.tolist())
            return send(tensor, dst, group, *rest, **named)

        return run

    def receives(receive: Callable[..., Any], waits: bool) -> Callable[..., Any]:
        def run(tensor: Any, src: Any = None, group: Any = None, *rest: Any, **named: Any) -> Any:
            done = receive(tensor, src, group, *rest, **named)
            peer = _rank_of(src, group, named.get("group_src"))
            own.reach(peer)
            kind = f"tensor to {own.number}"
            if not waits:
                own.pass_over(kind, peer)
            elif (value := own.hear(kind, peer)) is not None:
                with _disable_current_modes():
                    tensor.constant = torch.tensor(value, dtype=tensor.dtype)
            return done

        return run

    def send_objects(objects: Any, dst: Any = None, group: Any = None, **named: Any) -> None:
        peer = _rank_of(dst, group, named.get("group_dst"))
        own.reach(peer)
        own.tell(f"objects to {peer}", list(objects))

    def receive_objects(objects: Any, src: Any = None, group: Any = None, **named: Any) -> int:
        peer = _rank_of(src, group, named.get("group_src"))
        objects[:] = own.hear(f"objects to {own.number}", peer)
        return peer

    def broadcast_objects(objects: Any, src: Any = None, group: Any = None, **named: Any) -> None:
        sender = _rank_of(src, group, named.get("group_src"))
        if sender == own.number:
            own.tell(f"objects to {_name_of(group)}", list(objects))
        else:
            objects[:] = own.hear(f"objects to {_name_of(group)}", sender)

    def gather_objects(objects: Any, one: Any, *_: Any, **__: Any) -> None:
        objects[:] = [one] * len(objects)

    compute_with_counts()
    c10d = _MODULES[1]
    with ExitStack() as stack:
        for name, value in (
            *((name, sends(getattr(c10d, name))) for name in ("send", "isend")),
            *((name, receives(getattr(c10d, name), name == "recv")) for name in ("recv", "irecv")),
            ("send_object_list", send_objects),
            ("recv_object_list", receive_objects),
            ("broadcast_object_list", broadcast_objects),
            ("all_gather_object", gather_objects),
        ):
            for module in _MODULES:
                stack.enter_context(mock.patch.object(module, name, value))
        yield


def _rank_of(rank: int | None, group: Any, in_group: int | None) -> int:
    if rank is not None:
        return rank
    found: int = _distributed.get_global_rank(group or _distributed.group.WORLD, in_group or 0)
    return found


def _name_of(group: Any) -> str:
    return str((group or _distributed.group.WORLD).group_name)
