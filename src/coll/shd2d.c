/*
 * Shifted halving-doubling on a two-dimensional distributed loop network: rows x columns switches, rank
 * (row*columns + column)*h + c. The strides of the columns are the far ones. In the interleaved form (the default)
 * half of the host classes start with the rows, so that both dimensions are busy in every step.
 */
#include "coll/internal.h"

static pdl_status_t setup(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec, bool interleaved)
{
    pdl_status_t status = pdl__hosts(schedule, spec);
    int          hosts = schedule->hosts;
    int64_t      rows = spec->rows, columns = spec->columns;

    if (status != PDL_OK) return status;
    if (!pdl__is_power_of_two(rows) || !pdl__is_power_of_two(columns) || !pdl__is_power_of_two(hosts) ||
        rows > schedule->ranks || columns > schedule->ranks || rows * columns * hosts != schedule->ranks) {
        return pdl__unsupported(schedule, "rows x columns x hosts per switch, each a power of two");
    }
    for (int order = 0; order < 2; order++) {
        int column_at = order == 0 ? 1 : 2;
        pdl__level_add_halving(schedule, order, 0, hosts, 1);
        pdl__level_add(schedule, order, column_at, pdl__gather_shifted, (int)rows, (int)columns * hosts,
                       pdl__log2(rows));
        pdl__level_add(schedule, order, 3 - column_at, pdl__gather_shifted, (int)columns, hosts,
                       pdl__log2(columns));
    }
    schedule->two_orders = interleaved;
    return pdl__levels_finish(schedule, spec, 3);
}

pdl_status_t pdl__setup_shd2d(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    return setup(schedule, spec, true);
}

pdl_status_t pdl__setup_shd2d_plain(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    return setup(schedule, spec, false);
}
