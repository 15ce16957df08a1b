/*
 * Numbers whose unit was forgotten: "latency: 3" is three seconds, "memory: 40" forty bytes.
 */
#include <paradl/system/system.h>

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* What links and devices have had so far, with room; a number without a unit beyond it is one whose unit was forgotten. */
static const struct {
    const char *key;
    double      least, most;
    const char *meant, *unit; /* what a number without a unit is taken for; what was probably meant */
} plausible[] = {
    {"latency", 0, 0.1, "seconds", "us"},
    {"launch", 0, 0.1, "seconds", "us"},
    {"memory", 1e6, INFINITY, "bytes", "GB"},
    {"memory_bandwidth", 1e6, INFINITY, "bytes per second", "GB/s"},
    {"bandwidth", 1e4, INFINITY, "bytes per second", "GB/s"},
    {"link_latency", 0, 0.1, "seconds", "us"},
    {"link_bandwidth", 1e4, INFINITY, "bytes per second", "GB/s"},
};

static bool has_no_unit(const pdl_yaml_t *node)
{
    const char *text = pdl_yaml_text(node);
    size_t      length = text != NULL ? strlen(text) : 0;

    return length > 0 && strchr("0123456789.", text[length - 1]) != NULL;
}

pdl_status_t pdl_system_check_units(const pdl_yaml_t *mapping)
{
    for (size_t i = 0; i < sizeof(plausible) / sizeof(plausible[0]); i++) {
        const pdl_yaml_t *node = pdl_yaml_find(mapping, plausible[i].key);
        double            value;

        if (node == NULL || !has_no_unit(node) || pdl_yaml_number(node, PDL_UNIT_NONE, &value)) continue;
        if (value >= plausible[i].least && value <= plausible[i].most) continue;
        return pdl_yaml_error(node, "%s is %s %s: write its unit, such as %s%s", plausible[i].key,
                              pdl_yaml_text(node), plausible[i].meant, pdl_yaml_text(node), plausible[i].unit);
    }
    return PDL_OK;
}
