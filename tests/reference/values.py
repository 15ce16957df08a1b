"""The values that inputs and weights are filled with, as in tests/tensor/op_value.h and README.md."""
import numpy as np
import torch


def hashed(start, count):
    """`count` values in [-1, 1), multiples of 2^-23, from consecutive 32-bit counters."""
    x = (np.arange(count, dtype=np.uint64) + np.uint64(start)).astype(np.uint32)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    x = x ^ (x >> np.uint32(16))
    return (x >> np.uint32(8)).astype(np.float64) / 8388608.0 - 1


def values(tensor, shape):
    """Tensor number `tensor` of an op."""
    count = int(np.prod(shape))
    return torch.from_numpy(hashed(1000003 * tensor % 2**32, count).reshape(shape))


def indices(tensor, shape, limit):
    return ((values(tensor, shape) + 1) / 2 * limit).to(torch.int64)


def fnv(name):
    """FNV-1a, 32 bits."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 % 2**32
    return h


def named(name, shape):
    """The values of a whole network's tensor: its name says where the counter starts."""
    return torch.from_numpy(hashed(fnv(name), int(np.prod(shape))).reshape(shape))
