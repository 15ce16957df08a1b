/*
 * What shuffling needs of a store beyond store.h. Internal to the module.
 */
#ifndef PDL_DATA_STORE_H
#define PDL_DATA_STORE_H

#include <paradl/data/store.h>
#include <stdbool.h>

/* As pdl_store_create(); without `ring` io_uring is not used even where it is there. */
pdl_status_t pdl__store_create(const pdl_store_spec_t *spec, bool ring, pdl_store_t **store);
bool         pdl__store_ring(const pdl_store_t *store);

/* Bytes of the record of a sample that is held; -1: it is not. */
int64_t pdl__store_record_bytes(const pdl_store_t *store, int64_t id);
/* The records of many samples that are held, one after the other. */
pdl_status_t pdl__store_get_many(pdl_store_t *store, const int64_t *ids, int64_t count, uint8_t *records);

#endif
