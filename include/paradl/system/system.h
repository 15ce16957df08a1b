/*
 * A system is processing elements (devices) at the leaves of a tree of network levels, with their speeds.
 *
 * Level 0 joins devices into the innermost group (a node), level 1 joins those groups, and so on. A message
 * between two devices crosses the levels up to the lowest common one: it climbs out of its level-0 group through
 * one of that group's ports, and so on. All numbers come from YAML under share/systems; none is in C.
 */
#ifndef PARADL_SYSTEM_H
#define PARADL_SYSTEM_H

#include <paradl/base/status.h>
#include <paradl/base/yaml.h>
#include <paradl/model/model.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_precision {
    PDL_FP64,
    PDL_FP32,
    PDL_TF32,
    PDL_FP16,
    PDL_BF16,
    PDL_FP8,
    PDL_NVFP4, /* four bits, and a scale of eight bits for 16 values */
    PDL_PRECISION_COUNT
} pdl_precision_t;
extern const char *const pdl_precision_names[PDL_PRECISION_COUNT];
/* Formats below 16 bits are for the factors of products alone: tensors between layers have 16 bits beside them. */
bool pdl_precision_narrow(pdl_precision_t precision);
/* Bytes of an element of activations and weights in memory (TF32: 4; FP8 and NVFP4: 2). */
int pdl_precision_bytes(pdl_precision_t precision);
/* Bytes of an element of a product's factors (NVFP4: 0.5), and of its part in the scales of blocks (NVFP4: 0.0625, others none). */
double pdl_precision_factor_bytes(pdl_precision_t precision);
double pdl_precision_scale_bytes(pdl_precision_t precision);

#define PDL_MAX_LEVELS 8

typedef struct pdl_level {
    const char *name;                  /* "node", "rack" */
    const char *transport;             /* "nvlink", "infiniband"; for people and parameter files */
    int64_t     fanout;                /* children joined: devices at level 0, groups of the level below above it */
    double      bandwidth_bytes_per_s; /* of one link in one direction */
    double      latency_s;        /* start-up of a message between two devices whose lowest common level is this */
    double      ports;            /* links by which each child is attached to this level, before oversubscription */
    double      oversubscription; /* >= 1: only ports / oversubscription of those links carry data at a time */
    bool        shared_medium;    /* the children of a group share `ports` links instead of having that many each */
    double      congestion;       /* kappa >= 1: slow-down by other jobs; 1 when the machine is alone */
} pdl_level_t;

/* Copies between a device and pinned memory of its host. */
typedef enum pdl_host_way {
    PDL_HOST_TO_HOST,   /* d2h */
    PDL_HOST_TO_DEVICE, /* h2d */
    PDL_HOST_BOTH,      /* each way, while the other is in use too */
    PDL_HOST_WAYS
} pdl_host_way_t;

typedef struct pdl_host_size {
    double bytes, bytes_per_s[PDL_HOST_WAYS];
} pdl_host_size_t;

typedef struct pdl_host_link {
    double                 bytes_per_s[PDL_HOST_WAYS]; /* of large copies; 0: not known */
    const pdl_host_size_t *size;                       /* of smaller ones, smallest first */
    int                    size_count;
} pdl_host_link_t;
/* Of one copy; 0 where the link is not known. */
double pdl_host_link_seconds(const pdl_host_link_t *link, pdl_host_way_t way, double bytes);

typedef struct pdl_device {
    const char     *name;
    double          memory_bytes, memory_bandwidth_bytes_per_s;
    double          peak_flop_per_s[PDL_PRECISION_COUNT]; /* 0: not available */
    int             compute_units;                        /* SMs or cores: granularity of work */
    double          launch_s;                             /* least time of one kernel */
    double          matrix_efficiency, memory_efficiency; /* reachable shares of the two peaks */
    bool            fitted; /* these agree with measured runs; else they are estimates */
    double          power_w, idle_power_w;
    double          queue_s; /* host time to queue one pass of a layer, where the host queues work ahead; 0: none */
    double          issue_s; /* of this, what is not spent on its kernels */
    double          step_s;  /* time of an update besides its operations: beginning, results */
    bool            graphs;  /* operations that need nothing of the host are queued at once */
    double          slice_s; /* for which ranks that share it have it in turn; 0: not known */
    double          sharing; /* share of its speed that ranks reach together which share it; 0: not known */
    double          sharers; /* ranks on one device; 1 in a description (pdl_system_widen) */
    pdl_host_link_t host_link;
    double          host_bytes;     /* memory of the host for one device; 0: not known */
    double host_update_bytes_per_s; /* of updates by processors of the host, for one device; 0: not known */
    double reserved_bytes;          /* runtime context and libraries */
    double copy_bytes_per_s;        /* of pieces of tensors inside its memory, around messages; 0: costs nothing */
} pdl_device_t;

