/* The YAML reader: the tree, the values, and a message with file and line for every mistake. */
#include <paradl/base/yaml.h>

#include "scratch.h"

static pdl_status_t parse(const char *text, pdl_yaml_doc_t **doc)
{
    return pdl_yaml_read_memory(text, strlen(text), "f.yaml", doc);
}

static pdl_yaml_doc_t *must_parse(const char *text)
{
    pdl_yaml_doc_t *doc = NULL;

    CHECK_OK(parse(text, &doc));
    if (doc == NULL) exit(test_done());
    return doc;
}

static void check_refused(const char *text, const char *message)
{
    pdl_yaml_doc_t *doc = NULL;

    CHECK_ERROR(parse(text, &doc), message);
    CHECK(doc == NULL);
}

static void builds_the_tree(void)
{
    pdl_yaml_doc_t   *doc = must_parse("# a comment\n"
                                         "name: test\n"
                                         "layers:\n"
                                         "  - {conv: 64, kernel: [3, 3]}\n"
                                         "  - relu\n"
                                         "empty: []\n");
    const pdl_yaml_t *root = pdl_yaml_root(doc), *layers, *conv;

    CHECK_INT(pdl_yaml_kind(root), PDL_YAML_MAPPING);
    CHECK_INT(pdl_yaml_size(root), 3);
    CHECK_STR(pdl_yaml_key(root, 1), "layers");
    CHECK_STR(pdl_yaml_text(pdl_yaml_value(root, 0)), "test");
    CHECK(pdl_yaml_find(root, "absent") == NULL);
    CHECK(pdl_yaml_text(root) == NULL);
    layers = pdl_yaml_find(root, "layers");
    CHECK_INT(pdl_yaml_kind(layers), PDL_YAML_SEQUENCE);
    CHECK_INT(pdl_yaml_size(layers), 2);
    CHECK(pdl_yaml_find(layers, "conv") == NULL);
    conv = pdl_yaml_item(layers, 0);
    CHECK_INT(pdl_yaml_size(pdl_yaml_find(conv, "kernel")), 2);
    CHECK_STR(pdl_yaml_text(pdl_yaml_item(layers, 1)), "relu");
    CHECK_INT(pdl_yaml_size(pdl_yaml_item(layers, 1)), 0);
    CHECK_INT(pdl_yaml_size(pdl_yaml_find(root, "empty")), 0);
    CHECK_INT(pdl_yaml_error(conv, "too many %s", "filters"), PDL_ERR_INPUT);
    CHECK_STR(pdl_error_message(), "f.yaml:4: too many filters");
    pdl_yaml_destroy(doc);
}

static void reads_json(void)
{
    pdl_yaml_doc_t   *doc = must_parse("{\n\t\"a\": [1, 2.5, true],\n\t\"b\": {\"c\": \"\\u00e9\"}\n}\n");
    const pdl_yaml_t *root = pdl_yaml_root(doc);

    CHECK_INT(pdl_yaml_size(pdl_yaml_find(root, "a")), 3);
    CHECK_STR(pdl_yaml_text(pdl_yaml_find(pdl_yaml_find(root, "b"), "c")), "\xc3\xa9");
    pdl_yaml_destroy(doc);
}

static void reads_windows_line_ends_and_byte_order_mark(void)
{
    pdl_yaml_doc_t *doc = must_parse("\xef\xbb\xbf"
                                     "a: 1\r\nb: x\r\n");

    CHECK_STR(pdl_yaml_text(pdl_yaml_find(pdl_yaml_root(doc), "a")), "1");
    CHECK_STR(pdl_yaml_text(pdl_yaml_find(pdl_yaml_root(doc), "b")), "x");
    pdl_yaml_destroy(doc);
}

