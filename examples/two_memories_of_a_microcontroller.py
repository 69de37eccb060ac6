"""Plan an ONNX model for two memories of a microcontroller: which tensors lie in the fast one?

The model classifies grey images of 96 x 96 pixels. The microcontroller has a small fast memory and
a large slow one, into which the camera writes; the weights stay in its flash memory. Two arenas of
TensorFlow Lite Micro are this problem, and so is the limit of scratch memory for an Ethos-U.
"""

from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import planners
from planners import Memory

# Addresses and bytes, as in the manual of the microcontroller.
FAST = Memory("fast", begin=0x20000000, capacity=128 * 1024)
SLOW = Memory("slow", begin=0x24000000, capacity=512 * 1024)

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
    problem = planners.read_problem(f"{folder}/classifier.onnx")
names, sizes, graph = problem.tensor_name, problem.size.tolist(), problem.graph
assert names is not None
assert graph is not None

alone = planners.run(problem.with_capacity(FAST.capacity), "auto")
print(f"the fast memory alone: {alone.status.value}, at least {alone.lower_bound:,} bytes")

# Each write and each read of a byte in the slow memory costs 1.
places = []
for tensor, size in enumerate(sizes):
    if names[tensor] != "image":
        places.append((tensor, 0, 0))
    places.append((tensor, 1, size * (1 + len(graph.consumers_of(tensor)))))
both = problem.select(range(problem.tensor_count), memories=[FAST, SLOW], places=places)
result = planners.run(both, "auto")
assert result.plan is not None, result.reason
print(f"both memories: {result.cost:,} bytes are written to the slow one or read from it")
for tensor, offset in enumerate(result.plan.offsets.tolist()):
    where = FAST if offset < FAST.end else SLOW
    print(f"{names[tensor]:8} {sizes[tensor]:8,} bytes  {where.name}")
