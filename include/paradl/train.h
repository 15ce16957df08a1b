/* Training sessions and runs, checkpoints, calibration. */
#ifndef PARADL_TRAIN_MODULE_H
#define PARADL_TRAIN_MODULE_H

#include <paradl/train/aggregate.h>
#include <paradl/train/calibrate.h>
#include <paradl/train/checkpoint.h>
#include <paradl/train/dry.h>
#include <paradl/train/generate.h>
#include <paradl/train/init.h>
#include <paradl/train/initial.h>
#include <paradl/train/optimizer.h>
#include <paradl/train/predict.h>
#include <paradl/train/safetensors.h>
#include <paradl/train/session.h>
#include <paradl/train/train.h>

#endif
