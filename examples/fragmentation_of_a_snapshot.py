"""Read a memory snapshot of PyTorch, and explain its fragmentation.

On a GPU, `torch.cuda.memory._record_memory_history(context=None)` before the training and
`torch.cuda.memory._dump_snapshot("run.pickle")` after it write the snapshot.
"""

import pickle
from itertools import count

import numpy as np

import planners

MIB = 1024 * 1024

# No GPU is needed here: this writes the snapshot of a small transformer, trained with batches of
# six lengths. The replay below places the requests itself, so any addresses will do.
events: list[dict[str, str | int]] = []
addresses = count(1 << 40, 1 << 30)


def allocate(size: int) -> tuple[int, int]:
    block = next(addresses), size
    events.append({"action": "alloc", "addr": block[0], "size": size, "stream": 0})
    return block


def free(block: tuple[int, int]) -> None:
    for action in ("free_requested", "free_completed"):
        events.append({"action": action, "addr": block[0], "size": block[1], "stream": 0})


weights = [allocate(12 * MIB) for layer in range(4)]
for length in (640, 1024, 768, 1152, 896, 1280):
    activations = []
    for _ in weights:
        scores = allocate(16 * length * length)
        activations += [allocate(24 * 1024 * length), allocate(8 * 1024 * length)]
        free(scores)
    logits = allocate(64 * 1024 * length)
    for block in [*reversed(activations), logits]:
        free(block)
with open("run.pickle", "wb") as file:
    pickle.dump({"segments": [], "device_traces": [events]}, file)

# From here on, the file can be a snapshot of your own. The replay makes its requests again, under
# PyTorch's allocator as it is, with expandable segments, and under one that moves pages.
requests = planners.read_requests("run.pickle")
allocators = "pytorch-caching,pytorch-expandable,vpmm"
run = planners.run_online(requests, allocators, planners.OnlineTerms(has_series=True))
results = {row.label: row.result for row in run.rows if row.result is not None}
for label, result in results.items():
    reserved, live = result.reserved_peak // MIB, result.allocated_peak // MIB
    print(f"{label:18} {reserved} MiB reserved, {live} allocated: {result.fragmentation:.1%} lost")

# Where are the lost bytes? Look at the request that raised the reserved bytes to their peak.
caching = results["pytorch-caching"]
row = int(np.argmax(caching.reserved))
asked = requests.size[requests.request[row]]
is_live = (requests.allocation_rows < row) & (requests.completion_rows > row)
print(f"\nThe request of row {row} is for {asked / MIB:.1f} MiB. Segments of PyTorch's allocator:")
print("segment    MiB   idle   largest hole")
holes = []
for number, (_, start, size) in enumerate(caching.segments[caching.segments[:, 0] < row]):
    inside = is_live & (caching.addresses >= start) & (caching.addresses < start + size)
    blocks = sorted(zip(caching.addresses[inside], requests.size[inside], strict=True))
    edges = [start, *(edge for at, bytes_ in blocks for edge in (at, at + bytes_)), start + size]
    gaps = np.array(edges[1::2]) - np.array(edges[::2])
    holes += list(gaps)
    print(f"{number:7} {size / MIB:6.1f} {gaps.sum() / MIB:6.1f} {gaps.max() / MIB:14.1f}")
print(
    f"{sum(holes) / MIB:.1f} MiB are idle, but no hole has more than {max(holes) / MIB:.1f} MiB. "
    f"So the allocator takes a new segment."
)
