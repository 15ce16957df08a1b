/*
 * The guard device: what the host must not do, and streams that do not wait, are noticed.
 */
#include "test.h"

#include <paradl/tensor/backend.h>

#include <setjmp.h>
#include <signal.h>
#include <string.h>

#define COUNT 1000

static pdl_backend_t *backend;

static sigjmp_buf escape;

static void caught(int number)
{
    (void)number;
    siglongjmp(escape, 1);
}

/* Whether the host may read an address. */
static bool readable(const volatile char *address)
{
    struct sigaction before, action = {.sa_handler = caught};
    volatile bool    may = false;

    sigaction(SIGSEGV, &action, &before);
    if (sigsetjmp(escape, 1) == 0) {
        (void)*address;
        may = true;
    }
    sigaction(SIGSEGV, &before, NULL);
    return may;
}

static float *take(pdl_space_t space)
{
    void *memory = NULL;

    CHECK_OK(backend->device->ops->alloc(backend->device, space, COUNT * sizeof(float), &memory));
    return memory;
}

static void give(pdl_space_t space, void *memory)
{
    backend->device->ops->release(backend->device, space, memory, COUNT * sizeof(float));
}

static void test_host_is_kept_out(void)
{
    pdl_tensor_device_t *device = backend->device;
    float *inside = take(PDL_SPACE_DEVICE), *pinned = take(PDL_SPACE_PINNED), values[COUNT], back[COUNT];

    for (int i = 0; i < COUNT; i++) values[i] = (float)i / 3;
    CHECK(!device->host_access && readable((char *)pinned) && !readable((char *)inside));
    CHECK_OK(device->ops->copy(device, NULL, inside, values, sizeof(values)));
    CHECK_OK(device->ops->reduce(device, NULL, PDL_DTYPE_F32, values, inside, COUNT));
    CHECK_OK(device->ops->copy(device, NULL, back, inside, sizeof(back)));
    for (int i = 0; i < COUNT; i++) CHECK(back[i] == values[i] + values[i]);
    CHECK(!readable((char *)inside));
    /* Kernels must not be given memory of the host, nor more than there is. */
    CHECK_ERROR(backend->ops->add(backend, NULL, inside, values, sizeof(values), inside), "memory of the host");
    CHECK_ERROR(device->ops->fill(device, NULL, inside + 1, COUNT * sizeof(float)),
                "guard: 4000 bytes at 4 of 4000");
    give(PDL_SPACE_DEVICE, inside);
    give(PDL_SPACE_PINNED, pinned);
}

/* One stream doubles what another has written. */
static float twice(bool waits)
{
    pdl_tensor_device_t *device = backend->device;
    pdl_tensor_stream_t *first = NULL, *second = NULL;
    pdl_tensor_event_t  *event = NULL;
    float               *inside = take(PDL_SPACE_DEVICE), values[COUNT], back[COUNT];
    bool                 done = false;

    for (int i = 0; i < COUNT; i++) values[i] = 1;
    CHECK_OK(device->ops->stream_create(device, &first));
    CHECK_OK(device->ops->stream_create(device, &second));
    CHECK_OK(device->ops->event_create(device, &event));
    CHECK_OK(device->ops->copy(device, first, inside, values, sizeof(values)));
    CHECK_OK(device->ops->record(device, first, event));
    if (waits) CHECK_OK(device->ops->wait(device, second, event));
    CHECK_OK(device->ops->reduce(device, second, PDL_DTYPE_F32, inside, inside, COUNT));
    CHECK_OK(pdl_device_fetch(device, second, back, inside, sizeof(back)));
    while (!done) CHECK_OK(device->ops->query(device, event, &done));
    device->ops->stream_destroy(device, first);
    device->ops->stream_destroy(device, second);
    device->ops->event_destroy(device, event);
    give(PDL_SPACE_DEVICE, inside);
    return back[COUNT - 1];
}

static void test_order_is_by_events(void)
{
    CHECK(twice(true) == 2);
    CHECK(twice(false) == 0);
}

static pdl_status_t create(const char *name)
{
    pdl_backend_t *made;

    return pdl_backend_create(name, &(pdl_cpu_options_t){.threads = 1}, &made);
}

/* A failure inside of a stream is told by whoever waits next. */
static void test_failures_are_kept(void)
{
    pdl_tensor_device_t *device = backend->device;
    pdl_tensor_stream_t *stream = NULL;
    pdl_op_t            *op = NULL;
    pdl_shape_t          shape = {.channels = 4};
    pdl_layer_t          layer = {.name = "bend", .type = PDL_LAYER_RELU, .in = shape, .out = shape};
    pdl_op_spec_t        spec = {.layer = &layer, .inputs = &shape, .input_count = 1, .samples = 1};

    CHECK_OK(device->ops->stream_create(device, &stream));
    REQUIRE_OK(backend->ops->op_create(backend, &spec, &op));
    CHECK_OK(backend->ops->backward(op, stream, &(pdl_op_run_t){0}, PDL_BACKWARD_DATA));
    CHECK_ERROR(device->ops->synchronise(device, stream), "inference");
    CHECK_OK(device->ops->synchronise(device, stream));
    CHECK_ERROR(create("abacus"), "there is no device abacus");
    backend->ops->op_destroy(op);
    device->ops->stream_destroy(device, stream);
}

int main(void)
{
    if (pdl_backend_create_guard(&(pdl_cpu_options_t){.threads = 1}, true, &backend)) return 1;
    RUN(test_host_is_kept_out);
    RUN(test_order_is_by_events);
    RUN(test_failures_are_kept);
    pdl_backend_destroy(backend);
    return test_done();
}
