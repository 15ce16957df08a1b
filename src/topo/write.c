/*
 * Writes a built-in topology as a file (docs/topology_format.md).
 */
#include "topo/network.h"

#include <paradl/base/yaml.h>

#include <stdio.h>

static void write_count(const char *key, int64_t value, FILE *stream)
{
    if (value > 0) fprintf(stream, "%s: %lld\n", key, (long long)value);
}

static void write_list(const char *key, const int64_t *values, int count, FILE *stream)
{
    if (count <= 0) return;
    fprintf(stream, "%s: [", key);
    for (int i = 0; i < count; i++) fprintf(stream, "%s%lld", i > 0 ? ", " : "", (long long)values[i]);
    fputs("]\n", stream);
}

static void write_messages(const pdl_message_layer_t *m, FILE *stream)
{
    fprintf(stream, "messages:\n  exchange: %.4g\n", m->exchange > 0 ? m->exchange : 1);
    if (m->exchange_bytes > 0) fprintf(stream, "  exchange_bytes: %.0f\n", m->exchange_bytes);
    if (m->reverse > 0) fprintf(stream, "  reverse: %.3g\n", m->reverse);
    if (m->buffered) fputs("  buffered: true\n", stream);
    if (m->chunk_bytes > 0) fprintf(stream, "  chunk: %.0f\n", m->chunk_bytes);
    if (m->host_order != 0) fprintf(stream, "  host_order: \"%016llx\"\n", (unsigned long long)m->host_order);
    if (m->library_sizes > 0) fputs("  library:\n", stream);
    for (int i = 0; i < m->library_sizes; i++)
        fprintf(stream, "    - {bytes: %.0f, seconds: %.4gs}\n", m->library_bytes[i], m->library_s[i]);
}

pdl_status_t pdl_topology_write(const pdl_topology_spec_t *spec, const char *description, FILE *stream)
{
    int shape = 0;

    while (shape < 4 && spec->shape[shape] > 0) shape++;
    fprintf(stream, "paradl: topology/1\ndescription: ");
    pdl_yaml_write_quoted(description, stream);
    fprintf(stream, "\ntopology: %s\n", spec->name);
    write_count("hosts", spec->hosts, stream);
    write_count("hosts_per_switch", spec->hosts_per_switch, stream);
    write_list("dims", spec->dims, spec->dim_count, stream);
    write_count("leaf_hosts", spec->leaf_hosts, stream);
    write_count("uplinks", spec->uplinks, stream);
    write_list("children", spec->xgft_m, spec->xgft_levels, stream);
    write_list("parents", spec->xgft_w, spec->xgft_levels, stream);
    write_list("shape", spec->shape, shape, stream);
    write_list("strides", spec->strides, spec->stride_count, stream);
    write_count("degree", spec->degree, stream);
    write_count("diameter", spec->diameter, stream);
    fprintf(stream, "link_bandwidth: %.5gB/s\nlink_latency: %.4gs\n", spec->link_bytes_per_s, spec->link_latency_s);
    if (spec->host_link_bytes_per_s > 0)
        fprintf(stream, "host_link_bandwidth: %.5gB/s\nhost_link_latency: %.4gs\n", spec->host_link_bytes_per_s,
                spec->host_link_latency_s);
    write_messages(&spec->messages, stream);
    return fflush(stream) == 0 && !ferror(stream) ? PDL_OK : pdl_error(PDL_ERR_IO, "writing the topology failed");
}