/* Operations per second of a precision; those a device does not list run at its 32-bit speed. */
static inline double pdl_device_peak(const pdl_device_t *device, pdl_precision_t precision)
{
    double peak = device->peak_flop_per_s[precision];

    return peak > 0 ? peak : device->peak_flop_per_s[PDL_FP32];
}

typedef struct pdl_storage {
    double node_bandwidth_bytes_per_s, total_bandwidth_bytes_per_s; /* 0: not described */
    double decode_samples_per_s; /* per device, all its loader threads; 0: not described */
    /* Apart from each other, for data policies; without keys of their own they are as the first two say. */
    double local_bandwidth_bytes_per_s;  /* of the storage of a node */
    double local_bytes;                  /* that it holds; 0: not described */
    double client_bandwidth_bytes_per_s; /* of a node that reads from the parallel file system */
    double shared_bandwidth_bytes_per_s; /* of that file system for all nodes together */
    double shared_efficiency;            /* share of both rates that samples read in random order reach */
} pdl_storage_t;

/* What a layer, or a part of one, was measured to take on a device (docs/calibration.md). */
typedef struct pdl_measured {
    int    layer;     /* pdl_layer_type_t; PDL_MEASURED_UPDATE: the update of the weights */
    int    precision; /* pdl_precision_t */
    int    after;     /* activations and sums: type of the layer they follow, which may compute them too; else -1 */
    double work[2],
        seconds[2]; /* forward, backward: FLOP of products, bytes of all else; 0 s: costs nothing more */
    double in_channels, out_channels, window; /* of the part; elements of a kernel */
    bool
        halo; /* a window over a part in space: its two sides are padded differently, which other kernels compute */
    bool drops; /* attention that drops probabilities, which other kernels compute too */
} pdl_measured_t;
#define PDL_MEASURED_UPDATE PDL_LAYER_TYPE_COUNT

/* What an operation of a program was measured to take, found by its key (pdl_op_key) and samples (docs/calibration.md). Backward is
   what makes both gradients in one; dgrad and wgrad are 0 where they are not made apart. */
typedef enum pdl_timed_pass {
    PDL_TIMED_FORWARD,
    PDL_TIMED_BACKWARD,
    PDL_TIMED_DGRAD,
    PDL_TIMED_WGRAD,
    PDL_TIMED_PASSES
} pdl_timed_pass_t;
typedef struct pdl_timed_op {
    const char *key;
    uint64_t    hash;      /* of the key */
    int         precision; /* pdl_precision_t */
    double      samples;   /* of a micro-batch */
    double      seconds[PDL_TIMED_PASSES];
    double      queue_s[PDL_TIMED_PASSES];    /* of the host, where it queues work for a device */
    double      replayed_s[PDL_TIMED_PASSES]; /* within work that the device replays; 0: not known */
} pdl_timed_op_t;
uint64_t pdl_timed_hash(const char *key);
/* By hash, precision and samples. */
int pdl_timed_compare(const void *a, const void *b);

/* What running it costs, and how often it fails; 0 where that is not known. */
typedef struct pdl_ownership_fields {
    double device_mtbf_s; /* mean time between failures of one device, with its share of node and network */
    double restart_s;     /* from a failure to the next update: notice, start, loading */
    double checkpoint_bytes_per_s; /* writing, all ranks together, as long as they wait for it */
    double pue;                    /* power of the facility over that of the machine; 1 where it is not known */
    double node_power_w;           /* of a node besides its devices */
    double price_per_kwh;
} pdl_ownership_fields_t;

/* A network of any topology that joins the outermost groups in place of a tree: its hosts are the ports of these groups. The
   topology is made, when it is first asked for, by the module that knows topologies (pdl_topology_network()), and shared by
   copies of the system. */
typedef struct pdl_system_network {
    const char *text, *path; /* of a topology file: its text, or where it is */
    double port_bytes_per_s; /* of the outermost level in the file; a copy with faster ports has faster links too */
    void  *made;
    void (*destroy)(void *made);
} pdl_system_network_t;

/* Machines with several kinds of devices: nodes whose devices are alike, part after part (parts.c). */
#define PDL_MAX_PARTS 4
#define PDL_PART_NAME 32

typedef struct pdl_system_part {
    char         name[PDL_PART_NAME];
    pdl_device_t device;
    int64_t      nodes;            /* groups of level 0 */
    double       cost_per_pe_hour; /* 0 unknown */
    int          kind;             /* the first part with such devices: this one, or one before it */
} pdl_system_part_t;

