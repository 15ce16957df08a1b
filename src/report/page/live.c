/*
 * The live part of a page. The core is the command itself as WebAssembly (web/core); it is asked with the words of a plan's
 * command, changed by the controls, and reads the descriptions that the page has under the paths that the command has them.
 */
#include "report/page/live.h"

#include "base/file.h"
#include "base/memory.h"
#include "report/page/pack.h"

#include <paradl/base/digest.h>
#include <paradl/base/json.h>
#include <paradl/base/share.h>
#include <paradl/base/yaml.h>

#include <stdlib.h>
#include <string.h>

#define MOST_EXTENDS 16

static char *read_part(const char *name, const char *extension, const char *otherwise, size_t *length)
{
    const char *extensions[] = {extension, NULL};
    char        path[4096], *text;

    if (pdl_share_find("report", name, extensions, path, sizeof(path))) {
        if (otherwise == NULL) return NULL;
        snprintf(path, sizeof(path), "%s", otherwise);
    }
    return pdl__file_read(path, &text, length) ? NULL : text;
}

/* The first plan, or else the first collective: its command is what is asked again. */
static const pdl__document_t *find_asked(const pdl_documents_t *documents)
{
    static const char *const kinds[] = {"plan-result", "collective"};

    for (int k = 0; k < 2; k++)
        for (int i = 0; i < documents->count; i++)
            if (strcmp(documents->item[i].kind, kinds[k]) == 0) return &documents->item[i];
    return NULL;
}

/* The value of --NAME among the words of a command, or NULL. */
static const char *word_after(const pdl__document_t *document, const char *name)
{
    size_t length = strlen(name);

    for (const pdl_json_value_t *word = pdl_json_first(document->head, "command"); word != NULL;
         word = word->next) {
        if (word->kind != PDL_JSON_STRING || strncmp(word->text, "--", 2) != 0 ||
            strncmp(word->text + 2, name, length) != 0)
            continue;
        if (word->text[2 + length] == '=') return word->text + 3 + length;
        if (word->text[2 + length] == '\0')
            return word->next != NULL && word->next->kind == PDL_JSON_STRING ? word->next->text : NULL;
    }
    return NULL;
}

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static char *join(char *script, size_t *length, char *more, size_t more_length)
{
    char *both = script != NULL && more != NULL ? realloc(script, *length + more_length + 1) : NULL;

    if (both != NULL) {
        memcpy(both + *length, more, more_length + 1);
        *length += more_length;
    } else {
        free(script);
    }
    free(more);
    return both;
}

/* The files of the script, one after the other; NULL where one is missing. */
static char *read_script(size_t *length)
{
    static const char *const parts[] = {"core",     "parts", "ask",  "ask_plan", "ask_network",
                                        "timeline", "run",   "yaml", "drop",     "page"};
    char                    *script = read_part(parts[0], ".js", NULL, length);

    for (size_t i = 1; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t more_length = 0;
        char  *more = read_part(parts[i], ".js", NULL, &more_length);

        script = join(script, length, more, more_length);
    }
    return script;
}

void pdl__live_open(pdl__live_t *live, const pdl_documents_t *documents, bool wanted)
{
    const pdl__document_t *asked = find_asked(documents);
    const char            *model = asked != NULL ? word_after(asked, "model") : NULL;
    bool                   plan = model != NULL && word_after(asked, "system") != NULL,
         network = asked != NULL && word_after(asked, "topology") != NULL;

    *live = (pdl__live_t){.missing = NULL};
    live->script = read_script(&live->script_length);
    if (live->script == NULL)
        live->missing = "the script of pages is not found: set PARADL_SHARE to the share folder of paradl";
    else if (!plan && !network)
        live->missing = "";
    else if (!wanted)
        live->missing = "it was left out by --no-core";
    else if (plan && ends_in(model, ".onnx"))
        live->missing = "a page does not read ONNX: use what paradl model import writes";
    if (live->missing != NULL) return;
    live->core = read_part("core", ".wasm.gz", PDL_BUILD_CORE, &live->core_length);
    if (live->core == NULL) live->missing = "paradl was built without it: make report builds it";
}

void pdl__live_close(pdl__live_t *live)
{
    free(live->script);
    free(live->core);
}

void pdl__live_policy(const pdl__live_t *live, FILE *stream)
{
    pdl_sha256_t  sum;
    char          hex[PDL_SHA256_TEXT], two[3] = "";
    unsigned char digest[32];

    fputs("default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:", stream);
    if (live->script == NULL) return;
    pdl_sha256_begin(&sum);
    pdl_sha256_add(&sum, live->script, live->script_length);
    pdl_sha256_end(&sum, hex);
    for (int i = 0; i < 32; i++) {
        memcpy(two, hex + 2 * i, 2);
        digest[i] = (unsigned char)strtoul(two, NULL, 16);
    }
    fputs("; script-src 'wasm-unsafe-eval' 'sha256-", stream);
    pdl__base64(digest, sizeof(digest), stream);
    fputs("'; worker-src blob:", stream);
}

