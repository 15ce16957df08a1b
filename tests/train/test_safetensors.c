/*
 * What is written is read back bit by bit, by us and by another reader; damaged files are refused with their
 * reason; a full disk leaves the old file.
 */
#include "base/scratch.h"
#include "test.h"

#include <paradl/train/safetensors.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Tensors of the tests: element i of tensor t is a pattern of both. */
static pdl_status_t fill_pattern(void *context, int i, void *into)
{
    const pdl_stored_t *tensors = context;
    size_t              bytes = 0;

    switch (tensors[i].type) {
    case PDL_STORED_F32: bytes = 4; break;
    case PDL_STORED_F64: bytes = 8; break;
    case PDL_STORED_U8: bytes = 1; break;
    default: bytes = 2; break;
    }
    for (int d = 0; d < tensors[i].rank; d++) bytes *= (size_t)tensors[i].dims[d];
    for (size_t k = 0; k < bytes; k++) ((unsigned char *)into)[k] = (unsigned char)(31 * i + (int)k);
    return PDL_OK;
}

static pdl_stored_t declared[] = {
    {.name = "conv1.weight", .type = PDL_STORED_F32, .rank = 4, .dims = {3, 2, 3, 1}},
    {.name = "odd", .type = PDL_STORED_U8, .rank = 1, .dims = {5}},
    {.name = "empty", .type = PDL_STORED_F32, .rank = 2, .dims = {0, 7}},
    {.name = "scalar", .type = PDL_STORED_F64, .rank = 0},
    {.name = "n\"a\\m\ne \xc3\xa4", .type = PDL_STORED_BF16, .rank = 1, .dims = {3}},
};
#define DECLARED (int)(sizeof(declared) / sizeof(declared[0]))

static void round_trip(void)
{
    const pdl_metadata_t metadata[] = {{"format", "pt"}, {"quote", "\"\\\t"}};
    const char          *path = scratch_path("a.safetensors");
    pdl_safetensors_t   *file = NULL;
    unsigned char        expected[128];

    CHECK_OK(pdl_safetensors_write(path, declared, DECLARED, metadata, 2, fill_pattern, declared));
    REQUIRE_OK(pdl_safetensors_open(path, &file));
    if (file == NULL) return;
    CHECK_STR(pdl_safetensors_name(file), path);
    CHECK_INT(pdl_safetensors_count(file), DECLARED);
    for (int i = 0; i < DECLARED; i++) {
        const pdl_stored_t *found = pdl_safetensors_find(file, declared[i].name);

        CHECK(found != NULL);
        if (found == NULL) continue;
        CHECK_INT(found->type, declared[i].type);
        CHECK_INT(found->rank, declared[i].rank);
        for (int d = 0; d < found->rank; d++) CHECK_INT(found->dims[d], declared[i].dims[d]);
        CHECK_OK(fill_pattern(declared, i, expected));
        CHECK(memcmp(found->data, expected, found->bytes) == 0);
    }
    CHECK(pdl_safetensors_find(file, "conv1") == NULL);
    CHECK_STR(pdl_safetensors_metadata(file, "quote"), "\"\\\t");
    CHECK_STR(pdl_safetensors_metadata(file, "nothing"), NULL);
    CHECK_INT((uintptr_t)pdl_safetensors_at(file, 0)->data % 8, 0);
    pdl_safetensors_close(file);
}

/* The Python reader knows nothing of our code; it prints what it finds. */
static void another_reader_agrees(void)
{
    char  command[2048], line[256];
    FILE *pipe;
    int   lines = 0;

    if (system("python3 -c 'import json' 2>/dev/null") != 0) {
        printf("no python3: left out\n");
        return;
    }
    CHECK_OK(pdl_safetensors_write(scratch_path("b.safetensors"), declared, 4, NULL, 0, fill_pattern, declared));
    snprintf(command, sizeof(command), "python3 '%s/tests/reference/read_safetensors.py' '%s'", PDL_TEST_SOURCE,
             scratch_path("b.safetensors"));
    pipe = popen(command, "r");
    while (pipe != NULL && fgets(line, sizeof(line), pipe) != NULL) {
        char     name[64];
        unsigned first, last;
        size_t   bytes;

        CHECK_INT(sscanf(line, "%63s %zu %u %u", name, &bytes, &first, &last), 4);
        CHECK_STR(name, declared[lines].name);
        if (bytes > 0) {
            CHECK_INT(first, (31 * lines) & 255);
            CHECK_INT(last, (31 * lines + (int)bytes - 1) & 255);
        }
        lines++;
    }
    CHECK(pipe != NULL && pclose(pipe) == 0);
    CHECK_INT(lines, 4);
}

