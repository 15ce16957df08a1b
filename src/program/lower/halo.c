/*
 * Halos that are in flight while the rest is computed: ops, moves and buffers, as a program knows them.
 */
#include "program/lower/halo.h"
#include "base/memory.h"
#include "program/lower/edge.h"
#include <stdlib.h>

#define ALIGNMENT 64

/* A halo under construction. */
typedef struct making {
    const pdl__halo_spec_t *spec;
    const pdl_layer_t      *layer; /* of the model */
    int                     dim;   /* of regions: the one that the axis cuts */
    int64_t                 members, me;
    pdl__halo_rows_t       *rows;     /* of all members */
    int64_t                 block[2]; /* of input and output */
    pdl__halo_t            *halo;
    pdl_op_description_t    description; /* on own rows */
    pdl_layer_t            *local;
} making_t;

/* The layer, with the rows [in) and [out) of the extent that is cut. */
static pdl_status_t make_layer(const making_t *m, pdl_range_t in, pdl_range_t out, pdl_layer_t **local)
{
    pdl_region_t reads = m->spec->in, writes = m->spec->out;

    *local = malloc(sizeof(**local));
    if (!*local) return pdl__no_memory("while preparing halos");
    reads.range[m->dim][0] = in;
    writes.range[m->dim][0] = out;
    return pdl__local_layer(m->spec->layouts, m->spec->layer, &reads, &writes, *local);
}

pdl_op_spec_t pdl__halo_side_spec(const pdl__halo_side_t *side, const pdl_op_spec_t *main,
                                  const pdl_op_description_t *like)
{
    pdl_op_spec_t spec = *main;

    spec.layer = side->local;
    spec.inputs = side->local != NULL ? &side->local->in : NULL;
    spec.like = like;
    spec.accumulates = true; /* behind what the layer on own rows gives */
    return spec;
}

static pdl_status_t make_main(making_t *m)
{
    const pdl_border_t *r = &m->rows[m->me].at;
    pdl_backend_t      *backend = m->spec->backend;
    pdl_op_spec_t       spec = m->spec->op;
    int                 k = m->dim - PDL_DIM_SPACE;
    pdl_status_t        status = make_layer(m, r->own, r->out, &m->local);

    if (status) return status;
    m->local->pad_low[k] = r->pad_low;
    m->local->pad_high[k] = r->pad_high > 0 ? r->pad_high : 0; /* rows that no window reaches are not read */
    spec.layer = m->local;
    spec.inputs = &m->local->in;
    return backend->ops->op_describe(backend, &spec, &m->description);
}

static pdl_status_t make_side(making_t *m, int which)
{
    const pdl_border_t         *r = &m->rows[m->me].at;
    const pdl_op_description_t *main = &m->description;
    pdl__halo_side_t           *side = &m->halo->side[which];
    pdl_op_description_t       *own = &side->description;

    if (r->border[which].low >= r->border[which].high) return PDL_OK;
    pdl_status_t status = make_layer(m, r->strip[which], r->border[which], &side->local);
    if (status) return status;
    pdl_op_spec_t spec = pdl__halo_side_spec(side, &m->spec->op, main);
    status = m->spec->backend->ops->op_describe(m->spec->backend, &spec, own);
    if (status) return status;
    bool alike = own->in_format[0] == main->in_format[0] && own->out_format == main->out_format &&
                 own->weight[0].elements == main->weight[0].elements && own->saved_bytes == 0;
    return alike ? PDL_OK : pdl_error(PDL_ERR_UNSUPPORTED, "%s: its border has other formats", m->layer->name);
}

/* Rows of what this rank reads (0) or writes (1), as they lie. All members have the same channels. */
static pdl_region_t rows_of(const making_t *m, int which, pdl_range_t rows)
{
    pdl_region_t region = which ? m->spec->out : m->spec->in;
    int64_t      channels = pdl_region_extent(&region, PDL_DIM_CHANNEL);

    region.segments[PDL_DIM_CHANNEL] = 1;
    region.range[PDL_DIM_CHANNEL][0] = (pdl_range_t){0, channels};
    region.range[m->dim][0] = rows;
    return pdl__edge_in_memory(which ? &m->layer->out : &m->layer->in, m->block[which], &region);
}

static pdl_status_t make_boxes(const making_t *m, int which, pdl_range_t from, pdl_range_t to, pdl_boxes_t *boxes)
{
    pdl_region_t a = rows_of(m, which, from), b = rows_of(m, which, to);

    return pdl_boxes_init(&a, &b, PDL_BOXES_A_B, boxes);
}

static size_t bytes_of(const making_t *m, int which, pdl_range_t rows)
{
    pdl_region_t region = rows_of(m, which, rows);

    return (size_t)pdl_region_elements(&region) * m->halo->item;
}

/* What the halo of one side needs here besides its op. */
static pdl_status_t make_copies(making_t *m, int which)
{
    const pdl_border_t *r = &m->rows[m->me].at;
    const pdl_range_t   gives = m->rows[m->me].gives[which];
    pdl__halo_side_t   *side = &m->halo->side[which];
    pdl_status_t        status = make_boxes(m, 0, r->own, gives, &side->boxes[PDL_BOXES_GIVES]);

    if (!status) status = make_boxes(m, 0, r->own, r->strip[which], &side->boxes[PDL_BOXES_OWN]);
    if (!status) status = make_boxes(m, 0, r->strip[which], r->halo[which], &side->boxes[PDL_BOXES_HALO]);
    if (!status) status = make_boxes(m, 1, r->out, r->border[which], &side->boxes[PDL_BOXES_BORDER]);
    side->gives_bytes = bytes_of(m, 0, gives);
    side->strip_bytes = bytes_of(m, 0, r->strip[which]);
    side->halo_bytes = bytes_of(m, 0, r->halo[which]);
    side->border_bytes = bytes_of(m, 1, r->border[which]);
    return status;
}

