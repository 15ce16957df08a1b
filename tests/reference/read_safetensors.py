#!/usr/bin/env python3
"""Reads a safetensors file with nothing but Python, and prints name, bytes, first and last byte of every tensor."""
import json
import math
import struct
import sys

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1}

with open(sys.argv[1], "rb") as file:
    content = file.read()
(length,) = struct.unpack("<Q", content[:8])
assert length % 8 == 0, "the header is not padded"
header = json.loads(content[8 : 8 + length].decode("utf-8"))
header.pop("__metadata__", None)
data = content[8 + length :]
end = 0
for name, tensor in header.items():
    first, last = tensor["data_offsets"]
    assert first == end, "a hole before " + name
    assert last - first == SIZES[tensor["dtype"]] * math.prod(tensor["shape"]), name
    values = data[first:last]
    print(name, len(values), values[0] if values else 0, values[-1] if values else 0)
    end = last
assert end == len(data), "bytes after the last tensor"
