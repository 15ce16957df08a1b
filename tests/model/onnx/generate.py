#!/usr/bin/env python3
"""Writes the small graphs of test_onnx.c: one for each operator or pattern that the exports do not show, and one
for each kind of mistake.

    python3 generate.py          writes *.onnx beside this script

Weights have shapes only: they are declared as external data, or as inputs of the graph.
"""
import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent


def weight(name, *dims):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)
    tensor.data_location = TensorProto.EXTERNAL
    return tensor


def ints(name, *values):
    return numpy_helper.from_array(numpy.array(values, dtype=numpy.int64), name)


def number(name, value):
    return numpy_helper.from_array(numpy.array(value, dtype=numpy.float32), name)


def tensor(name, *dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def node(op, inputs, output, **attributes):
    outputs = output if isinstance(output, list) else [output]
    return helper.make_node(op, inputs, outputs, name=f"{op.lower()}_{outputs[0]}", **attributes)


def write(name, nodes, inputs, initializers=(), output="y", opset=13):
    graph = helper.make_graph(nodes, name, inputs, [tensor(output)], list(initializers))
    graph.output[0].type.tensor_type.ClearField("shape")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="")
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())


def lenet():
    nodes = [
        node("Conv", ["x", "conv1.weight", "conv1.bias"], "a", kernel_shape=[5, 5], auto_pad=b"SAME_UPPER"),
        node("Tanh", ["a"], "b"),
        node("AveragePool", ["b"], "c", kernel_shape=[2, 2], strides=[2, 2]),
        node("LeakyRelu", ["c"], "d", alpha=0.1),
        node("LRN", ["d"], "e", size=3, alpha=0.001, beta=0.5, bias=2.0),
        node("Pad", ["e", "pads"], "f"),
        node("MaxPool", ["f"], "g", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        node("Flatten", ["g"], "h"),
        node("Gemm", ["h", "fc.weight", "fc.bias"], "i", transB=1),
        node("Softmax", ["i"], "y"),
    ]
    # Weights as inputs of the graph, as files without initializers have them.
    inputs = [tensor("x", "N", 1, 28, 28), tensor("conv1.weight", 6, 1, 5, 5), tensor("conv1.bias", 6),
              tensor("fc.weight", 10, 6 * 8 * 8), tensor("fc.bias", 10)]
    write("lenet", nodes, inputs, [ints("pads", 0, 0, 1, 1, 0, 0, 1, 1)])


def squeeze_excite():
    nodes = [
        node("Conv", ["x", "conv.weight"], "a"),
        node("Sigmoid", ["a"], "s"),
        node("Mul", ["a", "s"], "b"),
        node("ReduceMean", ["b"], "c", axes=[2, 3], keepdims=1),
        node("Conv", ["c", "reduce.weight", "reduce.bias"], "d"),
        node("Relu", ["d"], "e"),
        node("Conv", ["e", "expand.weight", "expand.bias"], "f"),
        node("Sigmoid", ["f"], "g"),
        node("Mul", ["g", "b"], "h"),
        node("Concat", ["h", "b"], "i", axis=1),
        node("ConvTranspose", ["i", "up.weight"], "y", strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1]),
    ]
    weights = [weight("conv.weight", 8, 4, 1, 1), weight("reduce.weight", 2, 8, 1, 1), weight("reduce.bias", 2),
               weight("expand.weight", 8, 2, 1, 1), weight("expand.bias", 8), weight("up.weight", 16, 4, 3, 3)]
    write("squeeze_excite", nodes, [tensor("x", 1, 4, 12, 12)], weights)


