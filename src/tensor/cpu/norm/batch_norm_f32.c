/*
 * The kernels of batch norm on float.
 */
#define ELEMENT float
#define LOAD    pdl__load_f32
#define STORE   pdl__store_f32
#define KERNELS pdl__norm_f32
#include "tensor/cpu/norm/batch_norm_kernels.h"
