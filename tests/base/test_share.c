/* Built-in descriptions are found by name, and a mistyped name gets a suggestion. */
#include <paradl/base/share.h>

#include "base/closest.h"
#include "scratch.h"

static const char *const extensions[] = {".yaml", ".onnx", NULL};

static char path[512];

static void make_share(void)
{
    static const char *const files[] = {
        "models/resnet50.yaml",  "models/resnet101.yaml", "models/resnet152.yaml",   "models/vgg16.yaml",
        "models/gpt2-1.5b.yaml", "models/llama2-7b.yaml", "models/both.yaml",        "models/both.onnx",
        "models/README.md",      "models/.hidden.yaml",   "parameters/default.yaml", "parameters/old.yaml",
    };
    size_t i;

    CHECK_INT(mkdir(scratch_path("models"), 0700), 0);
    CHECK_INT(mkdir(scratch_path("parameters"), 0700), 0);
    CHECK_INT(mkdir(scratch_path("data"), 0700), 0);
    for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) scratch_file(files[i], "x\n", 2);
    setenv("PARADL_SHARE", scratch_folder, 1);
}

static void finds_built_in_names(void)
{
    CHECK_OK(pdl_share_find("models", "resnet50", extensions, path, sizeof(path)));
    CHECK_STR(path, scratch_path("models/resnet50.yaml"));
    CHECK_OK(pdl_share_find("models", "gpt2-1.5b", extensions, path, sizeof(path)));
    CHECK_STR(path, scratch_path("models/gpt2-1.5b.yaml"));
    CHECK_OK(pdl_share_find("models", "both", extensions, path, sizeof(path)));
    CHECK_STR(path, scratch_path("models/both.yaml"));
}

static void takes_paths_as_they_are(void)
{
    char file[512];

    snprintf(file, sizeof(file), "%s", scratch_path("models/README.md"));
    CHECK_OK(pdl_share_find("models", file, extensions, path, sizeof(path)));
    CHECK_STR(path, file);
    CHECK_ERROR(pdl_share_find("models", "absent.yaml", extensions, path, sizeof(path)),
                "cannot read absent.yaml: No such file or directory");
    CHECK_ERROR(pdl_share_find("models", "./absent", extensions, path, sizeof(path)),
                "cannot read ./absent: No such file or directory");
    CHECK_ERROR(pdl_share_find("models", "./", extensions, path, sizeof(path)), "Is a directory");
}

static void suggests_close_names(void)
{
    CHECK_INT(pdl_share_find("models", "resnet5", extensions, path, sizeof(path)), PDL_ERR_INPUT);
    CHECK_STR(pdl_error_message(),
              "unknown model \"resnet5\": did you mean resnet50? (paradl model list shows all)");
    CHECK_ERROR(pdl_share_find("models", "vgg61", extensions, path, sizeof(path)), "did you mean vgg16?");
    CHECK_ERROR(pdl_share_find("models", "llama", extensions, path, sizeof(path)), "did you mean llama2-7b?");
    CHECK_ERROR(pdl_share_find("models", "resnet1", extensions, path, sizeof(path)), "resnet");
    CHECK_ERROR(pdl_share_find("models", "zzzzzzzz", extensions, path, sizeof(path)),
                "unknown model \"zzzzzzzz\" (paradl model list shows all)");
    CHECK_ERROR(pdl_share_find("models", "", extensions, path, sizeof(path)), "unknown model \"\"");
    CHECK_ERROR(pdl_share_find("parameters", "defualt", extensions, path, sizeof(path)),
                "unknown parameter set \"defualt\": expected default or old");
    CHECK_ERROR(pdl_share_find("data", "imagenet", extensions, path, sizeof(path)),
                "unknown data set \"imagenet\": there are no built-in ones");
    CHECK_ERROR(pdl_share_find("systems", "abci-v", extensions, path, sizeof(path)), "unknown system \"abci-v\"");
}

static void survives_long_names(void)
{
    char name[6000];

    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    CHECK_ERROR(pdl_share_find("models", name, extensions, path, sizeof(path)), "too long");
    name[100] = '\0';
    CHECK_ERROR(pdl_share_find("models", name, extensions, path, sizeof(path)), "unknown model");
    CHECK_ERROR(pdl_share_find("models", "resnet50", extensions, path, 10), "too long");
}

static void lists_sorted_names(void)
{
    static const char *const expected[] = {"both",      "gpt2-1.5b", "llama2-7b", "resnet101",
                                           "resnet152", "resnet50",  "vgg16"};
    char                   **names = NULL;
    size_t                   count = 0, i;

    CHECK_OK(pdl_share_list("models", extensions, &names, &count));
    CHECK_INT(count, 7);
    for (i = 0; i < count && i < 7; i++) CHECK_STR(names[i], expected[i]);
    pdl_share_free_list(names, count);
    CHECK_OK(pdl_share_list("data", extensions, &names, &count));
    CHECK_INT(count, 0);
    pdl_share_free_list(names, count);
    CHECK_ERROR(pdl_share_list("absent", extensions, &names, &count), "No such file or directory");
}

/* A variable that names no folder is a mistake; an empty one falls through to the source tree. */
static void falls_back_to_the_source_tree(void)
{
    char **names = NULL;
    size_t count = 0;

    setenv("PARADL_SHARE", scratch_path("nowhere"), 1);
    CHECK_ERROR(pdl_share_list("models", extensions, &names, &count), "which is not a folder");
    setenv("PARADL_SHARE", "", 1);
    CHECK_OK(pdl_share_list("models", extensions, &names, &count));
    pdl_share_free_list(names, count);
    setenv("PARADL_SHARE", scratch_folder, 1);
}

static void joins_names(void)
{
    static const char *const names[] = {"a", "b", "c"};
    char                     buffer[32];
    char                     small[11];

    pdl__join_names(names, 0, buffer, sizeof(buffer));
    CHECK_STR(buffer, "");
    pdl__join_names(names, 1, buffer, sizeof(buffer));
    CHECK_STR(buffer, "a");
    pdl__join_names(names, 2, buffer, sizeof(buffer));
    CHECK_STR(buffer, "a or b");
    pdl__join_names(names, 3, buffer, sizeof(buffer));
    CHECK_STR(buffer, "a, b or c");
    pdl__join_names(names, 3, small, sizeof(small));
    CHECK_STR(small, "a, b, ...");
}

int main(void)
{
    if (!scratch_begin()) return 1;
    make_share();
    RUN(finds_built_in_names);
    RUN(takes_paths_as_they_are);
    RUN(suggests_close_names);
    RUN(survives_long_names);
    RUN(lists_sorted_names);
    RUN(falls_back_to_the_source_tree);
    RUN(joins_names);
    scratch_end();
    return test_done();
}
