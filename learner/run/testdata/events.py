"""Prints what TensorBoard's own reader finds in a folder, as JSON: {"tag": [[step, value], ...], ...}. NaN is printed as such."""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

reader = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
reader.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}))
