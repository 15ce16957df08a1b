/*
 * A calibration as a system description.
 */
#include <paradl/base/output.h>
#include <paradl/train/calibrate.h>
#include <string.h>

static bool is_cpu(const pdl_calibration_t *c)
{
    return strcmp(c->backend, "cpu") == 0;
}

static void write_speeds(const pdl_calibration_t *c, FILE *stream)
{
    fprintf(stream, "  memory_bandwidth: %.4g  # all devices at work; %.4g with the others idle\n", c->bytes_per_s,
            c->bytes_per_s_alone);
    fprintf(stream, "  peak: {fp32: %.4g, bf16: %.4g}  # all devices at work; %.4g with the others idle%s\n",
            c->flop_per_s, c->half_flop_per_s > 0 ? c->half_flop_per_s : c->flop_per_s, c->flop_per_s_alone,
            c->half_flop_per_s > 0 ? "" : "; bf16 was not measured");
    fprintf(stream, "  compute_units: %d\n  launch: %.3g\n  matrix_efficiency: %.3f\n  memory_efficiency: %.3f\n",
            c->threads, c->launch_s, c->matrix_efficiency, c->memory_efficiency);
}

static void write_rates(const double rate[PDL_HOST_WAYS], FILE *stream)
{
    fprintf(stream, "d2h: %.4g, h2d: %.4g, both: %.4g", rate[PDL_HOST_TO_HOST], rate[PDL_HOST_TO_DEVICE],
            rate[PDL_HOST_BOTH]);
}

static void write_host_link(const pdl_calibration_t *c, FILE *stream)
{
    const pdl_host_size_t *large = &c->host[c->host_count - 1];

    if (c->host_count == 0) return;
    fprintf(stream, "  host_link: {");
    write_rates(large->bytes_per_s, stream);
    fprintf(stream, ", by_size: [\n");
    for (int i = 0; i < c->host_count; i++) {
        fprintf(stream, "    {bytes: %.0f, ", c->host[i].bytes);
        write_rates(c->host[i].bytes_per_s, stream);
        fprintf(stream, "}%s\n", i + 1 < c->host_count ? "," : "]}");
    }
}

/* What is left out of the memory: that of the program and its libraries on the host, of the driver on a device. */
static void write_device(const pdl_calibration_t *c, FILE *stream)
{
    if (is_cpu(c))
        fprintf(stream, "device:\n  name: %d core%s of %s\n", c->threads, c->threads > 1 ? "s" : "", c->processor);
    else
        fprintf(stream, "device:\n  name: %s\n", c->processor);
    fprintf(stream, "  memory: %.0f\n", c->memory_bytes);
    write_speeds(c, stream);
    fprintf(stream, "  reserved: %s\n", is_cpu(c) ? "100MB" : "600MB");
    if (c->copy_bytes_per_s > 0) fprintf(stream, "  copy_bandwidth: %.4g\n", c->copy_bytes_per_s);
    if (c->queue_s > 0 || c->step_s > 0)
        fprintf(stream,
                "  queue: %.3g\n  issue: %.3g\n  step: %.3g  # small kernels: %.3g s of the host, %.3g s of the "
                "device\n",
                c->queue_s, c->issue_s, c->step_s, c->kernel_queue_s, c->kernel_gap_s);
    if (c->graphs) fprintf(stream, "  graphs: true\n");
    if (c->sharing > 0) fprintf(stream, "  sharing: %.3f  # of %d ranks\n", c->sharing, c->ranks);
    if (c->slice_s > 0) fprintf(stream, "  slice: %.3g\n", c->slice_s);
    if (c->host_bytes > 0) fprintf(stream, "  host_memory: %.0f\n", c->host_bytes);
    if (c->host_update_bytes_per_s > 0) fprintf(stream, "  host_update: %.4g\n", c->host_update_bytes_per_s);
    write_host_link(c, stream);
}