typedef struct pdl_system {
    const char       *name, *description, *source;
    pdl_device_t      device; /* of several kinds: what every device has at the least */
    pdl_system_part_t part[PDL_MAX_PARTS];
    int               part_count; /* 0: all devices are alike */
    pdl_level_t       level[PDL_MAX_LEVELS];
    int               level_count;
    pdl_level_t   host_level[PDL_MAX_LEVELS]; /* the same levels for transfers staged through host memory, ... */
    bool          has_host_path;              /* ... or, when this is false, copies of level[] */
    pdl_storage_t storage;
    const struct pdl_fabric
        *fabric; /* collectives inside a node as they were measured (fabric.h); NULL: they were not */
    pdl_system_network_t  *network;          /* NULL: the outermost level is a tree like the others */
    int64_t                pe_count;         /* product of the fan-outs */
    double                 cost_per_pe_hour; /* in any currency; 0 unknown */
    pdl_ownership_fields_t ownership;
    const char            *parameters; /* name of the parameter set fitted for it, or NULL */
    const char
        *backend; /* of paradl train on it: "cpu", "cuda"; NULL: others train there, and memory is modelled */
    const pdl_measured_t *measured;
    int                   measured_count;
    const pdl_timed_op_t *operation; /* in the order of pdl_timed_compare() */
    int                   operation_count;
    struct pdl_arena     *arena; /* owns all of the above */
} pdl_system_t;

/* SYSTEM of the command line: a built-in name or the path of a .yaml file. */
pdl_status_t pdl_system_load(const char *name_or_path, const pdl_system_t **system);
/* The same with some of its values changed: "device.memory=32GB", "levels.1.bandwidth=25GB/s", as pdl_yaml_set() has them. */
pdl_status_t pdl_system_load_changed(const char *name_or_path, const char *const *changes, int count,
                                     const pdl_system_t **system);
/* Refuses latencies, sizes and rates of a device or link that are written without a unit and cannot be meant so. */
pdl_status_t pdl_system_check_units(const pdl_yaml_t *mapping);
pdl_status_t pdl_system_read_memory(const char *text, size_t length, const char *name, const pdl_system_t **system);
void         pdl_system_destroy(const pdl_system_t *system);

/* Of machines with several kinds of devices. An order is one of the parts' n! by its number, 0 as in the description; ranks are on the
   devices of its first part, then of its second one. */
int64_t pdl_system_orders(const pdl_system_t *system);
void    pdl_system_order(const pdl_system_t *system, int number, int order[PDL_MAX_PARTS]);
/* The order in which parts have these names; a message names those that the machine has. */
pdl_status_t pdl_system_find_order(const pdl_system_t *system, const char (*names)[PDL_PART_NAME], int count,
                                   int *number);
/* The kinds of devices, as a set of parts (1 << kind), of every rank whose number over `stride` is `stage` modulo `stages`, of `ranks`. */
unsigned pdl_system_kinds(const pdl_system_t *system, int order, int64_t ranks, int64_t stages, int64_t stride,
                          int64_t stage);
/* How many of the first `ranks` devices are of each kind. */
void pdl_system_count_kinds(const pdl_system_t *system, int order, int64_t ranks, int64_t count[PDL_MAX_PARTS]);
/* What one of the first `ranks` devices costs an hour, on average; 0 where that is not known of all. */
double pdl_system_price(const pdl_system_t *system, int order, int64_t ranks);
/* What both devices have at the least; the name is that of the first. */
pdl_device_t pdl_device_weaker(const pdl_device_t *a, const pdl_device_t *b);
/* Operations per second of the first `ranks` devices, on average. */
double pdl_system_peak(const pdl_system_t *system, int order, int64_t ranks, pdl_precision_t precision);

/* Whether all devices compute in this precision; the message lists those that one has. */
pdl_status_t pdl_system_check_precision(const pdl_system_t *system, pdl_precision_t precision);

/* Whether there are so many of its devices. */
pdl_status_t pdl_system_check_devices(const pdl_system_t *system, int64_t devices);

/* The lowest level whose groups hold `span` consecutive devices, the first of them at the start of a group. */
int pdl_system_level_of_span(const pdl_system_t *system, int64_t span);
/* devices in one group of a level. */
int64_t pdl_system_group_size(const pdl_system_t *system, int level);
/* The system for so many ranks. More ranks than it has devices share these: their time, if the description says what
   is left of it, and their memory. Otherwise that is the same for every plan, and plans are compared
   on a system with as many devices in its innermost groups. The copy borrows from the original. */
/* Whether ranks share the device and have it in turns. */
bool pdl_device_in_turns(const pdl_device_t *device);
/* What computation takes over what it takes a rank that has the device to itself, where so many compute at once. */
double       pdl_device_dilation(const pdl_device_t *device, double ranks);
pdl_system_t pdl_system_widen(const pdl_system_t *system, int64_t ranks);
/* Cores of a rank: those of a node, where a device is one or some of them, shared out over the ranks on it. GPUs have none, which
   is 1. */
int pdl_system_threads(const pdl_system_t *system, int64_t ranks);
/* Lowest common level of two devices. */
int pdl_system_common_level(const pdl_system_t *system, int64_t a, int64_t b);

#ifdef __cplusplus
}
#endif
#endif
