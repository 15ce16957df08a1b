/*
 * paradl calibrate: measures this machine and writes its system description.
 */
#include "cli/commands.h"
#include "cli/device.h"
#include "cli/train/start_ranks.h"

#include <paradl/base/units.h>
#include <paradl/comm/network.h>
#include <paradl/report/train_report.h>
#include <paradl/train/calibrate.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct values {
    const char *output, *models, *device, *network;
    int64_t     pe, threads;
    double      chunk_bytes;
    bool        quick, quiet;
} values_t;

static const pdl__option_t options[] = {
    {"output", "SYSTEM.yaml", NULL, "the system description to write", PDL__TEXT(values_t, output),
     .required = true, .letter = 'o', .writes = true},
    {"model", "M[,M...]", NULL, "times the layers of these models too", PDL__TEXT(values_t, models)},
    {"devices", "N", NULL, "devices (ranks) of this machine; default: its cores divided by --threads, or its GPUs",
     PDL__INT(values_t, pe, 1), .letter = 'n', .also = "pe"},
    {"device", "NAME", "cpu", "what is measured: cpu, cuda (GPUs), cuda:N, auto (GPUs where there are any)",
     PDL__TEXT(values_t, device)},
    {"threads", "N", "1", "cores of a processing element", PDL__INT(values_t, threads, 1)},
    {"network", "SHAPE.yaml", NULL,
     "measures the network of this job instead, one rank on each host: links of a topology of this shape",
     PDL__TEXT(values_t, network)},
    {"chunk", "B", NULL, "with --network: bytes of a message chunk of collectives; default: 48 KiB",
     PDL__QUANTITY(values_t, chunk_bytes, PDL_UNIT_BYTES)},
    {"quick", NULL, NULL, "fewer shapes and repetitions: seconds instead of a minute or two",
     PDL__FLAG(values_t, quick)},
    {"quiet", NULL, NULL, "no progress", PDL__FLAG(values_t, quiet)},
    {.name = NULL},
};

/* "a,b" becomes two names; `text` is cut up. */
static pdl_status_t split_models(char *text, pdl_calibration_options_t *o)
{
    for (char *rest = text, *name = strtok_r(text, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (o->model_count == PDL_CALIBRATION_MODELS)
            return pdl_error(PDL_ERR_LIMIT, "--model: at most %d models", PDL_CALIBRATION_MODELS);
        o->models[o->model_count++] = name;
    }
    return PDL_OK;
}

/* The file's name without folder and extension. */
static void name_of(const char *path, char name[64])
{
    const char *slash = strrchr(path, '/');

    snprintf(name, 64, "%s", slash ? slash + 1 : path);
    if (strrchr(name, '.') && strrchr(name, '.') != name) *strrchr(name, '.') = '\0';
}

static pdl_status_t write_result(const values_t *v, const pdl_calibration_t *calibration, pdl_output_t *output)
{
    char name[64];

    name_of(v->output, name);
    pdl_status_t status = pdl_calibration_write(calibration, name, pdl_output_stream(output));
    status = pdl__finish_output(output, status);
    if (status) return status;
    return pdl_report_calibration(calibration, v->output, stdout);
}

/* The GPU of this rank. */
typedef struct gpu {
    pdl_calibration_device_t said; /* first: what is measured is cast to this */
    const pdl__device_t     *device;
    const pdl_ranks_t       *ranks;
} gpu_t;

static pdl_status_t create_gpu(const pdl_calibration_device_t *said, pdl_dtype_t precision, pdl_backend_t **backend)
{
    const gpu_t *gpu = (const gpu_t *)said;

    return pdl__device_create(gpu->device, gpu->ranks, &(pdl_cpu_options_t){.precision = precision}, backend);
}

static pdl_status_t describe_gpu(gpu_t *gpu)
{
    pdl_gpu_info_t info;
    int            count;
    pdl_status_t   status = pdl_gpu_count(pdl__device_emulated(), &count);

    if (status) return status;
    status = pdl_gpu_info(pdl__device_emulated(),
                          gpu->device->number >= 0 ? gpu->device->number : pdl_ranks_node_rank(gpu->ranks) % count,
                          &info);
    if (status) return status;
    gpu->said = (pdl_calibration_device_t){.backend = "cuda",
                                           .memory_bytes = info.memory_bytes,
                                           .units = info.multiprocessors,
                                           .count = gpu->device->number >= 0 ? 1 : count,
                                           .create = create_gpu};
    snprintf(gpu->said.name, sizeof(gpu->said.name), "%s", info.name);
    snprintf(gpu->said.versions, sizeof(gpu->said.versions), "%s", info.versions);
    return PDL_OK;
}

static pdl_status_t measure(const values_t *v, const pdl__device_t *device, pdl_ranks_t *ranks)
{
    pdl_calibration_options_t o = {.ranks = ranks,
                                   .threads = (int)v->threads,
                                   .quick = v->quick,
                                   .talk = v->quiet ? NULL : stderr};
    pdl_calibration_t        *calibration = NULL;
    pdl_output_t             *output = NULL;
    gpu_t                     gpu = {.device = device, .ranks = ranks};
    bool                      speaks = pdl_ranks_rank(ranks) == 0;
    char                     *models = strdup(v->models ? v->models : "");
    pdl_status_t status = models ? split_models(models, &o) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status && device->kind == PDL__DEVICE_CUDA) {
        status = describe_gpu(&gpu);
        o.device = &gpu.said;
    }
    /* A file that cannot be written is known before anything is measured. */
    if (!status && speaks) status = pdl_output_open(v->output, &output);
    status = pdl_ranks_agree(ranks, status);
    if (!status) status = pdl_calibrate(&o, &calibration);
    if (!status && speaks)
        status = write_result(v, calibration, output);
    else if (output)
        pdl_output_discard(output);
    status = pdl_ranks_agree(ranks, status);
    pdl_calibration_destroy(calibration);
    free(models);
    return status;
}

