/*
 * The Slurm script, and what the first iterations should look like.
 */
#include "report/export/export.h"

#include <paradl/base/units.h>

#include <ctype.h>
#include <string.h>

/* A name of the user's in a script: what a shell could take for more than a name becomes '_'. */
static const char *plain(const char *name, char text[120])
{
    size_t i = 0;

    for (; name[i] != '\0' && i < 119; i++)
        text[i] = isalnum((unsigned char)name[i]) || strchr("._-+/", name[i]) != NULL ? name[i] : '_';
    text[i] = '\0';
    return text;
}

void pdl__write_job(const pdl__exported_t *x, FILE *stream)
{
    const pdl__exporter_t *exporter = pdl__exporter_find(x->framework);
    const char            *backend = x->what->system->backend;
    char                   model[120], system[120], mesh[200], gpus[64] = "";

    /* Processor cores are not asked for as devices: Slurm would refuse a kind that no node has. */
    if (backend == NULL || strcmp(backend, "cpu") != 0)
        snprintf(gpus, sizeof(gpus), "#SBATCH --gpus-per-node=%lld\n", (long long)x->per_node);
    fprintf(stream,
            "#!/usr/bin/env bash\n"
            "# %s on %s: %s, by %s. Account, partition and modules are yours.\n"
            "#SBATCH --job-name=%s\n"
            "#SBATCH --nodes=%lld\n"
            "#SBATCH --ntasks-per-node=%lld\n"
            "%s"
            "#SBATCH --exclusive\n"
            "#SBATCH --time=00:30:00\n"
            "set -euo pipefail\n"
            "cd \"${SLURM_SUBMIT_DIR:-.}\"\n"
            "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
            "export MASTER_ADDR MASTER_PORT=29500 DEVICES=%lld\n",
            plain(x->what->model_name, model), plain(x->what->system_name, system),
            pdl_mesh_format(&x->plan->mesh, mesh, sizeof(mesh)), x->framework, x->framework, (long long)x->nodes,
            (long long)(exporter->task_per_rank ? x->per_node : 1), gpus, (long long)x->per_node);
    /* One task a node starts its ranks; the shell there fills in what differs from node to node. */
    if (exporter->task_per_rank)
        fprintf(stream, "%ssrun %s\n", exporter->setup, exporter->launch);
    else
        fprintf(stream, "srun bash -c '\n%sexec %s\n'\n", exporter->setup, exporter->launch);
}

static void write_projection(const pdl__exported_t *x, FILE *stream)
{
    const pdl_projection_t *p = x->what->projection;
    char                    total[PDL_FORMAT_SIZE], low[PDL_FORMAT_SIZE], high[PDL_FORMAT_SIZE];
    double                  devices = (double)pdl_mesh_size(&x->plan->mesh);

    fprintf(stream, "Projected\n  an iteration        %s, 90 %% interval %s to %s%s\n",
            pdl_format_seconds(p->total_s, total), pdl_format_seconds(p->low_s, low),
            pdl_format_seconds(p->high_s, high),
            p->estimated ? " (nothing of this machine was measured: wide)" : "");
    if (x->net.tokens > 0)
        fprintf(stream, "  tokens a second     %.4g, %.4g of a device\n",
                (double)x->plan->batch * (double)x->net.tokens / p->total_s,
                (double)x->plan->batch * (double)x->net.tokens / p->total_s / devices);
    fprintf(stream, "  TFLOP/s of a device %.4g\n", p->flop / p->total_s / devices * 1e-12);
    fprintf(stream, "  memory of a device  %s\n", pdl_format_bytes(p->memory_bytes, total));
    fprintf(stream, "  computation %.3g s, exposed communication %.3g s, pipeline bubble %.3g s, input %.3g s\n\n",
            p->compute_s, p->comm_s, p->bubble_s, p->io_s);
}

void pdl__write_checks(const pdl__exported_t *x, FILE *stream)
{
    write_projection(x, stream);
    fprintf(stream,
            "Where %s says it\n  %s\n\n"
            "In the first iterations\n"
            "  1. Leave out the first five: kernels are chosen, memory grows, connections are made.\n"
            "  2. Memory above the projection: the allocator's pieces; above the device's: more micro-batches or "
            "recomputation.\n"
            "  3. Time above the interval: tell paradl what it was, it says where the difference can be:\n"
            "       paradl plan ... --measured iteration_s=SECONDS, or a profiler's trace, --measured trace.json\n"
            "  4. A loss that is not finite, or does not fall on real data: learning rate, warm-up, precision.\n",
            x->framework, pdl__exporter_find(x->framework)->log);
    if (x->notes > 0) fprintf(stream, "\nNot expressed, or to be seen to\n");
    for (int i = 0; i < x->notes; i++) fprintf(stream, "  - %s\n", x->note[i]);
}
