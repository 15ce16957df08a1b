/*
 * Activations as functions of numbers.
 */
#ifndef PDL_TENSOR_CUDA_FUNCTIONS_H
#define PDL_TENSOR_CUDA_FUNCTIONS_H

#include "tensor/plugin/cuda/kernel.h"

/* An activation is its value at x and the gradient g through it at v, what was kept: the input, or the output of those whose
   slope can be told from it. */
struct relu {
    static constexpr bool   moves_zero = false;
    __device__ static float value(float x, float)
    {
        return x < 0 ? 0 : x;
    }
    __device__ static float back(float v, float g, float)
    {
        return v > 0 ? g : 0;
    }
};

struct leaky_relu {
    static constexpr bool   moves_zero = false;
    __device__ static float value(float x, float slope)
    {
        return x < 0 ? slope * x : x;
    }
    __device__ static float back(float v, float g, float slope)
    {
        return v > 0 ? g : slope * g;
    }
};

struct gelu {
    static constexpr bool   moves_zero = false;
    __device__ static float value(float x, float)
    {
        return 0.5f * x * erfcf(-x * 0.70710678f);
    }
    __device__ static float back(float v, float g, float)
    {
        return g * (0.5f * erfcf(-v * 0.70710678f) + v * 0.39894228f * expf(-0.5f * v * v));
    }
};

/* By tanh, the form of GPT-2: (1 + tanh u) / 2 is the logistic function of 2 u, which takes a third of the instructions. */
struct gelu_tanh {
    static constexpr bool   moves_zero = false;
    __device__ static float inner(float x)
    {
        return __fdividef(1, 1 + expf(-1.59576912f * (x + 0.044715f * x * x * x)));
    }
    __device__ static float value(float x, float)
    {
        return x * inner(x);
    }
    __device__ static float back(float v, float g, float)
    {
        float s = inner(v);

        if (v > 10 || v < -10) return v > 0 ? g : 0; /* where the square would overflow */
        return g * (s + v * s * (1 - s) * 1.59576912f * (1 + 0.134145f * v * v));
    }
};

struct sigmoid {
    static constexpr bool   moves_zero = true;
    __device__ static float value(float x, float)
    {
        return 1 / (1 + expf(-x));
    }
    __device__ static float back(float v, float g, float)
    {
        return g * v * (1 - v);
    }
};

struct silu {
    static constexpr bool   moves_zero = false;
    __device__ static float value(float x, float)
    {
        return x / (1 + expf(-x));
    }
    __device__ static float back(float v, float g, float)
    {
        float s = sigmoid::value(v, 0);

        return g * s * (1 + v * (1 - s));
    }
};

struct hard_swish {
    static constexpr bool   moves_zero = false;
    __device__ static float value(float x, float)
    {
        return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
    }
    __device__ static float back(float v, float g, float)
    {
        return v <= -3 ? 0 : v >= 3 ? g : g * (2 * v + 3) / 6;
    }
};

struct hyperbolic_tangent {
    static constexpr bool   moves_zero = false;
    __device__ static float value(float x, float)
    {
        return tanhf(x);
    }
    __device__ static float back(float v, float g, float)
    {
        return g * (1 - v * v);
    }
};

#endif