static pdl_status_t write_network(const values_t *v, const pdl_topology_spec_t *spec)
{
    pdl_output_t *output;
    char          text[PDL_FORMAT_SIZE], more[PDL_FORMAT_SIZE];
    pdl_status_t  status = pdl_output_open(v->output, &output);

    if (status) return status;
    status = pdl_topology_write(spec, "measured by paradl calibrate --network", pdl_output_stream(output));
    status = pdl__finish_output(output, status);
    if (status) return status;
    printf("links of hosts %s, between switches %s\n", pdl_format_byte_rate(spec->host_link_bytes_per_s, text),
           pdl_format_byte_rate(spec->link_bytes_per_s, more));
    printf("latency of a link %s; an exchange with one partner keeps %.0f %% of the rate\n",
           pdl_format_seconds(spec->link_latency_s, text), 100 * spec->messages.exchange);
    printf("wrote %s\n", v->output);
    return PDL_OK;
}

static bool is_builtin(const char *name)
{
    for (int i = 0; pdl_topology_builtin_name(i) != NULL; i++)
        if (strcmp(name, pdl_topology_builtin_name(i)) == 0) return true;
    return false;
}

/* Under mpirun, a rank on each host. */
static pdl_status_t run_network(const values_t *v)
{
    pdl_topology_spec_t   wanted = pdl_topology_spec(v->network), spec;
    pdl_network_options_t asked = {.chunk_bytes = (int64_t)v->chunk_bytes, .talk = v->quiet ? NULL : stderr};
    pdl_topology_t       *shape;
    int                   rank = 0;
    pdl_status_t          status = pdl_topology_create(&wanted, &shape);

    if (status) return status;
    spec = *pdl_topology_get_spec(shape);
    if (!is_builtin(spec.name))
        status =
            pdl_error(PDL_ERR_INPUT, "%s: only built-in topologies can be measured: give topology: and its sizes",
                      v->network);
    else
        status = pdl_network_measure(shape, &asked, &spec, &rank);
    if (!status && rank == 0) status = write_network(v, &spec);
    pdl_topology_destroy(shape);
    return status;
}

static pdl_status_t run_calibrate(const void *given, const pdl__operands_t *operands)
{
    const values_t *v = given;
    long            cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t         pe = v->pe > 0 ? v->pe : cores / v->threads;
    pdl_ranks_t    *ranks = NULL;
    pdl__device_t   device;
    int             gpus = 0;
    pdl_status_t    status = pdl__device_read(v->device, false, &device);

    (void)operands;
    if (!status && v->network != NULL) return run_network(v);
    if (!status && device.kind == PDL__DEVICE_AUTO)
        device.kind = pdl_gpu_count(pdl__device_emulated(), &gpus) ? PDL__DEVICE_CPU : PDL__DEVICE_CUDA;
    if (!status && device.kind == PDL__DEVICE_CUDA) status = pdl_gpu_count(pdl__device_emulated(), &gpus);
    if (status) return status;
    if (device.kind == PDL__DEVICE_CUDA && v->pe == 0) pe = device.number < 0 ? gpus : 1;
    if (pe < 1) pe = 1;
    if (pdl__start_wanted(pe)) {
        status = pdl__start_ranks(pe, v->threads, 60, NULL);
        if (status != PDL_ERR_UNSUPPORTED) return status;
        fprintf(stderr, "%s: one device is measured, messages are not\n", pdl_error_message());
    }
    status = pdl_ranks_create(&ranks);
    if (!status) status = measure(v, &device, ranks);
    pdl_ranks_destroy(ranks);
    return status;
}

const pdl__command_t pdl__calibrate_commands[] = {
    {.name = "calibrate",
     .usage = "-o SYSTEM.yaml [--device NAME] [--model M[,M...]] [--devices N] [--threads N] [--quick]",
     .summary = "measures this machine and writes its system description",
     .notes = "Use it as --system SYSTEM.yaml of plan and train. The machine should have nothing else to do.\n",
     .options = options,
     .values = sizeof(values_t),
     .run = run_calibrate},
    {.name = NULL},
};
