"""What a row of a sequence of requests tells of."""

from __future__ import annotations

import enum

# In no phase and in no module.
NOWHERE = -1


class RequestAction(enum.IntEnum):
    """What a row of a sequence tells of."""

    ALLOCATE = 0
    # Another stream may still be at work in the block.
    FREE_REQUESTED = 1
    # The block is free, whether that was requested before or is now.
    FREE_COMPLETED = 2
    # Idle memory went back to the device, because the program wanted it or memory was short.
    GIVE_BACK = 3
