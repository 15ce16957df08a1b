/*
 * The platform file of the published program: six lines KEY|value|unit in a fixed order.
 *
 *     MEM_PER_NODE|16e9|Bytes
 *     NODE_SPEED|7.8E12|FLOPS
 *     BANDWIDTH|12.5E9|Bps
 *     LATENCY|500E-9|second
 *     MAX_NODE|4096|GPUs
 *     GPU_PER_NODE|4|GPUs
 *
 * "Node" means a device in the first two and in MAX_NODE.
 */
#include <paradl/base/units.h>
#include <paradl/validate/orig.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE_SIZE 256

/* The next line that is no comment, without its end; false at the end of the file. */
static bool next_line(FILE *file, char line[LINE_SIZE], int *number)
{
    while (fgets(line, LINE_SIZE, file) != NULL) {
        (*number)++;
        line[strcspn(line, "\r\n")] = '\0';
        if (line[strspn(line, " \t")] != '\0' && line[0] != '#') return true;
    }
    return false;
}

static pdl_status_t read_value(FILE *file, const char *path, const char *key, int *number, double *value)
{
    char  line[LINE_SIZE];
    char *text;

    if (!next_line(file, line, number))
        return pdl_error(PDL_ERR_INPUT, "%s:%d: expected a line %s|value|unit", path, *number, key);
    text = strchr(line, '|');
    if (text == NULL || strncmp(line, key, strlen(key)) != 0 || (size_t)(text - line) != strlen(key))
        return pdl_error(PDL_ERR_INPUT, "%s:%d: expected %s|value|unit", path, *number, key);
    text++;
    text[strcspn(text, "|")] = '\0';
    if (pdl_parse_quantity(text, PDL_UNIT_NONE, value) || !(*value > 0))
        return pdl_error(PDL_ERR_INPUT, "%s:%d: %s must be a number above 0, not '%.40s'", path, *number, key,
                         text);
    return PDL_OK;
}

pdl_status_t pdl_orig_read_plat(const char *path, pdl_orig_platform_t *platform)
{
    static const char *const keys[] = {"MEM_PER_NODE", "NODE_SPEED", "BANDWIDTH",
                                       "LATENCY",      "MAX_NODE",   "GPU_PER_NODE"};
    double                   values[6];
    int                      number = 0;
    pdl_status_t             status = PDL_OK;
    FILE                    *file = fopen(path, "r");

    if (file == NULL) return pdl_error(PDL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    for (int i = 0; !status && i < 6; i++) status = read_value(file, path, keys[i], &number, &values[i]);
    fclose(file);
    if (status) return status;
    if (values[4] > 1e15 || values[5] > values[4] || values[5] < 1)
        return pdl_error(PDL_ERR_INPUT, "%s: MAX_NODE must be at least GPU_PER_NODE, and that at least 1", path);
    *platform = (pdl_orig_platform_t){
        .memory_bytes = values[0],
        .flop_per_s = values[1],
        .bandwidth_bytes_per_s = values[2],
        .latency_s = values[3],
        .max_pe = (int64_t)values[4],
        .pe_per_node = (int64_t)values[5],
    };
    return PDL_OK;
}