static void refuses_what_is_not_used(void)
{
    check_refused("a: &x 1\nb: 2\n", "f.yaml:1: anchors");
    check_refused("a: 1\nb: *x\n", "f.yaml:2: aliases");
    check_refused("a: 1\n? &k b\n: 2\n", "f.yaml:2: anchors");
    check_refused("a: !!int 1\n", "f.yaml:1: anchors (&name) and tags");
    check_refused("a: !x {b: 1}\n", "f.yaml:1: anchors");
    check_refused("a: &l [1]\n", "f.yaml:1: anchors");
    check_refused("a: 1\n---\nb: 2\n", "f.yaml:2: a second document");
    check_refused("a: 1\n...\n---\nb: 2\n", "a second document");
    check_refused("? [a, b]\n: 1\n", "f.yaml:1: a key must be a plain name");
    check_refused("a: \"x\\0y\"\n", "f.yaml:1: a text must not contain a zero byte");
}

static void refuses_duplicate_keys(void)
{
    check_refused("a: 1\nb: 2\na: 3\n", "f.yaml:3: key \"a\" is given twice, first in line 1");
    check_refused("x:\n  - {k: 1, j: 2, k: 3}\n", "f.yaml:2: key \"k\" is given twice");
}

static void refuses_empty_files(void)
{
    check_refused("", "f.yaml: the file is empty");
    check_refused("# only a comment\n\n", "f.yaml: the file is empty");
}

static void names_the_line_of_a_syntax_error(void)
{
    check_refused("a: 1\nb: [1, 2\nc: 3\n", "f.yaml:3: ");
    check_refused("a: 1\n\tb: 2\n", "f.yaml:2: ");
    check_refused("a: 'open\n\n", "f.yaml:3: ");
    check_refused("a: b: c\n", "f.yaml:1: ");
    check_refused("}", "f.yaml:1: ");
    check_refused("a: 1\nb: \xff\n", "f.yaml:2: ");
    check_refused("a: 1\nb: \"\\q\"\n", "f.yaml:2: ");
    check_refused("%YAML 9.9\n---\na: 1\n", "f.yaml:1: ");
}

/* `levels` nested lists around nothing. */
static pdl_status_t parse_nested(int levels)
{
    char            text[300];
    pdl_yaml_doc_t *doc = NULL;
    pdl_status_t    st;

    memset(text, '[', (size_t)levels);
    memset(text + levels, ']', (size_t)levels);
    text[2 * levels] = '\0';
    st = parse(text, &doc);
    pdl_yaml_destroy(doc);
    return st;
}

static void limits_depth(void)
{
    CHECK_OK(parse_nested(64));
    CHECK_ERROR(parse_nested(65), "f.yaml:1: more than 64 levels");
    CHECK_ERROR(parse_nested(140), "more than 64 levels");
}

static void limits_size(void)
{
    pdl_yaml_doc_t *doc = NULL;

    CHECK_ERROR(pdl_yaml_read_memory("a", ((size_t)64 << 20) + 1, "f.yaml", &doc), "f.yaml: larger than 64 MiB");
    CHECK_ERROR(pdl_yaml_read_file("/dev/zero", &doc), "/dev/zero: larger than 64 MiB");
    CHECK(doc == NULL);
}

/* Many keys must not take quadratic time; the test's time limit notices. */
static void reads_many_keys(void)
{
    enum { KEYS = 200000 };
    char           *text = malloc(KEYS * 16);
    size_t          used = 0;
    pdl_yaml_doc_t *doc = NULL;
    int             i;

    for (i = 0; i < KEYS; i++) used += (size_t)sprintf(text + used, "k%d: %d\n", i, i);
    CHECK_OK(pdl_yaml_read_memory(text, used, "f.yaml", &doc));
    CHECK_INT(pdl_yaml_size(pdl_yaml_root(doc)), KEYS);
    CHECK_STR(pdl_yaml_text(pdl_yaml_find(pdl_yaml_root(doc), "k199999")), "199999");
    pdl_yaml_destroy(doc);
    free(text);
}

static void limits_the_number_of_values(void)
{
    size_t          length = 2 * 1000001 + 1, i;
    char           *text = malloc(length);
    pdl_yaml_doc_t *doc = NULL;

    text[0] = '[';
    for (i = 1; i < length; i++) text[i] = i % 2 ? '1' : ',';
    CHECK_ERROR(pdl_yaml_read_memory(text, length, "f.yaml", &doc), "f.yaml:1: more than a million values");
    CHECK(doc == NULL);
    free(text);
}