def rms_norm():
    """x / sqrt(mean(x^2) + epsilon) * weight, then a product without bias, then log softmax."""
    nodes = [
        node("Mul", ["x", "x"], "a"),
        node("ReduceMean", ["a"], "b", axes=[-1], keepdims=1),
        node("Add", ["b", "eps"], "c"),
        node("Sqrt", ["c"], "d"),
        node("Reciprocal", ["d"], "e"),
        node("Mul", ["x", "e"], "f"),
        node("Mul", ["norm.weight", "f"], "g"),
        node("Transpose", ["head.weight"], "w", perm=[1, 0]),
        node("MatMul", ["g", "w"], "h"),
        node("LogSoftmax", ["h"], "y", axis=-1),
    ]
    weights = [number("eps", 1e-6), weight("norm.weight", 32), weight("head.weight", 10, 32)]
    write("rms_norm", nodes, [tensor("x", "N", 7, 32)], weights)


def shapes():
    """Integer arithmetic on shapes: Shape, Gather, Mul, Concat, Cast, Slice, Range and friends fold away."""
    nodes = [
        node("Shape", ["x"], "s"),
        node("Gather", ["s", "i0"], "n"),
        node("Slice", ["s", "one", "four"], "rest"),
        node("ReduceProd", ["rest"], "p", keepdims=1),
        node("Cast", ["p"], "pf", to=TensorProto.FLOAT),
        node("Div", ["pf", "half"], "q"),
        node("Floor", ["q"], "qf"),
        node("Cast", ["qf"], "qi", to=TensorProto.INT64),
        node("Mul", ["qi", "two"], "back"),
        node("Unsqueeze", ["n", "axis"], "n1"),
        node("Concat", ["n1", "back"], "to", axis=0),
        node("Equal", ["to", "to"], "same"),
        node("Where", ["same", "to", "two"], "shape"),
        node("Reshape", ["x", "shape"], "flat"),
        node("Identity", ["flat"], "same_flat"),
        node("MatMul", ["same_flat", "fc.weight"], "h"),
        node("Add", ["h", "fc.bias"], "y"),
    ]
    constants = [numpy_helper.from_array(numpy.array(0, dtype=numpy.int64), "i0"), ints("one", 1), ints("four", 4),
                 ints("two", 2), ints("axis", 0), number("half", 2.0), weight("fc.weight", 48, 5),
                 weight("fc.bias", 5)]
    write("shapes", nodes, [tensor("x", "N", 3, 4, 4)], constants)


def mistakes():
    x, w = [tensor("x", 1, 3, 8, 8)], [weight("w", 4, 3, 3, 3)]
    write("bad_operator", [node("Conv", ["x", "w"], "a"), node("NonMaxSuppression", ["a"], "y")], x, w)
    write("bad_dynamic", [node("Conv", ["x", "w"], "y")], [tensor("x", "N", 3, "height", 8)], w)
    write("bad_operand", [node("Conv", ["x", "lost"], "y")], x)
    write("bad_channels", [node("Conv", ["x", "w"], "y")], x, [weight("w", 4, 5, 3, 3)])
    write("bad_window", [node("Conv", ["x", "w"], "y")], x, [weight("w", 4, 3, 9, 9)])
    write("bad_input", [node("Conv", ["x", "w"], "a"), node("Conv", ["z", "w"], "b"), node("Add", ["a", "b"], "y")],
          x + [tensor("z", 1, 3, 8, 8)], w)
    write("bad_activation", [node("HardSwish", ["x"], "a"), node("Conv", ["a", "w"], "y")], x, w, opset=14)
    write("bad_padding", [node("Pad", ["x", "p"], "a"), node("Relu", ["a"], "y")], x,
          [ints("p", 0, 0, 1, 1, 0, 0, 1, 1)])
    write("bad_opset", [node("Conv", ["x", "w"], "y")], x, w, opset=5)
    write("bad_output", [node("Conv", ["x", "w"], "z")], x, w)
    write("bad_twice", [node("Conv", ["x", "w"], "y"), node("Relu", ["x"], "y")], x, w)
    scaled = [node("Conv", ["x", "w"], "a"), node("Mul", ["a", "c"], "b"),
              node("MaxPool", ["b"], "y", kernel_shape=[2, 2])]
    write("bad_scale", scaled, x, w + [number("c", 3.0)])


if __name__ == "__main__":
    lenet()
    squeeze_excite()
    rms_norm()
    shapes()
    mistakes()
