/* Headers of tar archives are read, and damaged ones are refused. */
#include "test.h"

#include "data/source/tar_header.h"

static void seal(uint8_t block[PDL__TAR_BLOCK])
{
    unsigned sum = 0;

    memset(block + 148, ' ', 8);
    for (int i = 0; i < PDL__TAR_BLOCK; i++) sum += block[i];
    snprintf((char *)block + 148, 8, "%06o", sum);
}

static void make(uint8_t block[PDL__TAR_BLOCK], const char *name, const char *size, char type)
{
    memset(block, 0, PDL__TAR_BLOCK);
    memcpy(block, name, strlen(name));
    memcpy(block + 124, size, strlen(size));
    memcpy(block + 257, "ustar\00000", 8);
    block[156] = (uint8_t)type;
    seal(block);
}

static void reads_headers(void)
{
    uint8_t          block[PDL__TAR_BLOCK];
    pdl__tar_entry_t entry;

    make(block, "package/data.bin", "00000001750", '0');
    CHECK_OK(pdl__tar_parse(block, "a.tar", &entry));
    CHECK(entry.file && !entry.end);
    CHECK_STR(entry.name, "package/data.bin");
    CHECK_INT(entry.bytes, 1000);
    CHECK_INT(pdl__tar_padded(entry.bytes), 1024);
    CHECK_INT(pdl__tar_padded(0), 0);

    make(block, "folder/", "00000000000", '5');
    CHECK_OK(pdl__tar_parse(block, "a.tar", &entry));
    CHECK(!entry.file);
    memset(block, 0, sizeof(block));
    CHECK_OK(pdl__tar_parse(block, "a.tar", &entry));
    CHECK(entry.end);
}

static void joins_long_names(void)
{
    uint8_t          block[PDL__TAR_BLOCK];
    pdl__tar_entry_t entry;
    char             expected[PDL__TAR_NAME];

    make(block, "", "0", '0');
    memset(block, 'n', 100);
    memset(block + 345, 'p', 155);
    seal(block);
    memset(expected, 'p', 155);
    expected[155] = '/';
    memset(expected + 156, 'n', 100);
    expected[256] = '\0';
    CHECK_OK(pdl__tar_parse(block, "a.tar", &entry));
    CHECK_STR(entry.name, expected);
}

static void reads_large_sizes(void)
{
    uint8_t          block[PDL__TAR_BLOCK];
    pdl__tar_entry_t entry;

    make(block, "large", "77777777777", '0');
    CHECK_OK(pdl__tar_parse(block, "a.tar", &entry));
    CHECK_INT(entry.bytes, 8589934591);
    memset(block + 124, 0, 12);
    block[124] = 0x80;
    block[124 + 6] = 1;
    seal(block);
    CHECK_OK(pdl__tar_parse(block, "a.tar", &entry));
    CHECK_INT(entry.bytes, INT64_C(1) << 40);
}

static void refuses_damage(void)
{
    uint8_t          block[PDL__TAR_BLOCK];
    pdl__tar_entry_t entry;

    make(block, "file", "00000000010", '0');
    block[3] ^= 1;
    CHECK_ERROR(pdl__tar_parse(block, "a.tar", &entry), "a.tar is not a tar archive or is damaged");
    make(block, "file", "0000x000010", '0');
    CHECK_ERROR(pdl__tar_parse(block, "a.tar", &entry), "impossible size");
    make(block, "file", "0", '0');
    memset(block + 124, 0xff, 12);
    seal(block);
    CHECK_ERROR(pdl__tar_parse(block, "a.tar", &entry), "impossible size");
    block[124] = 0xbf;
    seal(block);
    CHECK_ERROR(pdl__tar_parse(block, "a.tar", &entry), "impossible size");
}

int main(void)
{
    RUN(reads_headers);
    RUN(joins_long_names);
    RUN(reads_large_sizes);
    RUN(refuses_damage);
    return test_done();
}