static size_t assemble(unsigned char *file, const char *header, const char *data, size_t data_bytes)
{
    size_t length = strlen(header);

    for (int i = 0; i < 8; i++) file[i] = (unsigned char)(length >> 8 * i);
    memcpy(file + 8, header, length);
    memcpy(file + 8 + length, data, data_bytes);
    return 8 + length + data_bytes;
}

static pdl_status_t read_header(const char *header, size_t data_bytes)
{
    unsigned char      bytes[2048];
    pdl_safetensors_t *file = NULL;
    size_t             length = assemble(bytes, header, "0123456789abcdef", data_bytes);
    pdl_status_t       status = pdl_safetensors_read_memory(bytes, length, "m", &file);

    CHECK((status == PDL_OK) == (file != NULL));
    pdl_safetensors_close(file);
    return status;
}

#define TENSOR(name, type, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void accepts_what_is_valid(void)
{
    CHECK_OK(read_header("{}", 0));
    CHECK_OK(read_header("{ }   \n", 0));
    CHECK_OK(read_header("{\"__metadata__\":{}}", 0));
    CHECK_OK(read_header("{" TENSOR("a", "F32", "[1]", "[0,4]") "}", 4));
    /* Any order of names and attributes; blanks anywhere. */
    CHECK_OK(read_header("{" TENSOR("a", "U8", "[2]", "[4,6]") "," TENSOR("b", "F32", "[]", "[0,4]") "}", 6));
    CHECK_OK(read_header("{\n\"a\" : {\"data_offsets\": [ 0 , 2 ],\t\"shape\":[ 2,1 ],\"dtype\" : \"I8\" } }", 2));
    CHECK_OK(read_header("{" TENSOR("a", "F32", "[0,9223372036854775807]", "[0,0]") "}", 0));
}

