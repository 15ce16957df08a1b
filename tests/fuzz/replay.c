/*
 * Feeds every file of the given folders to a fuzzer, so that ordinary builds test the inputs that were kept.
 * A folder that does not exist counts as empty.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    struct stat info;
    FILE       *file = fopen(path, "rb");
    uint8_t    *data;
    size_t      size;

    if (file == NULL || fstat(fileno(file), &info) != 0) {
        perror(path);
        if (file != NULL) fclose(file);
        return 1;
    }
    /* An exact allocation lets the sanitizer see a read past the end. */
    size = (size_t)info.st_size;
    data = malloc(size > 0 ? size : 1);
    if (data == NULL || fread(data, 1, size, file) != size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        free(data);
        fclose(file);
        return 1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

static int replay_folder(const char *folder, int *count)
{
    DIR           *dir = opendir(folder);
    struct dirent *entry;
    int            failed = 0;

    if (dir == NULL) return 0;
    while ((entry = readdir(dir)) != NULL) {
        char path[4096];

        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        failed |= replay_file(path);
        (*count)++;
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0, count = 0, i;

    for (i = 1; i < argc; i++) failed |= replay_folder(argv[i], &count);
    printf("%d inputs replayed\n", count);
    return failed;
}
