"""Files with weights, written and read without libraries: safetensors, and ONNX as far as the tests need it."""
import json
import random
import struct


def read(path):
    """{name: (shape, list of floats)} of a safetensors file."""
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + at for at in entry["data_offsets"])
        assert entry["dtype"] == "F32", entry
        tensors[name] = (entry["shape"], list(struct.unpack("<%df" % ((end - begin) // 4), data[begin:end])))
    return tensors


def write(path, tensors):
    header, body = {}, b""
    for name, (shape, values) in tensors.items():
        values = struct.pack("<%df" % len(values), *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
        body += values
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    open(path, "wb").write(struct.pack("<Q", len(header)) + header + body)


def transpose(tensor):
    (rows, columns), values = tensor
    return [columns, rows], [values[r * columns + c] for c in range(columns) for r in range(rows)]


def drawn(*shape):
    count = 1
    for extent in shape:
        count *= extent
    values = [random.uniform(-1, 1) for _ in range(count)]
    return list(shape), list(struct.unpack("<%df" % count, struct.pack("<%df" % count, *values)))


# ---- ONNX: the wire format of protocol buffers, field by field ----
def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    value = value if isinstance(value, bytes) else value.encode()
    return varint(field << 3 | 2) + varint(len(value)) + value


def attribute(name, value):
    if isinstance(value, list):
        return text(5, text(1, name) + b"".join(number(8, v) for v in value) + number(20, 7))
    return text(5, text(1, name) + number(3, value) + number(20, 2))


def node(op, inputs, output, **attributes):
    body = b"".join(text(1, i) for i in inputs) + text(2, output) + text(3, "node_" + output) + text(4, op)
    return text(1, body + b"".join(attribute(name, value) for name, value in attributes.items()))


def initializer(name, tensor, outside=None):
    shape, values = tensor
    body = b"".join(number(1, extent) for extent in shape) + number(2, 1) + text(8, name)
    if outside is None:
        return text(5, body + text(9, struct.pack("<%df" % len(values), *values)))
    for key, value in outside.items():
        body += text(13, text(1, key) + text(2, str(value)))
    return text(5, body + number(14, 1))


def value(field, name, shape):
    dims = b"".join(text(1, number(1, extent)) for extent in shape)
    return text(field, text(1, name) + text(2, text(1, number(1, 1) + text(2, dims))))


def write_onnx(path, nodes, initializers, shape, output):
    graph = b"".join(nodes) + text(2, "net") + b"".join(initializers) + value(11, "x", shape) + value(12, "y", output)
    open(path, "wb").write(number(1, 8) + text(7, graph) + text(8, text(1, "") + number(2, 17)))