static void reads_files(void)
{
    pdl_yaml_doc_t *doc = NULL;
    const char     *path = scratch_file("good.yaml", "a: 1\n", 5);
    char            expected[600];

    CHECK_OK(pdl_yaml_read_file(path, &doc));
    pdl_yaml_error(pdl_yaml_root(doc), "here");
    snprintf(expected, sizeof(expected), "%s:1: here", path);
    CHECK_STR(pdl_error_message(), expected);
    pdl_yaml_destroy(doc);
    doc = NULL;
    CHECK_INT(pdl_yaml_read_file(scratch_path("absent.yaml"), &doc), PDL_ERR_IO);
    CHECK(strstr(pdl_error_message(), "absent.yaml: No such file or directory") != NULL);
    CHECK_ERROR(pdl_yaml_read_file(scratch_folder, &doc), "Is a directory");
    CHECK(doc == NULL);
    pdl_yaml_destroy(NULL);
}

static void reads_values(void)
{
    static const char *const kinds[] = {"ring", "torus", "fat-tree"};
    pdl_yaml_doc_t          *doc = must_parse("bandwidth: 25GB/s\nlatency: \"4us\"\nnodes: 64k\nfast: true\n"
                                                       "slow: false\nname: ''\nkind: torus\n");
    const pdl_yaml_t        *root = pdl_yaml_root(doc);
    double                   number = 0;
    int64_t                  integer = 0;
    bool                     truth = false;
    const char              *text = NULL;
    int                      index = -1;

    CHECK_OK(pdl_yaml_get_number(root, "bandwidth", PDL_UNIT_BYTE_RATE, PDL_REQUIRED, &number));
    CHECK_NEAR(number, 25e9, 0);
    CHECK_OK(pdl_yaml_get_number(root, "latency", PDL_UNIT_SECONDS, PDL_REQUIRED, &number));
    CHECK_NEAR(number, 4e-6, 1e-15);
    CHECK_OK(pdl_yaml_get_int(root, "nodes", 1, 1000000, PDL_REQUIRED, &integer));
    CHECK_INT(integer, 64000);
    CHECK_OK(pdl_yaml_get_bool(root, "fast", PDL_REQUIRED, &truth));
    CHECK(truth);
    CHECK_OK(pdl_yaml_get_bool(root, "slow", PDL_REQUIRED, &truth));
    CHECK(!truth);
    CHECK_OK(pdl_yaml_get_string(root, "name", PDL_REQUIRED, &text));
    CHECK_STR(text, "");
    CHECK_OK(pdl_yaml_get_enum(root, "kind", kinds, 3, PDL_REQUIRED, &index));
    CHECK_INT(index, 1);
    CHECK_OK(pdl_yaml_number(pdl_yaml_find(root, "nodes"), PDL_UNIT_NONE, &number));
    CHECK_NEAR(number, 64000, 0);
    pdl_yaml_destroy(doc);
}

static void leaves_absent_values_alone(void)
{
    pdl_yaml_doc_t   *doc = must_parse("\n\na: 1\n");
    const pdl_yaml_t *root = pdl_yaml_root(doc);
    double            number = 7;
    int64_t           integer = 7;
    const char       *text = "seven";

    CHECK_OK(pdl_yaml_get_number(root, "b", PDL_UNIT_NONE, PDL_OPTIONAL, &number));
    CHECK_NEAR(number, 7, 0);
    CHECK_OK(pdl_yaml_get_int(root, "b", 0, 9, PDL_OPTIONAL, &integer));
    CHECK_INT(integer, 7);
    CHECK_OK(pdl_yaml_get_string(root, "b", PDL_OPTIONAL, &text));
    CHECK_STR(text, "seven");
    CHECK_ERROR(pdl_yaml_get_number(root, "b", PDL_UNIT_NONE, PDL_REQUIRED, &number),
                "f.yaml:3: key \"b\" is missing");
    pdl_yaml_destroy(doc);
}

