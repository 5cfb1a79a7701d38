"""Reads a policy as other people's tools do: onnx.checker, and Python's ONNX Runtime row by row and in one batch.

Arguments: the policy file. Standard input: a JSON list of observations. Standard output: one JSON object.
"""

import json
import sys

import numpy
import onnx
import onnxruntime

path = sys.argv[1]
obs = numpy.array(json.load(sys.stdin), dtype=numpy.float32)

model = onnx.load(path)
onnx.checker.check_model(model, full_check=True)

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
rows = [session.run(None, {"obs": row[None, :]})[0][0] for row in obs]

json.dump(
    {
        "opset": [(o.domain, o.version) for o in model.opset_import],
        "inputs": [(t.name, t.type, t.shape) for t in session.get_inputs()],
        "outputs": [(t.name, t.type, t.shape) for t in session.get_outputs()],
        "nodes": [n.op_type for n in model.graph.node],
        "metadata": session.get_modelmeta().custom_metadata_map,
        "rows": numpy.array(rows).tolist(),
        "batch": session.run(["actions"], {"obs": obs})[0].tolist(),
    },
    sys.stdout,
)
