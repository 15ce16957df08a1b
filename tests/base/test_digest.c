/* The fast sum by its definition; SHA-256 of the examples of the standard, of lengths around a block, and in portions of any size. */
#include "test.h"

#include <paradl/base/digest.h>

#include <stdlib.h>
#include <unistd.h>

static void sum_of(const void *data, size_t size, size_t portion, char hex[PDL_SHA256_TEXT])
{
    pdl_sha256_t sum;

    pdl_sha256_begin(&sum);
    for (size_t done = 0; done < size; done += portion) {
        size_t count = size - done < portion ? size - done : portion;

        pdl_sha256_add(&sum, (const char *)data + done, count);
    }
    pdl_sha256_end(&sum, hex);
}

static void known_answers(void)
{
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char  hex[PDL_SHA256_TEXT];
    char *million = malloc(1000000);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sum_of(cases[i].text, strlen(cases[i].text), 7, hex);
        CHECK_STR(hex, cases[i].hex);
    }
    CHECK(million != NULL);
    if (million == NULL) return;
    memset(million, 'a', 1000000);
    sum_of(million, 1000000, 999, hex);
    CHECK_STR(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static void portions_do_not_matter(void)
{
    unsigned char data[200];
    char          whole[PDL_SHA256_TEXT], parts[PDL_SHA256_TEXT];

    for (size_t i = 0; i < sizeof(data); i++) data[i] = (unsigned char)(i * 37);
    for (size_t size = 0; size <= sizeof(data); size++) {
        sum_of(data, size, sizeof(data), whole);
        for (size_t portion = 1; portion < 70; portion += 9) {
            sum_of(data, size, portion, parts);
            CHECK_STR(parts, whole);
        }
    }
}

static void files(void)
{
    char  path[] = "digest-XXXXXX", hex[PDL_SHA256_TEXT];
    int   handle = mkstemp(path);
    FILE *file = handle >= 0 ? fdopen(handle, "wb") : NULL;

    CHECK(file != NULL);
    if (file == NULL) return;
    fputs("abc", file);
    fclose(file);
    CHECK_OK(pdl_sha256_file(path, hex));
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    unlink(path);
    CHECK_ERROR(pdl_sha256_file(path, hex), "cannot read digest-");
    CHECK_ERROR(pdl_sha256_file(".", hex), "cannot read .");
}

/* Values of the algorithm in docs/checkpoint_format.md, computed apart from this code. */
static void fast_sum_is_as_described(void)
{
    unsigned char data[200];

    for (size_t i = 0; i < sizeof(data); i++) data[i] = (unsigned char)(i * 37);
    CHECK(pdl_sum64("", 0) == UINT64_C(0xce66ebaa0fbe5302));
    CHECK(pdl_sum64("abc", 3) == UINT64_C(0x800774d372d5e9e6));
    CHECK(pdl_sum64(data, sizeof(data)) == UINT64_C(0x5413736d8d84e5d5));
}

static void fast_sum_notices_every_bit(void)
{
    unsigned char data[203];

    for (size_t i = 0; i < sizeof(data); i++) data[i] = (unsigned char)(i * 41);
    for (size_t size = 0; size <= sizeof(data); size += 29) {
        uint64_t whole = pdl_sum64(data, size);

        CHECK(size == 0 || pdl_sum64(data, size - 1) != whole);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            CHECK(pdl_sum64(data, size) != whole);
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
}

int main(void)
{
    RUN(fast_sum_is_as_described);
    RUN(fast_sum_notices_every_bit);
    RUN(known_answers);
    RUN(portions_do_not_matter);
    RUN(files);
    return test_done();
}