static void refuses_wrong_values(void)
{
    static const char *const kinds[] = {"ring", "torus", "fat-tree"};
    pdl_yaml_doc_t          *doc = must_parse("list: [1]\nword: hello\nnothing:\nmap: {a: 1}\n");
    const pdl_yaml_t        *root = pdl_yaml_root(doc);
    double                   number = 7;
    int64_t                  integer = 7;
    bool                     truth = true;
    const char              *text = "seven";
    int                      index = 7;

    CHECK_ERROR(pdl_yaml_get_number(root, "word", PDL_UNIT_BYTE_RATE, PDL_REQUIRED, &number),
                "f.yaml:2: word: expected a rate such as 25GB/s or 100Gb/s, found \"hello\"");
    CHECK_ERROR(pdl_yaml_get_number(root, "list", PDL_UNIT_NONE, PDL_OPTIONAL, &number),
                "f.yaml:1: list: expected a number, found a list");
    CHECK_ERROR(pdl_yaml_get_int(root, "nothing", 0, 9, PDL_OPTIONAL, &integer),
                "f.yaml:3: nothing: expected a whole number, found nothing");
    CHECK_ERROR(pdl_yaml_get_bool(root, "word", PDL_REQUIRED, &truth), "f.yaml:2: word: expected true or false");
    CHECK_ERROR(pdl_yaml_get_string(root, "map", PDL_REQUIRED, &text),
                "f.yaml:4: map: expected a text, found a mapping");
    CHECK_ERROR(pdl_yaml_get_string(root, "nothing", PDL_REQUIRED, &text), "expected a text, found nothing");
    CHECK_ERROR(pdl_yaml_get_enum(root, "word", kinds, 3, PDL_REQUIRED, &index),
                "f.yaml:2: word: expected ring, torus or fat-tree, found \"hello\"");
    CHECK_ERROR(pdl_yaml_int(pdl_yaml_find(root, "word"), 1, 4, &integer),
                "f.yaml:2: expected a whole number from 1 to 4, found \"hello\"");
    CHECK_ERROR(pdl_yaml_get_int(pdl_yaml_find(root, "list"), "x", 1, 4, PDL_OPTIONAL, &integer),
                "f.yaml:1: expected a mapping with the key \"x\", found a list");
    CHECK_ERROR(pdl_yaml_expect(root, PDL_YAML_SEQUENCE, "a list of layers"),
                "f.yaml:1: expected a list of layers, found a mapping");
    CHECK_ERROR(pdl_yaml_expect(pdl_yaml_find(root, "word"), PDL_YAML_MAPPING, "a layer"),
                "f.yaml:2: expected a layer, found \"hello\"");
    CHECK(number == 7 && integer == 7 && truth && index == 7);
    CHECK_STR(text, "seven");
    pdl_yaml_destroy(doc);
}

static void refuses_unknown_keys(void)
{
    static const char *const known[] = {"bandwidth", "latency", NULL};
    pdl_yaml_doc_t          *doc = must_parse("latency: 1us\nbandwith:\n  1GB/s\n");

    CHECK_ERROR(pdl_yaml_check_keys(pdl_yaml_root(doc), known),
                "f.yaml:2: unknown key \"bandwith\": did you mean bandwidth?");
    pdl_yaml_destroy(doc);
    doc = must_parse("colour: red\n");
    CHECK_ERROR(pdl_yaml_check_keys(pdl_yaml_root(doc), known),
                "f.yaml:1: unknown key \"colour\": expected bandwidth or latency");
    pdl_yaml_destroy(doc);
    doc = must_parse("latency: 1us\n");
    CHECK_OK(pdl_yaml_check_keys(pdl_yaml_root(doc), known));
    CHECK_ERROR(pdl_yaml_check_keys(pdl_yaml_find(pdl_yaml_root(doc), "latency"), known), "expected a mapping");
    pdl_yaml_destroy(doc);
}

static void check_format_of(const char *text, const char *message)
{
    pdl_yaml_doc_t *doc = must_parse(text);

    CHECK_ERROR(pdl_yaml_check_format(pdl_yaml_root(doc), "system"), message);
    pdl_yaml_destroy(doc);
}

