/* Samples: sources, loading, shuffling, hiding. */
#ifndef PARADL_DATA_MODULE_H
#define PARADL_DATA_MODULE_H

#include <paradl/data/data.h>
#include <paradl/data/hide.h>
#include <paradl/data/shuffle.h>
#include <paradl/data/store.h>
#include <paradl/data/vocabulary.h>

#endif
