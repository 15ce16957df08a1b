/*
 * Both backends against an independent implementation: outputs and gradients that PyTorch computed in double
 * precision (tests/reference/make_ops.py) for every layer type but dropout, whose random numbers are our own.
 */
#include "op_case.h"
#include "test.h"

#define REFERENCE_TOLERANCE 1e-6 /* the stored values have seven digits */
#define CPU_TOLERANCE       1e-5

static pdl_backend_t *reference, *cpu;

/* The file, read line by line. */
typedef struct reader {
    char *text, *next;
    int   line;
} reader_t;

static bool open_values(reader_t *reader)
{
    FILE  *file = fopen(PDL_TEST_SOURCE "/tests/reference/ops.txt", "rb");
    long   size;
    size_t got;

    if (file == NULL) return false;
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    *reader = (reader_t){.text = op_take((size_t)size + 1)};
    got = fread(reader->text, 1, (size_t)size, file);
    reader->text[got] = '\0';
    reader->next = reader->text;
    fclose(file);
    return got == (size_t)size;
}

/* The next line without its end, or NULL. */
static char *next_line(reader_t *reader)
{
    char *line = reader->next, *end = strchr(line, '\n');

    if (*line == '\0' || end == NULL) return NULL;
    *end = '\0';
    reader->next = end + 1;
    reader->line++;
    return line;
}

static bool starts(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

static double option(const char *line, const char *key)
{
    const char *at = strstr(line, key);

    return at ? strtod(at + strlen(key), NULL) : 0;
}

/* "case SAMPLES key=value ...", then the model text, a line after each bar. */
static op_case_t read_case(reader_t *reader, const char *line, char *text, size_t size)
{
    op_case_t c = {.text = text,
                   .samples = strtoll(line + strlen("case "), NULL, 10),
                   .evaluate = option(line, "evaluate=") != 0,
                   .smoothing = option(line, "smoothing="),
                   .ignore = option(line, "ignore=") != 0,
                   .weigh_samples = option(line, "weigh=") != 0,
                   .blocked = true};
    size_t    length = 0;

    text[0] = '\0';
    while (*reader->next == '|') {
        const char *part = next_line(reader) + strlen("| ");

        length += (size_t)snprintf(text + length, size - length, "%s\n", part);
    }
    return c;
}

/* The tensor that a line of values is about, or NULL. */
static const double *find_tensor(const op_result_t *result, const char *line, int64_t *count)
{
    long index = strtol(line + strcspn(line, " "), NULL, 10);

    if (starts(line, "output")) {
        *count = result->out_count;
        return result->output;
    }
    if (index < 0 || index >= PDL_MAX_WEIGHTS) return NULL;
    if (starts(line, "input")) {
        *count = result->in_count[index];
        return result->input_gradient[index];
    }
    *count = result->weight_count[index];
    return starts(line, "weight") ? result->weight_gradient[index] : result->weight[index];
}

/* One line "output COUNT values" or "input|weight|after INDEX COUNT values" against one result. */
static void check_line(const reader_t *reader, const op_case_t *c, const char *line, const op_result_t *result,
                       const char *backend, double bound)
{
    char         *at = (char *)line + strcspn(line, " ");
    int64_t       count = -1, stored;
    const double *found = find_tensor(result, line, &count);
    double       *expected, difference;

    if (!starts(line, "output")) strtol(at, &at, 10);
    stored = strtoll(at, &at, 10);
    if (found == NULL || stored != count) {
        test_fail_at("ops.txt", reader->line);
        printf("%s: %s: %.10s has %lld elements, expected %lld\n", backend, op_case_title(c), line,
               (long long)count, (long long)stored);
        return;
    }
    expected = op_doubles(count);
    for (int64_t i = 0; i < count; i++) expected[i] = strtod(at, &at);
    difference = op_difference(found, expected, count);
    if (!(difference <= bound)) {
        test_fail_at("ops.txt", reader->line);
        printf("%s: %s: %.10s off by %.2g of its scale\n", backend, op_case_title(c), line, difference);
    }
    free(expected);
}

static void check_values(pdl_backend_t *backend, double bound)
{
    reader_t    reader;
    op_result_t result = {.output = NULL};
    op_case_t   c = {.text = ""};
    char        text[1024], *line;
    int         cases = 0;
    bool        made = false;

    if (!open_values(&reader)) {
        test_fail_at(__FILE__, __LINE__);
        printf("tests/reference/ops.txt cannot be read\n");
        return;
    }
    while ((line = next_line(&reader)) != NULL) {
        if (starts(line, "#")) continue;
        if (!starts(line, "case ")) {
            if (made) check_line(&reader, &c, line, &result, backend->ops->name, bound);
            continue;
        }
        op_result_free(&result);
        c = read_case(&reader, line, text, sizeof(text));
        made = op_case_run(backend, &c, &result) == PDL_OK;
        cases++;
        if (made) continue;
        test_fail_at("ops.txt", reader.line);
        printf("%s: %s: %s\n", backend->ops->name, op_case_title(&c), pdl_error_message());
    }
    op_result_free(&result);
    free(reader.text);
    CHECK(cases > 60);
}

static void reference_agrees_with_torch(void)
{
    check_values(reference, REFERENCE_TOLERANCE);
}

static void cpu_agrees_with_torch(void)
{
    check_values(cpu, CPU_TOLERANCE);
}

int main(void)
{
    pdl_cpu_options_t options = {.threads = 2, .precision = PDL_DTYPE_F32};

    if (pdl_backend_create_reference(&reference) || pdl_backend_create_cpu(&options, &cpu)) {
        printf("no backend: %s\n", pdl_error_message());
        return 1;
    }
    RUN(reference_agrees_with_torch);
    RUN(cpu_agrees_with_torch);
    pdl_backend_destroy(reference);
    pdl_backend_destroy(cpu);
    return test_done();
}