static void checks_the_format_line(void)
{
    pdl_yaml_doc_t *doc = must_parse("paradl: system/1\n");

    CHECK_OK(pdl_yaml_check_format(pdl_yaml_root(doc), "system"));
    pdl_yaml_destroy(doc);
    check_format_of("a: 1\n", "f.yaml:1: expected the line \"paradl: system/1\"");
    check_format_of("paradl: [1]\n", "expected the line \"paradl: system/1\"");
    check_format_of("just text\n", "expected the line \"paradl: system/1\"");
    check_format_of("# x\nparadl: model/1\n",
                    "f.yaml:2: expected a system file (paradl: system/1), found \"model/1\"");
    check_format_of("paradl: systems/1\n", "expected a system file");
    check_format_of("paradl: system/2\n", "this version reads system/1, found \"system/2\"");
    check_format_of("paradl: system/1x\n", "this version reads system/1");
}

static void sets_values_by_their_path(void)
{
    pdl_yaml_doc_t *doc =
        must_parse("device: {memory: 16GB}\nlevels:\n  - {name: node, bandwidth: 1}\n  - {name: rack}\n");
    const pdl_yaml_t *levels = pdl_yaml_find(pdl_yaml_root(doc), "levels");

    CHECK_OK(pdl_yaml_set(doc, "device.memory", "32GB"));
    CHECK_OK(pdl_yaml_set(doc, "levels.node.bandwidth", "2"));
    CHECK_OK(pdl_yaml_set(doc, "levels.1.bandwidth", "3"));
    CHECK_STR(pdl_yaml_text(pdl_yaml_find(pdl_yaml_find(pdl_yaml_root(doc), "device"), "memory")), "32GB");
    CHECK_STR(pdl_yaml_text(pdl_yaml_find(pdl_yaml_item(levels, 0), "bandwidth")), "2");
    CHECK_STR(pdl_yaml_text(pdl_yaml_find(pdl_yaml_item(levels, 1), "bandwidth")), "3");
    CHECK_ERROR(pdl_yaml_set(doc, "devise.memory", "1"), "there is no \"devise\": did you mean device?");
    CHECK_ERROR(pdl_yaml_set(doc, "levels.2.name", "1"), "expected node or rack, or a number from 0");
    CHECK_ERROR(pdl_yaml_set(doc, "levels.5", "1"), "expected node or rack");
    CHECK_ERROR(pdl_yaml_set(doc, "device", "1"), "such as device.memory");
    CHECK_ERROR(pdl_yaml_set(doc, "device.memory.size", "1"), "a single value above \"size\"");
    pdl_yaml_destroy(doc);
}

static void writes_json_that_is_read_as_the_same(void)
{
    pdl_yaml_doc_t *doc = must_parse("a: {b: \"\", c: , d: 16GB}\nlist:\n  - 'q\"\\'\n  - |\n    two\n    lines\n"),
                   *again;
    char  *text = NULL;
    size_t length = 0;
    FILE  *stream = open_memstream(&text, &length);

    pdl_yaml_write_json(pdl_yaml_root(doc), stream);
    fclose(stream);
    CHECK_STR(text,
              "{\"a\":{\"b\":\"\",\"c\":null,\"d\":\"16GB\"},\"list\":[\"q\\\"\\\\\",\"two\\u000alines\\u000a\"]}");
    again = must_parse(text);
    CHECK_STR(pdl_yaml_text(pdl_yaml_item(pdl_yaml_find(pdl_yaml_root(again), "list"), 1)), "two\nlines\n");
    pdl_yaml_destroy(again);
    pdl_yaml_destroy(doc);
    free(text);
}

int main(void)
{
    if (!scratch_begin()) return 1;
    RUN(builds_the_tree);
    RUN(sets_values_by_their_path);
    RUN(writes_json_that_is_read_as_the_same);
    RUN(reads_json);
    RUN(reads_windows_line_ends_and_byte_order_mark);
    RUN(refuses_what_is_not_used);
    RUN(refuses_duplicate_keys);
    RUN(refuses_empty_files);
    RUN(names_the_line_of_a_syntax_error);
    RUN(limits_depth);
    RUN(limits_size);
    RUN(reads_many_keys);
    RUN(limits_the_number_of_values);
    RUN(reads_files);
    RUN(reads_values);
    RUN(leaves_absent_values_alone);
    RUN(refuses_wrong_values);
    RUN(refuses_unknown_keys);
    RUN(checks_the_format_line);
    scratch_end();
    return test_done();
}