static pdl_status_t make_move(making_t *m, int which)
{
    pdl_region_t *gives = malloc((size_t)m->members * sizeof(*gives));
    pdl_region_t *needs = malloc((size_t)m->members * sizeof(*needs));
    int64_t       missing = 0;
    pdl_status_t  status = gives && needs ? PDL_OK : pdl__no_memory("while preparing halos");

    for (int64_t k = 0; k < m->members && !status; k++) {
        gives[k] = rows_of(m, 0, m->rows[k].gives[which]);
        needs[k] = rows_of(m, 0, m->rows[k].at.halo[which]);
        missing += pdl_region_elements(&needs[k]);
    }
    if (!status && missing > 0)
        return pdl__planned_move_create(m->spec->layouts, NULL, 1u << m->spec->axis,
                                        m->halo->backend->activation_type, gives, needs,
                                        &m->halo->side[which].move);
    free(gives);
    free(needs);
    return status;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* What the program is to know of a side. */
static void say(pdl__halo_t *halo, int which)
{
    pdl__halo_side_t   *side = &halo->side[which];
    pdl_program_side_t *said = &halo->said[which];

    side->packed_at = aligned(side->description.workspace_bytes);
    *said = (pdl_program_side_t){.computes = side->local != NULL,
                                 .keeps_output = side->description.keeps_output,
                                 .gives = side->gives_bytes,
                                 .strip = side->strip_bytes,
                                 .border = side->border_bytes,
                                 .workspace = side->packed_at + side->description.packed_bytes};
    for (int way = 0; way < PDL_DIRECTIONS && side->move; way++)
        said->move[way] = (pdl_program_move_t){.primitive = PDL_HALO,
                                               .group = side->move->axes,
                                               .bytes = way == PDL_FORWARD ? side->halo_bytes : side->gives_bytes,
                                               .sent = side->move->sent[way]};
}

static pdl_status_t describe(making_t *m)
{
    pdl_status_t status = make_main(m);

    for (int i = 0; i < 2 && !status; i++) status = make_side(m, i);
    return status;
}

static pdl_status_t plan_moves(making_t *m)
{
    pdl_status_t status = PDL_OK;

    m->block[0] = pdl__edge_block(m->halo->backend, m->description.in_format[0],
                                  pdl_region_extent(&m->spec->in, PDL_DIM_CHANNEL));
    m->block[1] = pdl__edge_block(m->halo->backend, m->description.out_format,
                                  pdl_region_extent(&m->spec->out, PDL_DIM_CHANNEL));
    for (int i = 0; i < 2 && !status; i++) {
        status = make_copies(m, i);
        if (!status) status = make_move(m, i);
        if (!status) say(m->halo, i);
    }
    return status;
}

static pdl_status_t begin(const pdl__halo_spec_t *spec, making_t *m)
{
    const pdl__layouts_t *l = spec->layouts;
    int                   cut = (int)(l->layer[spec->layer].reads.on[spec->axis] - PDL_SPLIT_S0);

    *m = (making_t){.spec = spec,
                    .layer = pdl_model_layer(l->plan->model, spec->layer),
                    .dim = PDL_DIM_SPACE + cut,
                    .members = l->plan->mesh.axis[spec->axis].size,
                    .me = l->coordinates[spec->axis]};
    m->halo = calloc(1, sizeof(*m->halo));
    m->rows = calloc((size_t)m->members, sizeof(*m->rows));
    if (!m->halo || !m->rows) return pdl__no_memory("while preparing halos");
    pdl__halo_members(l, spec->layer, spec->axis, m->rows);
    m->halo->backend = spec->backend;
    m->halo->item = pdl_dtype_bytes(spec->backend->activation_type);
    return PDL_OK;
}

static void drop(making_t *m)
{
    pdl__halo_destroy(m->halo);
    free(m->local);
}

pdl_status_t pdl__halo_possible(const pdl__halo_spec_t *spec, bool *possible, pdl_format_t *format)
{
    making_t     m;
    pdl_status_t status = begin(spec, &m);

    if (!status) status = describe(&m);
    *possible = status == PDL_OK;
    *format = m.description.in_format[0];
    free(m.rows);
    drop(&m);
    return status == PDL_ERR_NOMEM ? status : PDL_OK;
}

pdl_status_t pdl__halo_create(const pdl__halo_spec_t *spec, pdl_op_description_t *description, pdl_layer_t **local,
                              pdl__halo_t **halo)
{
    making_t     m;
    pdl_status_t status = begin(spec, &m);

    *halo = NULL;
    if (!status) status = describe(&m);
    if (!status) status = plan_moves(&m);
    free(m.rows);
    if (status) {
        drop(&m);
        return status;
    }
    *description = m.description;
    *local = m.local;
    if (m.halo->side[0].move || m.halo->side[1].move)
        *halo = m.halo;
    else
        pdl__halo_destroy(m.halo);
    return PDL_OK;
}

void pdl__halo_destroy(pdl__halo_t *halo)
{
    for (int i = 0; i < 2 && halo; i++) {
        pdl__halo_side_t *side = &halo->side[i];
        pdl__planned_move_destroy(side->move);
        free(side->local);
        for (int k = 0; k < PDL_SIDE_BOXES_COUNT; k++) pdl_boxes_fini(&side->boxes[k]);
    }
    free(halo);
}

size_t pdl__halo_buffers(const pdl__halo_t *halo)
{
    size_t bytes = 0;

    for (int i = 0; halo && i < 2; i++)
        if (halo->side[i].move) bytes += halo->side[i].move->buffers;
    return bytes;
}
