#!/usr/bin/env python3
"""Writes the small graphs of test_onnx.c: one for each operator or pattern that the exports do not show, and one
for each kind of mistake. What operators of one or two nodes become, or why they are refused, is in cases.txt.

    python3 generate.py          writes *.onnx and cases.txt beside this script

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


def make(name, nodes, inputs, initializers=(), output="y", opset=13, producer=""):
    graph = helper.make_graph(nodes, name, inputs, [tensor(output)], list(initializers))
    graph.output[0].type.tensor_type.ClearField("shape")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name=producer)
    return model.SerializeToString()


def write(name, *graph, **options):
    (HERE / f"{name}.onnx").write_bytes(make(name, *graph, **options))


def lenet():
    nodes = [
        node("Conv", ["x", "conv1.weight", "conv1.bias"], "a", kernel_shape=[5, 5], auto_pad=b"SAME_UPPER"),
        node("Tanh", ["a"], "b"),
        node("AveragePool", ["b"], "c", kernel_shape=[2, 2], strides=[2, 2]),
        node("LeakyRelu", ["c"], "d", alpha=0.1),
        node("LRN", ["d"], "e", size=3, alpha=0.001, beta=0.5, bias=2.0),
        node("Pad", ["e", "pads", "lowest"], "f"),
        node("MaxPool", ["f"], "g", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        node("Flatten", ["g"], "h"),
        node("Gemm", ["h", "fc.weight", "fc.bias"], "i", transB=1),
        node("Softmax", ["i"], "y"),
    ]
    # Weights as inputs of the graph, as files without initializers have them.
    inputs = [tensor("x", "N", 1, 28, 28), tensor("conv1.weight", 6, 1, 5, 5), tensor("conv1.bias", 6),
              tensor("fc.weight", 10, 6 * 8 * 8), tensor("fc.bias", 10)]
    write("lenet", nodes, inputs, [ints("pads", 0, 0, 1, 1, 0, 0, 1, 1), number("lowest", -numpy.inf)])


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
    write("bad_activation", [node("Erf", ["x"], "a"), node("Conv", ["a", "w"], "y")], x, w)
    write("bad_padding", [node("Pad", ["x", "p"], "a"), node("Relu", ["a"], "y")], x,
          [ints("p", 0, 0, 1, 1, 0, 0, 1, 1)])
    write("bad_output", [node("Conv", ["x", "w"], "z")], x, w)
    write("bad_twice", [node("Conv", ["x", "w"], "y"), node("Relu", ["x"], "y")], x, w)
    scaled = [node("Conv", ["x", "w"], "a"), node("Mul", ["a", "c"], "b"),
              node("MaxPool", ["b"], "y", kernel_shape=[2, 2])]
    write("bad_scale", scaled, x, w + [number("c", 3.0)])


class Cases:
    """Lines NAME|OUTCOME|TEXT|FILE: of what is read (ok) the model file contains the text, as it does not (no); of
    what is refused the message contains it, and of what is warned about a remark. The file is in hexadecimal."""

    def __init__(self):
        self.lines = []

    def add(self, name, outcome, text, nodes, inputs=None, weights=(), **options):
        if inputs is None:
            inputs = [tensor("x", 1, 3, 8, 8)]
        data = make(name, nodes, inputs, weights, **options)
        self.lines.append(f"{name}|{outcome}|{text}|{data.hex()}")

    def one(self, name, outcome, text, op, weights=(), inputs=None, opset=13, **attributes):
        """One node that reads x and the weights."""
        self.add(name, outcome, text, [node(op, ["x"] + [w.name for w in weights], "y", **attributes)], inputs, weights,
                 opset=opset)


def window_cases(c):
    w, up = weight("w", 4, 3, 3, 3), weight("w", 3, 4, 3, 3)
    small = [tensor("x", 1, 3, 3, 3)]
    c.one("transposed same upper", "ok", "kernel: [3, 3], stride: [2, 2], pad_high: [1, 1], bias: false",
          "ConvTranspose", [up], small, auto_pad="SAME_UPPER", strides=[2, 2])
    c.one("transposed same lower", "ok", "pad: [1, 1], pad_high: [0, 0]", "ConvTranspose", [up], small, auto_pad="SAME_LOWER",
          strides=[2, 2])
    c.one("transposed output shape", "ok", "pad: [1, 1], pad_high: [0, 0]", "ConvTranspose", [up], small, strides=[2, 2],
          output_shape=[6, 6])
    c.one("transposed output shape before 11", "ok", "stride: [2, 2], pad_high: [1, 1]", "ConvTranspose", [up], small,
          strides=[2, 2], output_shape=[6, 6], opset=10)
    c.one("transposed output padding", "ok", "pad: [1, 1], pad_high: [0, 0]", "ConvTranspose", [up], small, strides=[2, 2],
          pads=[1, 1, 1, 1], output_padding=[1, 1])
    c.one("transposed too large", "refused", "an output of 9 positions needs negative padding", "ConvTranspose", [up],
          small, strides=[2, 2], output_shape=[9, 9])
    c.one("transposed unknown attribute", "refused", "the attribute flip is not supported", "ConvTranspose", [up],
          flip=1)
    c.one("wrong type", "refused", "the attribute group has a wrong type", "Conv", [w], group=1.0)
    c.one("unknown auto_pad", "refused", "auto_pad SAME is not supported", "Conv", [w], auto_pad="SAME")
    c.one("valid", "no", "pad", "Conv", [w], auto_pad="VALID", pads=[1, 1, 1, 1])
    c.one("kernel shape", "refused", "kernel_shape says 5, the kernel has 3", "Conv", [w], kernel_shape=[5, 5])
    c.one("bias", "refused", "a bias of 3 elements for 4 channels", "Conv", [w, weight("b", 3)])
    c.one("asymmetric pads", "ok", "kernel: [3, 3], pad: [1, 0], pad_high: [0, 2]", "Conv", [w], pads=[1, 0, 0, 2])
    padded = [node("Pad", ["x", "p"], "a"), node("Conv", ["a", "w"], "y", auto_pad="SAME_UPPER", strides=[2, 2])]
    c.add("same after pad", "ok", "stride: [2, 2], pad: [2, 0], pad_high: [1, 1]", padded, None,
          [ints("p", 0, 0, 1, 0, 0, 0, 0, 0), w])
    fill = [node("Pad", ["x", "p", "v"], "a"), node("Conv", ["a", "w"], "y")]
    pads = ints("p", 0, 0, 1, 1, 0, 0, 1, 1)
    c.add("pad value", "refused", "the padding in front is filled with 3; only 0", fill, None,
          [pads, number("v", 3.0), w])
    c.add("pad mode", "refused", "padding by reflect; only constant", [node("Pad", ["x", "p"], "y", mode="reflect")],
          None, [pads])
    axes = [node("Pad", ["x", "p", "", "axes"], "a"), node("Conv", ["a", "w"], "y")]
    c.add("pad axes", "ok", "kernel: [3, 3], pad: [0, 1], pad_high: [0, 2]", axes, None,
          [ints("p", 1, 2), ints("axes", -1), w], opset=18)
    old = [node("Pad", ["x"], "a", paddings=[0, 0, 1, 1, 0, 0, 1, 1]), node("Conv", ["a", "w"], "y")]
    c.add("pad of operator set 1", "ok", "kernel: [3, 3], pad: [1, 1]", old, None, [w], opset=1)
    largest = [node("Pad", ["x", "p"], "a"), node("MaxPool", ["a"], "y", kernel_shape=[3, 3])]
    c.add("zeros before a maximum", "refused", "filled with 0, which may be the maximum", largest, None, [pads])
    c.add("zeros behind relu", "ok", "kernel: [3, 3], stride: [1, 1], pad: [1, 1]}",
          [node("Relu", ["x"], "r"), node("Pad", ["r", "p"], "a")] + largest[1:], None, [pads])
    c.one("ceil", "ok", "kernel: [3, 3], stride: [2, 2], pad_high: [1, 1]}", "AveragePool", kernel_shape=[3, 3],
          strides=[2, 2], ceil_mode=1)
    c.one("ceil that counts", "refused", "ceil_mode with padding that counts", "AveragePool", kernel_shape=[3, 3],
          strides=[2, 2], ceil_mode=1, count_include_pad=1)
    c.one("count pads", "ok", "pad: [1, 1], count_padding: true", "AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1],
          count_include_pad=1)
    c.one("dilated average", "refused", "dilated average pooling", "AveragePool", kernel_shape=[3, 3],
          dilations=[2, 2], opset=19)
    c.one("dilated maximum", "ok", "dilation: [2, 2]", "MaxPool", kernel_shape=[3, 3], dilations=[2, 2])
    mixed = [node("Pad", ["x", "p"], "a"), node("AveragePool", ["a"], "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1])]
    c.add("two paddings", "refused", "padding that counts and padding that does not", mixed, None, [pads])
    indices = [node("MaxPool", ["x"], ["a", "i"], kernel_shape=[2, 2]), node("Relu", ["i"], "y")]
    c.add("indices", "refused", "its result 2 (i) is used", indices)


def resize_cases(c):
    def resize(name, outcome, text, scales=(1, 1, 2, 2), sizes=(), opset=13, size=8, **attributes):
        weights = [number("roi", []), number("scales", list(scales))] + ([ints("sizes", *sizes)] if sizes else [])
        c.one(name, outcome, text, "Resize", weights, [tensor("x", 1, 3, size, size)], opset, **attributes)

    how = "coordinate_transformation_mode"
    resize("resize by default", "ok", "factor: [2, 2]}")
    resize("resize asymmetric", "ok", "factor: [2, 2]}", **{how: "asymmetric", "nearest_mode": "floor"})
    resize("resize linear", "ok", "factor: [2, 2], bilinear: true", mode="linear")
    resize("resize pytorch", "ok", "bilinear: true", mode="linear", **{how: "pytorch_half_pixel"})
    resize("resize sizes", "ok", "size: [12, 12], bilinear: true", (), (1, 3, 12, 12), mode="linear")
    resize("resize third", "ok", "size: [8, 8]}", (1, 1, 1.3333334, 1.3333334), size=6,
           **{how: "asymmetric", "nearest_mode": "floor"})
    resize("resize ceil", "refused", "coordinate_transformation_mode asymmetric and nearest_mode ceil",
           **{how: "asymmetric", "nearest_mode": "ceil"})
    resize("resize corners", "refused", "mode linear with coordinate_transformation_mode align_corners from 8 to 16",
           mode="linear", **{how: "align_corners"})
    resize("resize asymmetric linear", "refused", "mode linear with coordinate_transformation_mode asymmetric",
           mode="linear", **{how: "asymmetric"})
    resize("resize crop", "refused", "coordinate_transformation_mode tf_crop_and_resize is not supported",
           **{how: "tf_crop_and_resize"})
    resize("resize cubic", "refused", "mode cubic is not supported", mode="cubic")
    resize("resize unknown rounding", "refused", "nearest_mode up is not supported", nearest_mode="up")
    resize("resize aspect", "refused", "keep_aspect_ratio_policy not_larger is not supported", (), (1, 3, 12, 12),
           opset=18, keep_aspect_ratio_policy="not_larger")
    resize("resize antialias", "refused", "antialias 1 is not supported", (1, 1, 0.5, 0.5), opset=18, mode="linear",
           antialias=1)
    resize("resize axes", "ok", "factor: [2, 1]}", (2,), opset=18, axes=[2])
    resize("resize channels", "refused", "only space can be resized", (1, 2, 2, 2))
    x = [tensor("x", 1, 3, 8, 8)]
    c.add("upsample 1", "ok", "factor: [2, 3]}",
          [node("Upsample", ["x"], "y", height_scale=2.0, width_scale=3.0, mode="nearest")], x, opset=1)
    c.add("upsample 7", "ok", "factor: [2, 2]}", [node("Upsample", ["x"], "y", scales=[1.0, 1.0, 2.0, 2.0])], x,
          opset=7)
    c.add("upsample linear", "refused", "mode linear with coordinate_transformation_mode asymmetric",
          [node("Upsample", ["x"], "y", scales=[1.0, 1.0, 2.0, 2.0], mode="linear")], x, opset=7)


def linear_cases(c):
    x, w = [tensor("x", 2, 6)], weight("w", 6, 4)
    c.one("row as C", "ok", 'name: "w", out: 4}', "Gemm", [w, weight("c", 1, 4)], x)
    c.one("matrix as C", "refused", "operand C has 8 elements for 4 columns", "Gemm", [w, weight("c", 2, 4)], x)
    c.one("column as C", "refused", "operand C has 2 elements for 4 columns", "Gemm", [w, weight("c", 2, 1)], x)
    c.one("column of as many rows", "refused", "operand C has 6 elements for 6 columns", "Gemm",
          [weight("w", 6, 6), weight("c", 6, 1)], [tensor("x", 6, 6)])
    c.one("alpha", "refused", "alpha 0.5 is not supported", "Gemm", [w], x, alpha=0.5)
    c.one("beta", "refused", "beta 2 is not supported", "Gemm", [w, weight("c", 4)], x, beta=2.0)
    c.one("beta zero", "ok", "out: 4, bias: false", "Gemm", [w, weight("c", 4)], x, beta=0.0)
    c.one("transposed A", "refused", "only products of an activation with weights", "Gemm", [w], x, transA=1)
    c.one("gemm of operator set 1", "ok", 'name: "w", out: 4}', "Gemm", [w, weight("c", 4)], x, 1, broadcast=1)
    c.add("concat axis", "refused", "the attribute axis is missing", [node("Concat", ["x", "x"], "y")], x)
    c.add("concat of operator set 1", "ok", "concat", [node("Concat", ["x", "x"], "y")], x,
          opset=1)
    turned = [node("Transpose", ["x"], "t", perm=[0, 1, 3, 2]), node("Concat", ["x", "t"], "y", axis=1)]
    c.add("concat of a transpose", "refused", "only whole channels of layers can be joined", turned)


def norm_cases(c):
    four = [weight(n, 3) for n in ("s", "b", "m", "v")]
    image = [tensor("x", 1, 4, 8, 8)]
    c.one("batch norm", "ok", "epsilon: 0.001, momentum: 0.2", "BatchNormalization", four,
          epsilon=0.001, momentum=0.8)
    c.one("batch norm of operator set 1", "ok", 'batch_norm: {name: "s"}', "BatchNormalization", four, opset=1,
          consumed_inputs=[0, 0, 0, 1, 1], is_test=1)
    c.one("batch norm of positions", "refused", "spatial 0: statistics of every position", "BatchNormalization", four,
          opset=7, spatial=0)
    c.one("batch norm of other channels", "refused", "scale or shift do not have the 3 channels", "BatchNormalization",
          four[:3] + [weight("v", 4)])
    c.one("layer norm axis", "refused", "only the last dimension can be normalized", "LayerNormalization",
          [weight("s", 5, 6), weight("b", 5, 6)], [tensor("x", 1, 5, 6)], 17, axis=1)
    c.one("layer norm results", "ok", "bias: false, epsilon: 0.01", "LayerNormalization",
          [weight("s", 6)], [tensor("x", 1, 5, 6)], 17, epsilon=0.01)
    c.one("group norm of groups", "refused", "before operator set 21 its scale is one of groups", "GroupNormalization",
          [weight("s", 2), weight("b", 2)], image, 18, num_groups=2)
    c.one("group norm", "ok", "groups: 2}", "GroupNormalization",
          [weight("s", 4), weight("b", 4)], image, 21, num_groups=2)
    groups = [node("Reshape", ["x", "to"], "a"), node("InstanceNormalization", ["a", "one", "zero"], "b"),
              node("Reshape", ["b", "back"], "c"), node("Mul", ["c", "s"], "d"), node("Add", ["d", "t"], "y")]
    sizes = [ints("to", 1, 2, -1), ints("back", 1, 4, 8, 8), weight("s", 4, 1, 1), weight("t", 4, 1, 1)]
    c.add("groups reshaped", "ok", "groups: 2", groups, image,
          sizes + [number("one", [1.0, 1.0]), number("zero", [0.0, 0.0])])
    c.add("scale of groups", "refused", "a scale and shift of groups", groups, image,
          sizes + [number("one", [1.0, 2.0]), number("zero", [0.0, 0.0])])
    c.one("even lrn", "refused", "size 4: windows of an even number", "LRN", size=4)
    head = [node("Conv", ["x", "w"], "a", kernel_shape=[1, 1])]
    w = [weight("w", 5, 3, 1, 1)]
    c.add("softmax over everything", "refused", "axis 1 means all dimensions from it on before operator set 13",
          head + [node("Softmax", ["a"], "y")], None, w, opset=12)
    c.add("softmax over channels", "ok", "cross_entropy", head + [node("Softmax", ["a"], "y", axis=1)], None, w)
    c.add("softmax over space", "refused", "a softmax over axis 2", head + [node("Softmax", ["a"], "y", axis=2)], None,
          w)
    c.add("softmax that is read", "ok", "softmax", head + [node("Softmax", ["a"], "p", axis=1), node("Conv", ["p", "v"],
          "y")], None, w + [weight("v", 2, 5, 1, 1)])
    c.add("softmax behind a sum", "ok", "cross_entropy", head + [node("Relu", ["a"], "b"), node("Add", ["a", "b"], "s"),
          node("Softmax", ["s"], "y", axis=1)], None, w)


def elementwise_cases(c):
    x, w = None, [weight("w", 4, 3, 3, 3)]
    conv = [node("Conv", ["x", "w"], "a")]
    c.add("relu6", "warned", "relu6 (1 times) is read as relu", conv + [node("Clip", ["a"], "y", min=0.0, max=6.0)], x,
          w, opset=6)
    c.add("clip far away", "refused", "no layer clips at 20",
          conv + [node("Clip", ["a", "low", "high"], "y")], x, w + [number("low", 0.0), number("high", 20.0)])
    c.add("min far away", "refused", "no layer clips at 20", conv + [node("Min", ["a", "high"], "y")], x,
          w + [number("high", 20.0)])
    c.add("slope", "ok", "slope: 0.3", conv + [node("LeakyRelu", ["a"], "y", alpha=0.3)], x, w)
    c.add("hard swish", "ok", "hard_swish", conv + [node("HardSwish", ["a"], "y")], x, w, opset=14)
    c.add("hard swish written out", "ok", "hard_swish",
          conv + [node("HardSigmoid", ["a"], "b", alpha=1 / 6, beta=0.5), node("Mul", ["a", "b"], "y")], x, w)
    c.add("exact gelu", "ok", "gelu", conv + [node("Gelu", ["a"], "y")], x, w, opset=20)
    c.add("gelu by tanh", "ok", "gelu_tanh",
          conv + [node("Gelu", ["a"], "y", approximate="tanh")], x, w, opset=20)
    c.add("data prepared", "warned", "Sub and Div on the input is left to the data set",
          [node("Sub", ["x", "mean"], "b"), node("Div", ["b", "spread"], "d"), node("Conv", ["d", "w"], "y")], x,
          w + [number("mean", 0.5), number("spread", 0.25)])
    c.add("input clipped", "refused", "this arithmetic is none of the activations known",
          [node("Min", ["x", "mean"], "d"), node("Conv", ["d", "w"], "y")], x, w + [number("mean", 0.5)])
    c.add("cast to integers", "refused", "activations become integers (type 6)",
          conv + [node("Cast", ["a"], "y", to=TensorProto.INT32)], x, w)
    c.add("cast to half", "ok", 'conv: {name: "w"', conv + [node("Cast", ["a"], "y", to=TensorProto.FLOAT16)], x, w)
    c.add("cast by name", "ok", 'conv: {name: "w"', conv + [node("Cast", ["a"], "y", to="DOUBLE")], x, w, opset=5)
    c.add("mean of all", "refused", "a mean over all dimensions", conv + [node("ReduceMean", ["a"], "y")], x, w)
    c.add("mean of none", "ok", 'conv: {name: "w"', conv + [node("ReduceMean", ["a"], "y", noop_with_empty_axes=1)], x, w,
          opset=18)
    c.add("mean of space", "ok", "global_avg_pool", conv + [node("ReduceMean", ["a"], "y", axes=[2, 3], keepdims=0)], x,
          w)
    c.add("dropout", "ok", "rate: 0.3", conv + [node("Dropout", ["a"], "y", ratio=0.3, is_test=1)], x, w, opset=1)
    c.add("three operands", "refused", "operand 3 is one more than are supported",
          conv + [node("Max", ["a", "a", "a"], "y")], x, w)
    c.add("uneven split", "refused", "4 elements cannot be split into 3 equal parts",
          conv + [node("Split", ["a"], ["y", "z", "q"], axis=1)], x, w)
    c.add("split short", "refused", "the parts do not sum to the whole",
          conv + [node("Split", ["a", "parts"], ["y", "z"], axis=1)], x, w + [ints("parts", 1, 2)])
    c.add("unsqueeze", "refused", "the axes are missing", conv + [node("Unsqueeze", ["a"], "y")], x, w)


def legacy_cases(c):
    x, w = None, [weight("w", 4, 3, 3, 3)]
    conv = [node("Conv", ["x", "w"], "a")]
    norm = [node("Reshape", ["a"], "b", shape=[1, 2, -1]), node("InstanceNormalization", ["b", "one", "zero"], "d"),
            node("Reshape", ["d"], "e", shape=[1, 4, 6, 6]), node("Mul", ["e", "s"], "y", broadcast=1, axis=1)]
    c.add("scale by axis", "ok", 'group_norm: {name: "s", groups: 2, bias: false}', conv + norm, x,
          w + [weight("s", 4), number("one", [1.0, 1.0]), number("zero", [0.0, 0.0])], opset=4)
    c.add("bias at the end", "refused", "no layer adds this constant",
          conv + [node("Add", ["a", "c"], "y", broadcast=1)], x, w + [weight("c", 6)], opset=6)
    c.add("no broadcast", "refused", "operands of different shape, and broadcast is not set",
          conv + [node("Add", ["a", "c"], "y")], x, w + [weight("c", 4)], opset=6)
    c.add("axis today", "refused", "the attribute axis is one of operator sets before 7",
          conv + [node("Add", ["a", "c"], "y", broadcast=1, axis=1)], x, w + [weight("c", 4)])
    gate = [node("GlobalAveragePool", ["a"], "g"), node("Reshape", ["g"], "r", shape=[1, 4]),
            node("Sigmoid", ["r"], "s")]
    c.add("channels by axis", "ok", "mul", conv + gate + [node("Mul", ["a", "s"], "y", broadcast=1, axis=0)], x, w,
          opset=3)
    c.add("channels misaligned", "refused", "the operands show different layers in different ways",
          conv + gate + [node("Mul", ["a", "s"], "y")], [tensor("x", 1, 3, 6, 6)], w)
    c.add("sum", "ok", "add", conv + [node("Relu", ["a"], "r"), node("Conv", ["r", "v"], "b"),
          node("Sum", ["a", "b"], "y")], x, w + [weight("v", 4, 4, 1, 1)], opset=5)
    c.add("operator set 0", "refused", "there is no operator set -1", conv[:0] + [node("Relu", ["x"], "y")], x,
          opset=-1)


def attention_cases(c):
    """One head of four channels over five tokens."""
    x = [tensor("x", 1, 5, 4)]
    weights = [weight(n, 4, 4) for n in ("wq", "wk", "wv")]

    def attention(name, outcome, text, nodes, constants):
        start = [node("MatMul", ["x", "wq"], "q"), node("MatMul", ["x", "wk"], "k"), node("MatMul", ["x", "wv"], "v"),
                 node("Transpose", ["k"], "kt", perm=[0, 2, 1]), node("MatMul", ["q", "kt"], "scores")]
        end = [node("Softmax", ["masked"], "p", axis=-1), node("MatMul", ["p", "v"], "y")]
        c.add(name, outcome, text, start + nodes + end, x, weights + constants)

    half = number("half", 0.5)
    lower = numpy.tril(numpy.ones((5, 5), dtype=numpy.float32))
    attention("attention", "ok", "heads: 1", [node("Mul", ["scores", "half"], "masked")],
              [half])
    attention("attention unscaled", "refused", "the scores of attention are multiplied by 1; only 1 / sqrt(4)",
              [node("Identity", ["scores"], "masked")], [])
    attention("attention to a power", "refused", "attention scores are used in a way",
              [node("Pow", ["scores", "half"], "masked")], [half])
    scaled = [node("Mul", ["scores", "half"], "s")]
    attention("attention hidden by a sum", "ok", "causal: true", scaled + [node("Add", ["s", "m"], "masked")],
              [half, number("m", (lower - 1) * 1e4)])
    attention("attention hidden by a difference", "ok", "causal: true", scaled + [node("Sub", ["s", "m"], "masked")],
              [half, number("m", (1 - lower) * 1e4)])
    where = scaled + [node("Where", ["m", "s", "low"], "masked")]
    hidden = numpy_helper.from_array(lower > 0, "m")
    attention("attention chosen", "ok", "causal: true", where, [half, hidden, number("low", -numpy.inf)])
    attention("attention the other way", "refused", "the mask of attention is neither causal nor without effect", where,
              [half, numpy_helper.from_array(lower == 0, "m"), number("low", -numpy.inf)])
    attention("attention not hidden", "refused", "scores of attention are replaced by 0", where,
              [half, hidden, number("low", 0.0)])
    attention("attention of a window", "refused", "the mask of attention is neither causal nor without effect",
              scaled + [node("Add", ["s", "m"], "masked")], [half, number("m", (numpy.triu(lower, -1) - 1) * 1e4)])
    attention("attention with a bias", "refused", "the mask of attention is neither causal nor without effect",
              scaled + [node("Add", ["s", "m"], "masked")], [half, number("m", lower)])


def folded_cases(c):
    """Whether a file was exported for inference shows in the names of the weights, or in the layers."""
    def network(name, outcome, text, names, residual=True, bias=True, producer="pytorch", count=8):
        nodes, weights, last = [], [], "x"
        for i in range(count):
            w, b = names(i)
            nodes.append(node("Conv", [last, w] + ([b] if bias else []), f"c{i}", pads=[1, 1, 1, 1]))
            weights += [weight(w, 3, 3, 3, 3)] + ([weight(b, 3)] if bias else [])
            nodes.append(node("Relu", [f"c{i}"], f"r{i}"))
            last = f"r{i}"
            if residual and i % 2:
                nodes.append(node("Add", [last, f"r{i - 1}"], f"s{i}"))
                last = f"s{i}"
        nodes.append(node("Relu", [last], "y"))
        c.add(name, outcome, text, nodes, None, weights, producer=producer)

    network("folded", "warned", "batch norms are folded into 8 of 8 convolutions",
            lambda i: (f"onnx::Conv_{2 * i}", f"onnx::Conv_{2 * i + 1}"))
    network("folded by an old exporter", "warned", "batch norms are folded into 1 of 1 convolutions",
            lambda i: (f"{2 * i + 10}", f"{2 * i + 11}"), count=1)
    network("folded by another", "warned", "was the file exported for inference?",
            lambda i: (f"kernel{i}/fused", f"shift{i}/fused"), producer="tf2onnx")
    network("never normalised", "quiet", "", lambda i: (f"body.{i}.weight", f"body.{i}.bias"))
    network("plain as VGG", "quiet", "", lambda i: (f"k{i}", f"s{i}"), residual=False, producer="tf2onnx")
    network("without biases", "quiet", "", lambda i: (f"k{i}", ""), bias=False, producer="tf2onnx")


def cases():
    c = Cases()
    for part in (window_cases, resize_cases, linear_cases, norm_cases, elementwise_cases, legacy_cases, attention_cases,
                 folded_cases):
        part(c)
    (HERE / "cases.txt").write_text("\n".join(c.lines) + "\n")


if __name__ == "__main__":
    cases()
    lenet()
    squeeze_excite()
    rms_norm()
    shapes()
    mistakes()
