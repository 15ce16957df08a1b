/*
 * How tensors are cut into panels.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/norm/batch_norm.h"

#define PART_ROWS 2048

pdl__panels_t pdl__panels_cut(const pdl_shape_t *shape, int64_t samples, pdl_format_t format, bool join)
{
    int64_t       channels = shape->channels, positions = pdl_shape_positions(shape), blocks = (channels + 15) / 16;
    pdl__panels_t p = {.samples = samples,
                       .groups = blocks,
                       .rows = positions,
                       .distance = 16,
                       .last_lanes = 16,
                       .padded = blocks * 16};

    if (format == PDL_FORMAT_BLOCKED && pdl__cpu_blockable(shape)) {
        p.group_step = positions * 16;
        p.sample_step = blocks * p.group_step;
    } else if (pdl__cpu_blockable(shape)) {
        p.single = true;
        p.groups = channels;
        p.rows = positions / 16;
        p.last_lanes = positions % 16;
        p.group_step = positions;
        p.sample_step = channels * positions;
    } else {
        if (join) {
            p.samples = 1;
            p.rows *= samples;
        }
        p.sample_step = positions * channels;
        p.group_step = 16;
        p.distance = channels;
        p.last_lanes = channels - (blocks - 1) * 16;
    }
    p.part_rows = p.single || p.rows < PART_ROWS ? p.rows : PART_ROWS;
    if (p.part_rows < 1) p.part_rows = 1;
    p.parts = p.rows > 0 ? (p.rows + p.part_rows - 1) / p.part_rows : 1;
    return p;
}

int64_t pdl__panels_count(const pdl__panels_t *panels)
{
    return panels->samples * panels->groups * panels->parts;
}
