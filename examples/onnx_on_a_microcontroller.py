"""Plan an ONNX model for a microcontroller: does it fit, and where does each tensor lie?

The model classifies grey images of 96 x 96 pixels. The microcontroller has 160 KiB for tensors;
the weights stay in its flash memory.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import planners
from instances.formats.c_header import write_c_header

MEMORY = 160 * 1024

# Name of a convolution, what it reads, channels in and out, stride. A block has two branches,
# which a concatenation joins.
CONVOLUTIONS = [
    ("stem", "image", 1, 8, 2),
    ("short1", "stem", 8, 4, 2),
    ("wide1", "stem", 8, 8, 1),
    ("long1", "wide1", 8, 24, 2),
    ("short2", "joined1", 28, 6, 1),
    ("wide2", "joined1", 28, 24, 1),
    ("long2", "wide2", 24, 8, 1),
]
JOINS = {"long1": ("short1", "joined1"), "long2": ("short2", "joined2")}

nodes: list[onnx.NodeProto] = []
weights: list[onnx.TensorProto] = []
for name, read, channels, made, stride in CONVOLUTIONS:
    kernel = np.zeros((made, channels, 3, 3), np.float32)
    weights.append(numpy_helper.from_array(kernel, f"{name}.weight"))
    settings = {"pads": [1] * 4, "strides": [stride] * 2}
    nodes.append(helper.make_node("Conv", [read, f"{name}.weight"], [name], **settings))
    if name in JOINS:
        other, joined = JOINS[name]
        nodes.append(helper.make_node("Concat", [other, name], [joined], axis=1))
nodes.append(helper.make_node("GlobalAveragePool", ["joined2"], ["scores"]))
image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 96, 96])
scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)
model = helper.make_model(helper.make_graph(nodes, "classifier", [image], [scores], weights))

with TemporaryDirectory() as folder:
    onnx.save(model, f"{folder}/classifier.onnx")
    problem = planners.read_problem(f"{folder}/classifier.onnx").with_capacity(MEMORY)
    for planner in ("naive", "greedy-size-first", "greedy-breadth-first", "auto"):
        result = planners.run(problem, planner)
        print(f"{planner:21} {result.status.value:14} {result.peak:8,} bytes")

    # The last result is the best one. Firmware gets its offsets as a C header.
    header = Path(folder, "classifier.h")
    write_c_header(problem, result, header)
    print(header.read_text(encoding="ascii"))
