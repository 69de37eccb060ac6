"""Kernels and a trace, made by hand."""

from __future__ import annotations

from typing import Any

from instances.extract.kernels.storages import Kernel, StepPhase, Trace, TracedOp

FORWARD, BACKWARD, OPTIMIZER = StepPhase.FORWARD, StepPhase.BACKWARD, StepPhase.OPTIMIZER


def tiny_trace(**changes: Any) -> Trace:
    r"""One weight, updated by its gradient.

    x -- mul ---- h -- t (a view) -- exp_ (in place) -- sum -- loss
          |                                                |
    w ----+------------- dw = grad ------------------------+
          \--- w' = sub(w, dw), which becomes w
    """
    x, w, h, loss, dw, new_w = range(6)
    fields: dict[str, Any] = {
        "ops": (
            TracedOp("mul", "mul", FORWARD, (x, w), (), (h,)),
            TracedOp("t", "t", FORWARD, (h,), (), (h,)),
            TracedOp("exp_", "exp_", FORWARD, (h,), (h,), (h,)),
            TracedOp("sum", "sum", FORWARD, (h,), (), (loss,)),
            TracedOp("grad", "mm", BACKWARD, (h, w), (), (dw,)),
            TracedOp("sub", "sub", OPTIMIZER, (w, dw), (), (new_w,)),
        ),
        "size": (40, 8, 40, 4, 8, 8),
        "name": ("x", "w", "h", "loss", "grad w", "sub"),
        "batch": (x,),
        "persistent": frozenset({w}),
        "updates": {new_w: w},
        "gradients": (dw,),
        "returned": (loss,),
    }
    return Trace(**{**fields, **changes})


def backward_of(*gradients: int) -> list[Kernel]:
    return [Kernel("mm", BACKWARD, creates=(gradient,)) for gradient in gradients]