static void refuses_what_is_damaged(void)
{
    CHECK_ERROR(read_header("", 0), "m: this is no safetensors file: its header does not begin with '{'");
    CHECK_ERROR(read_header(" {}", 0), "does not begin with '{'");
    CHECK_ERROR(read_header("{", 0), "m: header, byte 1: expected '\"'");
    CHECK_ERROR(read_header("{} x", 0), "byte 3: text after the closing '}'");
    CHECK_ERROR(read_header("{}", 3), "3 bytes of data belong to no tensor");
    CHECK_ERROR(read_header("{\"a\":{}}", 0), "expected '\"'");
    CHECK_ERROR(read_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4), "tensor a lacks its data_offsets");
    CHECK_ERROR(read_header("{" TENSOR("a", "F33", "[1]", "[0,4]") "}", 4), "tensor a has the unknown type F33");
    CHECK_ERROR(read_header("{\"a\":{\"color\":1}}", 0), "unknown attribute \"color\"");
    CHECK_ERROR(read_header("{\"a\":{\"shape\":[1],\"shape\":[1]}}", 0), "an attribute comes twice");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("a", "F32", "[1]", "[4,8]") "}", 8),
                "two tensors have the name a");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[1]", "[0,8]") "}", 4), "truncated");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[1]", "[4,0]") "}", 4), "is at bytes 4 to 0 of 4");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[2]", "[0,4]") "}", 4),
                "a has 4 bytes, which its type and shape");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1]", "[2,6]") "}", 6),
                "tensor b begins at byte 2, but the one before it ends at byte 4");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[1]", "[4,8]") "}", 8), "tensor a begins at byte 4");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0), "type and shape");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[99999999999999999999]", "[0,4]") "}", 4), "too large");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[-1]", "[0,4]") "}", 4), "not negative");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[01]", "[0,4]") "}", 4), "begins with 0");
    CHECK_ERROR(read_header("{" TENSOR("a", "F32", "[1.0]", "[0,4]") "}", 4), "expected ']'");
    CHECK_ERROR(read_header("{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1),
                "more than 8 dimensions");
    CHECK_ERROR(read_header("{" TENSOR("a", "U8", "[1]", "[0,1,1]") "}", 1), "expected two offsets");
    CHECK_ERROR(read_header("{" TENSOR("a", "U8", "[1]", "[0]") "}", 1), "expected two offsets");
    CHECK_ERROR(read_header("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0), "two values for \"a\"");
    CHECK_ERROR(read_header("{\"__metadata__\":{},\"__metadata__\":{}}", 0), "comes twice");
    CHECK_ERROR(read_header("{\"__metadata__\":{\"a\":1}}", 0), "expected '\"'");
    CHECK_ERROR(read_header("{\"__metadata__\":{\"a\\u0000\":\"\"}}", 0), "zero character");
    CHECK_ERROR(read_header("{\"__metadata__\":{\"\\ud800\":\"\"}}", 0), "surrogate");
    CHECK_ERROR(read_header("{\"__metadata__\":{\"\\udc00\":\"\"}}", 0), "surrogate");
    CHECK_ERROR(read_header("{\"__metadata__\":{\"\\x\":\"\"}}", 0), "unknown escape");
    CHECK_ERROR(read_header("{\"__metadata__\":{\"\\u12g4\":\"\"}}", 0), "hexadecimal");
    CHECK_ERROR(read_header("{\"__metadata__\":{\"\xc0\x80\":\"\"}}", 0), "not UTF-8");
    CHECK_ERROR(read_header("{\"__metadata__\":{\"\n\":\"\"}}", 0), "control character");
    CHECK_ERROR(read_header("{\"__metadata__\":{\"a", 0), "the string does not end");
}

static void refuses_wrong_lengths(void)
{
    pdl_safetensors_t *file = NULL;
    unsigned char      bytes[64] = {0};
    char               text[] = "short";

    CHECK_ERROR(pdl_safetensors_read_memory(bytes, 7, "m", &file), "it has 7 bytes");
    bytes[0] = 57;
    CHECK_ERROR(pdl_safetensors_read_memory(bytes, 64, "m", &file), "truncated: a header of 57 bytes in 64 bytes");
    memset(bytes, 255, 8);
    CHECK_ERROR(pdl_safetensors_read_memory(bytes, 64, "m", &file), "its header would have 18446744073709551615");
    CHECK_ERROR(pdl_safetensors_open(scratch_path("absent"), &file), "No such file");
    CHECK_ERROR(pdl_safetensors_open(scratch_folder, &file), "no ordinary file");
    CHECK_ERROR(pdl_safetensors_open(scratch_file("short", text, 5), &file), "it has 5 bytes");
    CHECK_ERROR(pdl_safetensors_open(scratch_file("none", text, 0), &file), "it has 0 bytes");
    CHECK(file == NULL);
}

/* Every prefix of a good file is refused. */
static void refuses_truncation(void)
{
    unsigned char bytes[256];
    size_t        length =
        assemble(bytes, "{\"__metadata__\":{\"a\":\"b\"}," TENSOR("w", "F32", "[2]", "[0,8]") "}", "12345678", 8);
    pdl_safetensors_t *file = NULL;

    CHECK_OK(pdl_safetensors_read_memory(bytes, length, "m", &file));
    pdl_safetensors_close(file);
    for (size_t n = 0; n < length; n++) CHECK(pdl_safetensors_read_memory(bytes, n, "m", &file) != PDL_OK);
}

static void converts_every_type(void)
{
    static const unsigned char half[] = {0, 0x3c, 0, 0xc0, 1, 0, 0, 0x7c, 0xff, 0x7b};
    static const unsigned char bfloat[] = {0x80, 0x3f, 0, 0xc0};
    static const double        doubles[] = {1.5, -1e300, 0.1};
    static const int64_t       longs[] = {-3, 1 << 20};
    float                      out[8];
    pdl_stored_t               tensor = {.name = "t", .type = PDL_STORED_F16, .data = half, .bytes = sizeof(half)};

    CHECK_OK(pdl_stored_to_float(&tensor, 5, out));
    CHECK_NEAR(out[0], 1, 0);
    CHECK_NEAR(out[1], -2, 0);
    CHECK_NEAR(out[2], 0x1p-24, 0);
    CHECK(isinf(out[3]) && out[3] > 0);
    CHECK_NEAR(out[4], 65504, 0);
    tensor = (pdl_stored_t){.name = "t", .type = PDL_STORED_BF16, .data = bfloat, .bytes = sizeof(bfloat)};
    CHECK_OK(pdl_stored_to_float(&tensor, 2, out));
    CHECK_NEAR(out[0], 1, 0);
    CHECK_NEAR(out[1], -2, 0);
    tensor = (pdl_stored_t){.name = "t", .type = PDL_STORED_F64, .data = doubles, .bytes = sizeof(doubles)};
    tensor.bytes = 2 * sizeof(double);
    tensor.data = (const char *)doubles;
    CHECK_ERROR(pdl_stored_to_float(&tensor, 3, out), "tensor t has 2 elements, 3 are wanted");
    CHECK_OK(pdl_stored_to_float(&tensor, 2, out));
    CHECK_NEAR(out[0], 1.5, 0);
    CHECK(isinf(out[1]) && out[1] < 0);
    tensor = (pdl_stored_t){.name = "t", .type = PDL_STORED_I64, .data = longs, .bytes = sizeof(longs)};
    CHECK_OK(pdl_stored_to_float(&tensor, 2, out));
    CHECK_NEAR(out[0], -3, 0);
    CHECK_NEAR(out[1], 1 << 20, 0);
    tensor.type = PDL_STORED_OTHER;
    CHECK_ERROR(pdl_stored_to_float(&tensor, 2, out), "cannot be used as real numbers");
}

static void refuses_to_write_nonsense(void)
{
    const char  *path = scratch_path("c.safetensors");
    pdl_stored_t twice[] = {declared[0], declared[0]};
    pdl_stored_t one = declared[0];

    CHECK_ERROR(pdl_safetensors_write(path, twice, 2, NULL, 0, fill_pattern, twice), "two tensors have the name");
    one.type = PDL_STORED_OTHER;
    CHECK_ERROR(pdl_safetensors_write(path, &one, 1, NULL, 0, fill_pattern, &one), "its type cannot be written");
    one = declared[0];
    one.dims[1] = -2;
    CHECK_ERROR(pdl_safetensors_write(path, &one, 1, NULL, 0, fill_pattern, &one), "its shape is not possible");
    one.rank = 9;
    CHECK_ERROR(pdl_safetensors_write(path, &one, 1, NULL, 0, fill_pattern, &one), "has 9 dimensions");
    one = declared[0];
    one.name = "\xff";
    CHECK_ERROR(pdl_safetensors_write(path, &one, 1, NULL, 0, fill_pattern, &one), "not UTF-8");
    CHECK(access(path, F_OK) != 0);
}

static pdl_status_t fill_fails(void *context, int i, void *into)
{
    (void)context, (void)into;
    return i < 1 ? PDL_OK : pdl_error(PDL_ERR_IO, "the device is gone");
}

/* The limit on file sizes stands for a disk that is full. */
static void failure_leaves_the_old_file(void)
{
    struct rlimit      old, small;
    const char        *path = scratch_path("d.safetensors");
    pdl_safetensors_t *file = NULL;
    pdl_stored_t       large = {.name = "x", .type = PDL_STORED_F32, .rank = 2, .dims = {256, 1024}};

    CHECK_OK(pdl_safetensors_write(path, declared, DECLARED, NULL, 0, fill_pattern, declared));
    CHECK_ERROR(pdl_safetensors_write(path, declared, 2, NULL, 0, fill_fails, NULL), "the device is gone");
    signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 100000;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_ERROR(pdl_safetensors_write(path, &large, 1, NULL, 0, fill_pattern, &large), "cannot write");
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &old), 0);
    REQUIRE_OK(pdl_safetensors_open(path, &file));
    CHECK(file != NULL && pdl_safetensors_count(file) == DECLARED);
    pdl_safetensors_close(file);
}

int main(void)
{
    if (!scratch_begin()) return 1;
    RUN(round_trip);
    RUN(another_reader_agrees);
    RUN(accepts_what_is_valid);
    RUN(refuses_what_is_damaged);
    RUN(refuses_wrong_lengths);
    RUN(refuses_truncation);
    RUN(converts_every_type);
    RUN(refuses_to_write_nonsense);
    RUN(failure_leaves_the_old_file);
    scratch_end();
    return test_done();
}
