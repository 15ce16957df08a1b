/*
 * Choices of kernels as a list in memory and as a file. There are some dozens: they are looked for one by one.
 */
#include "tensor/plugin/cuda/choices.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LINE "paradl kernel choices/1"

typedef struct entry {
    char *key, *choice;
} entry_t;

struct pdl__choices {
    char           *path, *device;
    entry_t        *entry;
    int             count, room;
    pdl__choices_t *next; /* of those that are shared */
};

static pdl_status_t out_of_memory(void)
{
    return pdl_error(PDL_ERR_NOMEM, "kernel choices: out of memory");
}

static entry_t *find(const pdl__choices_t *choices, const char *key)
{
    for (int i = 0; i < choices->count; i++)
        if (strcmp(choices->entry[i].key, key) == 0) return &choices->entry[i];
    return NULL;
}

static pdl_status_t append(pdl__choices_t *choices, const char *key, const char *choice)
{
    entry_t entry = {strdup(key), strdup(choice)};

    if (choices->count == choices->room) {
        int      room = choices->room > 0 ? 2 * choices->room : 32;
        entry_t *larger = realloc(choices->entry, (size_t)room * sizeof(*larger));

        if (larger != NULL) {
            choices->entry = larger;
            choices->room = room;
        }
    }
    if (entry.key == NULL || entry.choice == NULL || choices->count == choices->room) {
        free(entry.key);
        free(entry.choice);
        return out_of_memory();
    }
    choices->entry[choices->count++] = entry;
    return PDL_OK;
}

/* A line without its end; NULL at the end of the file. */
static char *next_line(FILE *file, char **line, size_t *room)
{
    ssize_t length = getline(line, room, file);

    if (length < 0) return NULL;
    if (length > 0 && (*line)[length - 1] == '\n') (*line)[length - 1] = '\0';
    return *line;
}

/* Lines that are not a key and a choice are of nobody: a file that was cut off costs a choice, not the run. */
static pdl_status_t read_entries(pdl__choices_t *choices, FILE *file)
{
    char        *line = NULL, *text;
    size_t       room = 0;
    pdl_status_t status = PDL_OK;

    text = next_line(file, &line, &room);
    if (text == NULL || strcmp(text, FIRST_LINE) != 0) goto done;
    text = next_line(file, &line, &room);
    if (text == NULL || strcmp(text, choices->device) != 0) goto done;
    while (status == PDL_OK && (text = next_line(file, &line, &room)) != NULL) {
        char *tab = strchr(text, '\t');

        if (tab == NULL || tab == text || tab[1] == '\0') continue;
        *tab = '\0';
        if (find(choices, text) == NULL) status = append(choices, text, tab + 1);
    }
done:
    free(line);
    return status;
}

pdl_status_t pdl__choices_open(const char *path, const char *device, pdl__choices_t **choices)
{
    pdl__choices_t *made = calloc(1, sizeof(*made));
    pdl_status_t    status = PDL_OK;
    FILE           *file;

    if (made == NULL) return out_of_memory();
    made->device = strdup(device);
    made->path = path != NULL ? strdup(path) : NULL;
    if (made->device == NULL || (path != NULL && made->path == NULL)) {
        pdl__choices_close(made);
        return out_of_memory();
    }
    file = path != NULL ? fopen(path, "r") : NULL;
    if (file != NULL) {
        status = read_entries(made, file);
        fclose(file);
    } else if (path != NULL && errno != ENOENT) {
        status = pdl_error(PDL_ERR_IO, "%s: %s; kernel choices cannot be read", path, strerror(errno));
    }
    if (status != PDL_OK) {
        pdl__choices_close(made);
        return status;
    }
    *choices = made;
    return PDL_OK;
}