/* Descriptions by the paths that the core finds them under. */
typedef struct bundle {
    pdl_json_t json;
    int        depth; /* of models that extend others */
} bundle_t;

static pdl_status_t add_file(bundle_t *bundle, const char *folder, const char *name);

static pdl_status_t add_yaml(bundle_t *bundle, const char *folder, const char *path, const char *as)
{
    pdl_yaml_doc_t   *doc;
    char             *text = NULL;
    size_t            length;
    FILE             *memory = NULL;
    const pdl_yaml_t *extends;
    const char       *base;
    pdl_status_t      status = pdl_yaml_read_file(path, &doc);

    if (status) return status;
    memory = open_memstream(&text, &length);
    if (memory == NULL) {
        pdl_yaml_destroy(doc);
        return pdl__no_memory("for descriptions of a page");
    }
    pdl_yaml_write_json(pdl_yaml_root(doc), memory);
    fclose(memory);
    pdl_json_string(&bundle->json, as, text);
    free(text);
    extends = strcmp(folder, "models") == 0 ? pdl_yaml_find(pdl_yaml_root(doc), "extends") : NULL;
    if (extends != NULL && !pdl_yaml_string(extends, &base) && bundle->depth < MOST_EXTENDS) {
        bundle->depth++;
        status = add_file(bundle, folder, base);
        bundle->depth--;
    }
    pdl_yaml_destroy(doc);
    return status;
}

static pdl_status_t add_file(bundle_t *bundle, const char *folder, const char *name)
{
    static const char *const extensions[] = {".yaml", ".net", ".lc", NULL};
    char                     path[4096], as[4200], *text;
    size_t                   length;
    pdl_status_t             status = pdl_share_find(folder, name, extensions, path, sizeof(path));

    if (status) return status;
    if (strcmp(path, name) == 0)
        snprintf(as, sizeof(as), "%s", name + strspn(name, "/"));
    else
        snprintf(as, sizeof(as), "share/%s/%s", folder, strrchr(path, '/') + 1);
    if (ends_in(path, ".yaml")) return add_yaml(bundle, folder, path, as);
    status = pdl__file_read(path, &text, &length);
    if (status) return status;
    pdl_json_string(&bundle->json, as, text);
    free(text);
    return PDL_OK;
}

static pdl_status_t add_folder(bundle_t *bundle, const char *folder)
{
    static const char *const extensions[] = {".yaml", NULL};
    char                   **names;
    size_t                   count;
    pdl_status_t             status = pdl_share_list(folder, extensions, &names, &count);

    if (status) return status;
    for (size_t i = 0; !status && i < count; i++) status = add_file(bundle, folder, names[i]);
    pdl_share_free_list(names, count);
    return status;
}

static pdl_status_t write_bundle(const pdl__document_t *asked, FILE *memory)
{
    static const struct {
        const char *word, *folder;
    } named[] = {{"model", "models"}, {"system", "systems"}, {"data", "data"}};
    const char  *topology = word_after(asked, "topology");
    bool         plan = strcmp(asked->kind, "plan-result") == 0;
    bundle_t     bundle = {.depth = 0};
    pdl_status_t status = PDL_OK;

    pdl_json_begin_line(&bundle.json, memory);
    pdl_json_open(&bundle.json, NULL, '{');
    for (size_t i = 0; !status && plan && i < sizeof(named) / sizeof(named[0]); i++)
        if (word_after(asked, named[i].word) != NULL)
            status = add_file(&bundle, named[i].folder, word_after(asked, named[i].word));
    if (topology != NULL && ends_in(topology, ".yaml")) status = add_file(&bundle, "topologies", topology);
    if (!status && plan) status = add_folder(&bundle, "parameters");
    if (!status && plan) status = add_folder(&bundle, "frameworks");
    pdl_json_close(&bundle.json);
    return status;
}

/* Files that are gone since the plan was made are no failure of the page. */
static pdl_status_t write_files(const pdl__document_t *asked, bool *written, FILE *stream)
{
    char        *text = NULL;
    void        *packed;
    size_t       length, packed_length;
    FILE        *memory = open_memstream(&text, &length);
    pdl_status_t status = memory != NULL ? write_bundle(asked, memory) : pdl__no_memory("for a page");

    if (memory != NULL) fclose(memory);
    *written = status == PDL_OK;
    if (status == PDL_OK) status = pdl__pack(text, length, &packed, &packed_length);
    if (status == PDL_OK) {
        pdl__pack_element("paradl-files", packed, packed_length, stream);
        free(packed);
    }
    free(text);
    return *written ? status : PDL_OK;
}

pdl_status_t pdl__live_write(const pdl__live_t *live, const pdl_documents_t *documents, FILE *stream)
{
    bool         written = false;
    pdl_status_t status = PDL_OK;

    if (live->core != NULL) status = write_files(find_asked(documents), &written, stream);
    if (!status && written) pdl__pack_element("paradl-core", live->core, live->core_length, stream);
    if (!status && live->script != NULL) {
        fputs("<script>", stream);
        fwrite(live->script, 1, live->script_length, stream);
        fputs("</script>\n", stream);
    }
    return status;
}
