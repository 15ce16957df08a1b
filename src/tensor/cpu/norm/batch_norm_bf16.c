/*
 * The kernels of batch norm on bfloat16.
 */
#define ELEMENT pdl__bf16_t
#define LOAD    pdl__load_bf16
#define STORE   pdl__store_bf16
#define KERNELS pdl__norm_bf16
#include "tensor/cpu/norm/batch_norm_kernels.h"
