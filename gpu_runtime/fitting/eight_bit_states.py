"""A trace as if its optimizer kept its states in 8 bits, as bitsandbytes' ``AdamW8bit`` does.

Note: which blocks change
-------------------------
Approach. A state with an element for each of its parameter's takes one byte for each, and one scale
in float32 for each block of elements. States of few elements stay in 32 bits. The kernel updates
in place, so what PyTorch's optimizer allocates for an update is left out. The sizes are those of
``bitsandbytes.optim.optimizer`` 0.44 and later: ``min_8bit_size`` and the block size.

Limits. The two tables that its kernel looks values up in, of 1 KiB each, are left out.
"""

from __future__ import annotations

import numpy as np

from instances.traces.allocation_trace import AllocationTrace, Role

LEAST_ELEMENTS = 4096
BLOCK_ELEMENTS = 256
FLOAT32_BYTES = 4


def with_eight_bit_states(trace: AllocationTrace) -> AllocationTrace:
    """Return the requests that the same steps would make with states in 8 bits."""
    kept = np.flatnonzero(trace.role != Role.UPDATE)
    width = trace.element_bytes[kept]
    elements = trace.size[kept] // np.maximum(width, 1)
    is_small, is_wide = elements < LEAST_ELEMENTS, width > 1
    narrow = np.where(is_small, FLOAT32_BYTES * elements, elements)
    sizes = np.where(is_wide, narrow, trace.size[kept])
    # The scales of a state live as long as the state does.
    scaled = np.flatnonzero(is_wide & ~is_small)
    scales = FLOAT32_BYTES * -(-elements[scaled] // BLOCK_ELEMENTS)
    return trace.of_requests(
        np.insert(kept, scaled + 1, kept[scaled]), np.insert(sizes, scaled + 1, scales)
    )
