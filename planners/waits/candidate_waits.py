"""The waits that are worth a try: a node waits for the event after a node of another stream.

Note [Few waits are worth a try]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Rationale. A wait is a pair (u, v) of nodes of two streams, u before v in the global order: v waits
until u has ended. There are as many as pairs of nodes, and nearly all can be left out.

Approach. More paths make more pairs of tensors safe and none unsafe. Let u' stand behind u in its
stream and before v in the global order. Then u ~> u' -> v, so that the wait (u', v) brings every
path that (u, v) brings. Likewise (u, v') for a v' of the stream of v that stands before v and
behind u. So a set of k waits stays as good if each is replaced by one whose u is the last node of
its stream before v, and whose v is the first node of its stream after u. These are the candidates:
one for each place at which, of two streams alone, the global order goes from one to the other. A
wait whose u has a path to v already brings nothing, in every set. The global order is an order of
every set of waits, so that no set has a cycle.

Limits. Candidates wait as long as they may. An earlier u or a later v could be enough for a plan.
"""

from __future__ import annotations

from planners.waits.waiting_streams import Wait, WaitingStreams


def candidate_waits(streams: WaitingStreams) -> list[Wait]:
    """Return the waits one of which is as good as any other, by rising later node."""
    known = streams.reach(frozenset())
    found: list[Wait] = []
    # The last node of each stream so far, the latest last.
    last: dict[int, int] = {}
    for node, stream in enumerate(streams.stream.tolist()):
        # Dictionaries keep the order of insertion, and each stream is inserted anew.
        for other, earlier in reversed(last.items()):
            if other == stream:
                break
            if not known.leads(earlier, node):
                found.append((earlier, node))
        last.pop(stream, None)
        last[stream] = node
    return found