pdl_status_t pdl__choices_share(const char *path, const char *device, pdl__choices_t **choices)
{
    static pdl__choices_t *known;
    pdl_status_t           status;

    for (*choices = known; *choices != NULL; *choices = (*choices)->next) {
        const char *file = (*choices)->path;

        if (strcmp((*choices)->device, device) == 0 && (path == NULL) == (file == NULL) &&
            (path == NULL || strcmp(path, file) == 0))
            return PDL_OK;
    }
    status = pdl__choices_open(path, device, choices);
    if (status != PDL_OK) return status;
    (*choices)->next = known;
    known = *choices;
    return PDL_OK;
}

const char *pdl__choices_find(const pdl__choices_t *choices, const char *key)
{
    const entry_t *entry = find(choices, key);

    return entry != NULL ? entry->choice : NULL;
}

static bool write_entries(const pdl__choices_t *choices, FILE *file)
{
    bool good = fprintf(file, "%s\n%s\n", FIRST_LINE, choices->device) > 0;

    for (int i = 0; good && i < choices->count; i++)
        good = fprintf(file, "%s\t%s\n", choices->entry[i].key, choices->entry[i].choice) > 0;
    return fclose(file) == 0 && good;
}

static pdl_status_t save(const pdl__choices_t *choices)
{
    char  beside[4096];
    FILE *file;

    /* Ranks of a node may write at the same time: each its own file, the last one stays. */
    if (snprintf(beside, sizeof(beside), "%s.%ld", choices->path, (long)getpid()) >= (int)sizeof(beside))
        return pdl_error(PDL_ERR_INPUT, "%s: the name is too long", choices->path);
    file = fopen(beside, "w");
    if (file == NULL || !write_entries(choices, file) || rename(beside, choices->path) != 0) {
        int cause = errno;

        if (file != NULL) (void)remove(beside);
        return pdl_error(PDL_ERR_IO, "%s: %s; kernel choices cannot be written", choices->path, strerror(cause));
    }
    return PDL_OK;
}

static pdl_status_t keep(pdl__choices_t *choices, const char *key, const char *choice)
{
    entry_t *entry = find(choices, key);
    char    *text;

    if (entry == NULL) return append(choices, key, choice);
    text = strdup(choice);
    if (text == NULL) return out_of_memory();
    free(entry->choice);
    entry->choice = text;
    return PDL_OK;
}

pdl_status_t pdl__choices_add(pdl__choices_t *choices, const char *key, const char *choice)
{
    pdl_status_t status = keep(choices, key, choice);

    return status == PDL_OK && choices->path != NULL ? save(choices) : status;
}

pdl_status_t pdl__choices_text(const pdl__choices_t *choices, char **text)
{
    size_t size = strlen(choices->device) + 2;
    char  *at;

    for (int i = 0; i < choices->count; i++)
        size += strlen(choices->entry[i].key) + strlen(choices->entry[i].choice) + 2;
    *text = at = malloc(size);
    if (at == NULL) return out_of_memory();
    at += sprintf(at, "%s\n", choices->device);
    for (int i = 0; i < choices->count; i++)
        at += sprintf(at, "%s\t%s\n", choices->entry[i].key, choices->entry[i].choice);
    return PDL_OK;
}

pdl_status_t pdl__choices_learn(pdl__choices_t *choices, const char *text)
{
    char        *lines = strdup(text), *rest = lines, *line, *tab;
    pdl_status_t status = lines != NULL ? PDL_OK : out_of_memory();

    line = lines != NULL ? strtok_r(lines, "\n", &rest) : NULL;
    if (line != NULL && strcmp(line, choices->device) == 0)
        while (status == PDL_OK && (line = strtok_r(NULL, "\n", &rest)) != NULL) {
            tab = strchr(line, '\t');
            if (tab == NULL) continue;
            *tab = '\0';
            status = keep(choices, line, tab + 1);
        }
    free(lines);
    return status;
}

void pdl__choices_close(pdl__choices_t *choices)
{
    if (choices == NULL) return;
    for (int i = 0; i < choices->count; i++) {
        free(choices->entry[i].key);
        free(choices->entry[i].choice);
    }
    free(choices->entry);
    free(choices->path);
    free(choices->device);
    free(choices);
}
