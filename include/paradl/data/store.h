/*
 * The samples that one rank holds, near to where they are trained on: in memory, or in files on a local disk. They are
 * taken from a source once, leave and arrive as records when ranks exchange them, and are read by the loader through a
 * source of their own.
 *
 *     pdl_store_create(&(pdl_store_spec_t){.source = source, .folder = NULL}, &store);
 *     pdl_store_load(store, ids, count);
 *     loader_spec.source = pdl_store_source(store);      // reads sample ids[i]; others are refused
 *
 * Samples that are added stay apart until pdl_store_commit(), which also forgets those that are to leave.
 */
#ifndef PARADL_STORE_H
#define PARADL_STORE_H

#include <paradl/base/status.h>
#include <paradl/data/data.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_store_spec {
    pdl_source_t *source; /* borrowed */
    const char   *folder; /* where records are kept in files, made if missing; NULL: in memory */
} pdl_store_spec_t;

typedef struct pdl_store pdl_store_t;

pdl_status_t pdl_store_create(const pdl_store_spec_t *spec, pdl_store_t **store);
void         pdl_store_destroy(pdl_store_t *store); /* removes its files; NULL is allowed */

/* Makes these samples, and no others, the ones that are held: those not held yet are read from the source. */
pdl_status_t pdl_store_load(pdl_store_t *store, const int64_t *ids, int64_t count);
/* Reads what is held; may be read from several threads at once, also while samples are added, but not during load and
   commit. It belongs to the store. */
pdl_source_t *pdl_store_source(pdl_store_t *store);
int64_t       pdl_store_count(const pdl_store_t *store); /* samples held, added ones included */
double        pdl_store_bytes(const pdl_store_t *store); /* of their records */

/* Largest record, in bytes. */
int64_t pdl_store_most_bytes(const pdl_store_t *store);
/* The record of a sample that is held; *bytes of it are written to `record`. */
pdl_status_t pdl_store_get(pdl_store_t *store, int64_t id, void *record, int64_t *bytes);
/* Adds a record that pdl_store_get() gave on another rank; it is checked. */
pdl_status_t pdl_store_add(pdl_store_t *store, int64_t id, const void *record, int64_t bytes);
/* Added samples become readable, and these are forgotten. */
pdl_status_t pdl_store_commit(pdl_store_t *store, const int64_t *gone, int64_t count);
/* Added samples are forgotten instead. */
void pdl_store_discard(pdl_store_t *store);

#ifdef __cplusplus
}
#endif
#endif
