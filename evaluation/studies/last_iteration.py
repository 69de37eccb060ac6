"""An online allocator's calls to the device in the last iteration of a run, and no others."""

from __future__ import annotations

from dataclasses import replace

from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.registry import choose_online, register_online


@register_online("calls-in-last-iteration")
def calls_in_last_iteration(
    requests: RequestSequence, terms: OnlineTerms, *, allocator: str = "gmlake"
) -> OnlineResult:
    """Serve all, serve all but the last iteration, and return the calls that are more.

    The last quarter of the rows stands for the last iteration of a run that marks none.
    """
    [chosen] = choose_online(allocator)
    serve = chosen.info.build(**chosen.parameters)
    whole = serve(requests, terms)
    before = serve(without_last_iteration(requests), terms)
    calls = {
        kind: count - before.device_calls.get(kind, 0) for kind, count in whole.device_calls.items()
    }
    return replace(whole, device_calls={kind: more for kind, more in calls.items() if more})


def without_last_iteration(requests: RequestSequence) -> RequestSequence:
    """Return the rows before the last iteration, and the requests that are made there."""
    rows = requests.last_iteration_row or requests.row_count - requests.row_count // 4
    made = int((requests.action[:rows] == RequestAction.ALLOCATE).sum())
    return replace(
        requests,
        action=requests.action[:rows],
        request=requests.request[:rows],
        event=requests.event[:rows],
        size=requests.size[:made],
        stream=requests.stream[:made],
        address=requests.address[:made],
        segments=requests.segments[requests.segments[:, 0] < rows],
        iteration_rows=requests.iteration_rows[requests.iteration_rows < rows],
        phase=requests.phase[:rows],
        module=requests.module[:rows],
        pool=requests.pool[:rows],
    )