static void write_level(const pdl_calibration_t *c, FILE *stream)
{
    /* Of a single device nothing is known about messages; those of memory stand in. */
    double bandwidth = c->link_bytes_per_s > 0 ? c->link_bytes_per_s : c->bytes_per_s / 4;
    double latency = c->link_bytes_per_s > 0 ? c->latency_s : 1e-6;

    for (int i = 0; i < c->message_count; i++)
        fprintf(stream, "# %s of %.0f bytes: %.4g s\n", c->message[i].allreduce ? "allreduce" : "message",
                c->message[i].bytes, c->message[i].seconds);
    fprintf(stream, "levels:\n  - {name: node, transport: %s, fanout: %d, bandwidth: %.4g, latency: %.4g}\n",
            is_cpu(c) ? "shared-memory" : "device", c->devices, bandwidth, latency);
}

static void write_row(const pdl_measured_t *row, FILE *stream)
{
    const char *name =
        row->layer == PDL_MEASURED_UPDATE ? "update" : pdl_layer_type_name((pdl_layer_type_t)row->layer);

    fprintf(stream, "  - {layer: %s", name);
    if (row->precision != PDL_FP32) fprintf(stream, ", precision: %s", pdl_precision_names[row->precision]);
    if (row->after >= 0) fprintf(stream, ", after: %s", pdl_layer_type_name((pdl_layer_type_t)row->after));
    fprintf(stream, ", work: [%.10g, %.10g], channels: [%g, %g]", row->work[0], row->work[1], row->in_channels,
            row->out_channels);
    if (row->window > 1) fprintf(stream, ", window: %g", row->window);
    if (row->halo) fprintf(stream, ", halo: true");
    if (row->drops) fprintf(stream, ", dropout: true");
    fprintf(stream, ", seconds: [%.4g, %.4g]}\n", row->seconds[0], row->seconds[1]);
}

static void write_passes(const char *what, const double times[PDL_TIMED_PASSES], FILE *stream)
{
    int count = PDL_TIMED_PASSES;

    while (count > 1 && times[count - 1] <= 0) count--;
    for (int i = 0; i < count; i++) fprintf(stream, "%s%.4g", i == 0 ? what : ", ", times[i]);
    fputc(']', stream);
}

static void write_operation(const pdl_timed_op_t *op, FILE *stream)
{
    fprintf(stream, "  - {op: \"%s\"", op->key);
    if (op->precision != PDL_FP32) fprintf(stream, ", precision: %s", pdl_precision_names[op->precision]);
    fprintf(stream, ", samples: %g", op->samples);
    write_passes(", seconds: [", op->seconds, stream);
    if (op->replayed_s[PDL_TIMED_FORWARD] > 0) write_passes(", replayed: [", op->replayed_s, stream);
    write_passes(", queue: [", op->queue_s, stream);
    fprintf(stream, "}\n");
}

pdl_status_t pdl_calibration_write(const pdl_calibration_t *c, const char *name, FILE *stream)
{
    fprintf(stream, "paradl: system/1\nname: %s\n", name);
    fprintf(stream, "description: This machine as paradl calibrate measured it, a device being ");
    if (is_cpu(c))
        fprintf(stream, "one rank with %d core%s\n", c->threads, c->threads > 1 ? "s" : "");
    else
        fprintf(stream, "a %s\n", c->processor);
    fprintf(stream,
            "source: >-\n  Measured on %s in %.0f s, %d ranks, %d threads or multiprocessors each. %s; %s. %s.\n",
            c->date, c->elapsed_s, c->ranks, c->threads, c->processor, c->topology, c->libraries);
    write_device(c, stream);
    write_level(c, stream);
    if (c->storage_bytes_per_s > 0)
        fprintf(stream, "storage: {node_bandwidth: %.4g, decode_samples_per_s: %.4g}\n", c->storage_bytes_per_s,
                c->samples_per_s);
    else
        fprintf(stream, "storage: {decode_samples_per_s: %.4g}\n", c->samples_per_s);
    fprintf(stream, "parameters: %s\nbackend: %s\n", is_cpu(c) ? "local" : c->backend, c->backend);
    if (c->row_count > 0) fprintf(stream, "measured:\n");
    for (int i = 0; i < c->row_count; i++) write_row(&c->row[i], stream);
    if (c->operation_count > 0) fprintf(stream, "operations:\n");
    for (int i = 0; i < c->operation_count; i++) write_operation(&c->operation[i], stream);
    return pdl_output_flush(stream, name);
}
