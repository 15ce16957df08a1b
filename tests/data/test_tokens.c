/* Token files and text: windows, splits, vocabularies. */
#include "files.h"

#include "data/text/bpe.h"

#include <paradl/data/vocabulary.h>

#define WINDOW 8

static void write_tokens(const char *path, int first, int count)
{
    uint8_t bytes[512];
    int     i;

    for (i = 0; i < count; i++) {
        bytes[2 * i] = (uint8_t)((first + i) & 255);
        bytes[2 * i + 1] = (uint8_t)((first + i) >> 8);
    }
    write_file(path, bytes, (size_t)count * 2);
}

static void check_window(pdl_source_t *source, int64_t index, int64_t shift, int first)
{
    int32_t      tokens[WINDOW], labels[WINDOW];
    pdl_sample_t sample = {.tokens = tokens, .labels = labels, .shift = shift};
    int          i;

    CHECK_OK(pdl_source_read(source, index, &sample));
    for (i = 0; i < WINDOW; i++) {
        CHECK_INT(tokens[i], first + i);
        CHECK_INT(labels[i], first + i + 1);
    }
}

static void reads_a_pair_of_files(void)
{
    pdl_source_t *source;

    make_folder(in_scratch("pair"));
    write_tokens(in_scratch("pair/train.bin"), 250, 30);
    write_tokens(in_scratch("pair/val.bin"), 500, WINDOW + 1);
    CHECK_OK(open_with(in_scratch("pair"), PDL_SPLIT_TRAIN, SEQUENCE(WINDOW), &source));
    CHECK_INT(pdl_source_info(source)->samples, 3);
    CHECK_INT(pdl_source_info(source)->classes, 509); /* of both files */
    CHECK_INT(pdl_source_info(source)->target, PDL_TARGET_TOKENS);
    CHECK_INT(pdl_source_info(source)->target_count, WINDOW);
    CHECK(pdl_source_info(source)->tokens);
    check_window(source, 0, 0, 250);
    check_window(source, 2, 0, 266);
    check_window(source, 1, 5, 263);
    check_window(source, 2, 7, 271); /* as far as there are tokens */
    pdl_source_close(source);
    CHECK_OK(open_with(in_scratch("pair/train.bin"), PDL_SPLIT_VALID, SEQUENCE(WINDOW), &source));
    CHECK_INT(pdl_source_info(source)->samples, 1);
    check_window(source, 0, 0, 500);
    check_window(source, 0, 7, 500);
    pdl_source_close(source);
}

static void cuts_a_single_file(void)
{
    pdl_source_t        *source;
    pdl_source_options_t options = {.split = PDL_SPLIT_VALID, .shape = SEQUENCE(WINDOW), .valid_share = 0.25};

    write_tokens(in_scratch("one.bin"), 0, 100);
    REQUIRE_OK(pdl_source_open(in_scratch("one.bin"), &options, &source));
    CHECK_INT(pdl_source_info(source)->samples, 3);
    check_window(source, 0, 0, 75);
    pdl_source_close(source);
    options.split = PDL_SPLIT_TRAIN;
    options.classes = 50;
    REQUIRE_OK(pdl_source_open(in_scratch("one.bin"), &options, &source));
    CHECK_INT(pdl_source_info(source)->samples, 9);
    CHECK_INT(pdl_source_info(source)->classes, 50);
    check_window(source, 4, 0, 32);
    {
        int32_t      tokens[WINDOW], labels[WINDOW];
        pdl_sample_t sample = {.tokens = tokens, .labels = labels};

        CHECK_ERROR(pdl_source_read(source, 6, &sample), "token 50 is 50, not below the vocabulary of 50");
    }
    pdl_source_close(source);
}

static void refuses_bad_token_files(void)
{
    pdl_source_t *source;

    write_file(in_scratch("odd.bin"), "abc", 3);
    CHECK_REFUSED(in_scratch("odd.bin"), "not whole tokens");
    write_tokens(in_scratch("short.bin"), 0, 20);
    CHECK_REFUSED(in_scratch("short.bin"), "18 tokens are too few for a window of 256");
    CHECK_ERROR(open_with(in_scratch("one.bin"), PDL_SPLIT_TRAIN, IMAGE(3, 8, 8), &source), "holds tokens");
    write_file(in_scratch("none.bin"), "", 0);
    CHECK_REFUSED(in_scratch("none.bin"), "is empty");
}

static void reads_text(void)
{
    static const char    text[] = "banana cabana";
    pdl_source_t        *source;
    pdl_source_options_t options = {.shape = SEQUENCE(4), .valid_share = 0.0001};
    int32_t              tokens[4], labels[4];
    pdl_sample_t         sample = {.tokens = tokens, .labels = labels};

    write_file(in_scratch("text.txt"), text, strlen(text));
    REQUIRE_OK(pdl_source_open(in_scratch("text.txt"), &options, &source));
    CHECK_INT(pdl_source_info(source)->classes, 5); /* blank, a, b, c, n */
    CHECK_OK(pdl_source_read(source, 0, &sample));
    CHECK_INT(tokens[0], 2);
    CHECK_INT(tokens[1], 1);
    CHECK_INT(tokens[2], 4);
    CHECK_INT(labels[3], 4);
    pdl_source_close(source);
    options.vocabulary = "byte";
    REQUIRE_OK(pdl_source_open(in_scratch("text.txt"), &options, &source));
    CHECK_INT(pdl_source_info(source)->classes, 256);
    CHECK_OK(pdl_source_read(source, 1, &sample));
    CHECK_INT(tokens[2], ' ');
    pdl_source_close(source);
    options.classes = 200;
    CHECK_ERROR(pdl_source_open(in_scratch("text.txt"), &options, &source),
                "a vocabulary of 256, the model one of 200");
    options.classes = 0;
    options.vocabulary = "word";
    CHECK_ERROR(pdl_source_open(in_scratch("text.txt"), &options, &source), "expected char, byte, or a vocab.json");
}

static void reads_tinyshakespeare(void)
{
    pdl_source_t        *source;
    pdl_source_options_t options = {.folder = files_folder, .shape = SEQUENCE(64)};
    int32_t              tokens[64], labels[64];
    pdl_sample_t         sample = {.tokens = tokens, .labels = labels};

    REQUIRE_OK(pdl_source_open("tinyshakespeare", &options, &source));
    CHECK_INT(pdl_source_info(source)->classes, 65);
    CHECK_INT(pdl_source_info(source)->samples, (1003854 - 1) / 64);
    CHECK_OK(pdl_source_read(source, 0, &sample));
    CHECK_INT(tokens[0], 18); /* "First Citizen:\n", F after \n, blank, 11 signs and five capitals */
    CHECK_INT(tokens[14], 0);
    pdl_source_close(source);
    options.split = PDL_SPLIT_VALID;
    REQUIRE_OK(pdl_source_open("tinyshakespeare", &options, &source));
    CHECK_INT(pdl_source_info(source)->samples, (111540 - 1) / 64);
    CHECK_OK(pdl_source_read(source, pdl_source_info(source)->samples - 1, &sample));
    pdl_source_close(source);
    options.shape = (pdl_shape_t){0};
    options.split = PDL_SPLIT_TRAIN;
    REQUIRE_OK(pdl_source_open("tinyshakespeare", &options, &source));
    CHECK_INT(pdl_source_info(source)->samples, 3921); /* as share/data/tinyshakespeare.yaml says */
    pdl_source_close(source);
}

/* \u0120 is the blank, \u010a the end of a line. */
static const char vocabulary[] =
    "{\"l\": 0, \"o\": 1, \"w\": 2, \"e\": 3, \"r\": 4, \"\\u0120\": 5, \"lo\": 6, \"low\": 7, "
    "\"er\": 8, \"\\u0120low\": 9, \"<|endoftext|>\": 20, \"\\u010a\": 10, \"'\": 11, \"s\": 12, "
    "\"'s\": 13, \"ow\": 14, \"\\u00c3\": 15, \"\\u00a9\": 16, \"\\u00c3\\u00a9\": 17}";
static const char merges[] = "#version: 0.2\nl o\nlo w\ne r\n\xc4\xa0 low\n' s\no w\n\xc3\x83 \xc2\xa9\n";

static void check_encoding(const pdl__bpe_t *bpe, const char *text, const int32_t *expected, int64_t count)
{
    int32_t *tokens = NULL;
    int64_t  found = 0, i;

    CHECK_OK(pdl__bpe_encode(bpe, (const uint8_t *)text, strlen(text), "text", &tokens, &found));
    CHECK_INT(found, count);
    for (i = 0; i < found && i < count; i++) CHECK_INT(tokens[i], expected[i]);
    free(tokens);
}

#define CHECK_ENCODING(bpe, text, ...) \
    check_encoding((bpe), (text), (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / 4)

static void encodes_byte_pairs(void)
{
    pdl__bpe_t *bpe = NULL;
    int32_t    *tokens;
    int64_t     count;

    CHECK_OK(pdl__bpe_read_memory(vocabulary, strlen(vocabulary), "vocab.json", merges, strlen(merges),
                                  "merges.txt", &bpe));
    CHECK_INT(pdl__bpe_size(bpe), 21);
    CHECK_ENCODING(bpe, "low", 7);
    CHECK_ENCODING(bpe, "lower low", 7, 8, 9);
    CHECK_ENCODING(bpe, "low's", 7, 13);
    CHECK_ENCODING(bpe, "low  low", 7, 5, 9);
    CHECK_ENCODING(bpe, "low\n\nlow", 7, 10, 10, 7);
    CHECK_ENCODING(bpe, "low \nlow  ", 7, 5, 10, 7, 5, 5);
    CHECK_ENCODING(bpe, "oow", 1, 14);
    CHECK_ENCODING(bpe, "lolow", 6, 7);
    CHECK_ENCODING(bpe, "\xc3\xa9", 17);
    CHECK_ERROR(pdl__bpe_encode(bpe, (const uint8_t *)"lox", 3, "text", &tokens, &count), "byte 0x78");
    pdl__bpe_free(bpe);
}

static void refuse_tokenizer(const char *json, const char *part)
{
    pdl__bpe_t *bpe = NULL;

    CHECK_ERROR(pdl__bpe_read_json(json, strlen(json), "t", &bpe), part);
    CHECK(bpe == NULL);
}

static void reads_tokenizers(void)
{
    static const char rest[] =
        "\"merges\": [\"l o\", [\"lo\", \"w\"], \"e r\", [\"\xc4\xa0\", \"low\"], \"' s\", \"o w\"]}}";
    char        json[1024];
    pdl__bpe_t *bpe = NULL;

    snprintf(json, sizeof(json),
             "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 20}], \"model\": {\"vocab\": %s, %s", vocabulary,
             rest);
    CHECK_OK(pdl__bpe_read_json(json, strlen(json), "tokenizer.json", &bpe));
    CHECK_ENCODING(bpe, "lower low's", 7, 8, 9, 13);
    CHECK_INT(pdl__bpe_find(bpe, "<|endoftext|>"), 20);
    CHECK_INT(pdl__bpe_find(bpe, "nothing"), -1);
    pdl__bpe_free(bpe);
    refuse_tokenizer("{\"a\": 1}", "t: it has no \"model\"");
    refuse_tokenizer("{\"model\": {\"vocab\": {\"a\": 0}}}", "it has no \"merges\"");
    refuse_tokenizer("{\"model\": {\"vocab\": {\n\"a", "t:2: no JSON: a string does not end");
    refuse_tokenizer("{\"model\": {\"vocab\": {\"a\": 0},\n\"merges\": [\n\"a b\"]}}",
                     "t:3: the vocabulary does not have both");
    refuse_tokenizer("{\"model\": {\"vocab\": {\"a\": 0},\n\"merges\": [[\"a\"]]}}", "t:2: expected two tokens");
    refuse_tokenizer("{\"model\": {\"vocab\": {\"a\": 0},\n\"merges\": {}}}", "t:2: expected a list of merges");
}

/* As json.dump() of Python writes them: characters beyond ASCII escaped, in merges too. */
static void reads_escaped_tokenizers(void)
{
    static const char json[] = "{\"model\": {\"vocab\": {\"a\": 0, \"\\u0120\": 1, \"\\u0120a\": 2}, "
                               "\"merges\": [\"\\u0120 a\"]}}";
    pdl__bpe_t       *bpe = NULL;

    CHECK_OK(pdl__bpe_read_json(json, strlen(json), "tokenizer.json", &bpe));
    CHECK_ENCODING(bpe, "a a", 0, 2);
    pdl__bpe_free(bpe);
}

static void check_again(const pdl_vocabulary_t *vocabulary_of, const char *text)
{
    int32_t *tokens;
    int64_t  count;
    char    *again;
    size_t   length;

    REQUIRE_OK(pdl_vocabulary_encode(vocabulary_of, text, strlen(text), "text", &tokens, &count));
    REQUIRE_OK(pdl_vocabulary_decode(vocabulary_of, tokens, count, &again, &length));
    CHECK_STR(again, text);
    free(tokens);
    free(again);
}

static void texts_come_back(void)
{
    static const int32_t unknown[] = {3, 999, -1};
    pdl_vocabulary_t    *made;
    int32_t             *tokens;
    int64_t              count;
    char                *text;
    size_t               length;

    make_folder(in_scratch("pairs"));
    write_file(in_scratch("pairs/vocab.json"), vocabulary, strlen(vocabulary));
    write_file(in_scratch("pairs/merges.txt"), merges, strlen(merges));
    write_file(in_scratch("chars.txt"), "hello\nworld", 11);
    REQUIRE_OK(pdl_vocabulary_open(in_scratch("pairs"), NULL, &made));
    CHECK_INT(pdl_vocabulary_size(made), 21);
    CHECK_INT(pdl_vocabulary_end(made), 20);
    check_again(made, "lower low's \xc3\xa9\n");
    REQUIRE_OK(pdl_vocabulary_decode(made, unknown, 3, &text, &length));
    CHECK_STR(text, "e");
    free(text);
    pdl_vocabulary_close(made);
    REQUIRE_OK(pdl_vocabulary_open("byte", NULL, &made));
    check_again(made, "any \xff\x01 byte");
    pdl_vocabulary_close(made);
    REQUIRE_OK(pdl_vocabulary_open("char", in_scratch("chars.txt"), &made));
    CHECK_INT(pdl_vocabulary_size(made), 8);
    check_again(made, "low\nred");
    CHECK_ERROR(pdl_vocabulary_encode(made, "x", 1, "the prompt", &tokens, &count),
                "the prompt: the character 0x78");
    pdl_vocabulary_close(made);
    CHECK_ERROR(pdl_vocabulary_open("char", NULL, &made), "name it with --data");
}

static void cuts_words(void)
{
    static const struct {
        const char *text;
        size_t      length;
    } cases[] = {{"don't", 3},
                 {"'tis", 2},
                 {" 'tis", 2},
                 {"abc123", 3},
                 {"123abc", 3},
                 {" 123", 4},
                 {"!?.a", 3},
                 {" !?", 3},
                 {"   x", 2},
                 {" x", 2},
                 {"\n\nx", 1},
                 {"\nx", 1},
                 {"  ", 2},
                 {"\xc3\xa9t\xc3\xa9 ", 5},                   /* letters of two bytes */
                 {"\xc2\xb2x", 2},                            /* a superscript is a number */
                 {"\xe2\x80\x94x", 3},                        /* a dash is neither */
                 {"\xe3\x80\x80\xe3\x80\x80\xe4\xb8\xad", 3}, /* wide blanks */
                 {"\xff\xfe"
                  "a",
                  2}}; /* not UTF-8 */
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK_INT(pdl__bpe_word((const uint8_t *)cases[i].text, strlen(cases[i].text)), cases[i].length);
    }
}

/* One word of a megabyte takes no longer than a megabyte of words: with steps in the square of its length this test would
   not end. */
static void long_words_do_not_hurt(void)
{
    const size_t length = 1 << 20;
    pdl__bpe_t  *bpe = NULL;
    char        *text = malloc(length);
    int32_t     *tokens = NULL;
    int64_t      count = 0;
    size_t       i;

    CHECK_OK(pdl__bpe_read_memory(vocabulary, strlen(vocabulary), "vocab.json", merges, strlen(merges),
                                  "merges.txt", &bpe));
    for (i = 0; i < length; i++) text[i] = "low"[i % 3];
    CHECK_OK(pdl__bpe_encode(bpe, (const uint8_t *)text, length, "text", &tokens, &count));
    CHECK_INT(count, length / 3 + 1);
    CHECK_INT(tokens[0], 7);
    free(tokens);
    free(text);
    pdl__bpe_free(bpe);
}

static void reads_text_with_a_vocabulary(void)
{
    static const char    text[] = "low lower low low lower low";
    pdl_source_t        *source;
    pdl_source_options_t options = {.shape = SEQUENCE(3), .valid_share = 0.0001};
    int32_t              tokens[3], labels[3];
    pdl_sample_t         sample = {.tokens = tokens, .labels = labels};

    make_folder(in_scratch("gpt"));
    write_file(in_scratch("gpt/vocab.json"), vocabulary, strlen(vocabulary));
    write_file(in_scratch("gpt/merges.txt"), merges, strlen(merges));
    write_gzip(in_scratch("low.txt.gz"), text, strlen(text));
    options.vocabulary = in_scratch("gpt/vocab.json");
    REQUIRE_OK(pdl_source_open(in_scratch("low.txt.gz"), &options, &source));
    CHECK_INT(pdl_source_info(source)->classes, 21);
    CHECK_INT(pdl_source_info(source)->samples, 2);
    CHECK_OK(pdl_source_read(source, 0, &sample));
    CHECK_INT(tokens[0], 7);
    CHECK_INT(tokens[1], 9);
    CHECK_INT(labels[1], 8);
    pdl_source_close(source);
    options.vocabulary = in_scratch("gpt");
    REQUIRE_OK(pdl_source_open(in_scratch("low.txt.gz"), &options, &source));
    pdl_source_close(source);
    unlink(in_scratch("gpt/merges.txt"));
    CHECK_ERROR(pdl_source_open(in_scratch("low.txt.gz"), &options, &source), "merges.txt");
}

static void refuse_vocabulary(const char *json, const char *lines, const char *part)
{
    pdl__bpe_t *bpe = NULL;

    CHECK_ERROR(pdl__bpe_read_memory(json, strlen(json), "vocab.json", lines, strlen(lines), "merges.txt", &bpe),
                part);
    CHECK(bpe == NULL);
}

static void refuses_bad_vocabularies(void)
{
    refuse_vocabulary("", "", "vocab.json:1: no JSON: the text ends too early");
    refuse_vocabulary("[]", "", "vocab.json:1: expected an object");
    refuse_vocabulary("{}", "", "no tokens");
    refuse_vocabulary("{\"a\"", "", "colon");
    refuse_vocabulary("{\"a\": x}", "", "expected a value");
    refuse_vocabulary("{\"a\": 0.5}", "", "index of a token");
    refuse_vocabulary("{\"a\": \"0\"}", "", "index of a token");
    refuse_vocabulary("{\"a\": -1}", "", "index of a token");
    refuse_vocabulary("{\"a\": 1,\n \"a\": 2}", "", "vocab.json:2: the token is there twice");
    refuse_vocabulary("{\"a\": 99999999999}", "", "too large");
    refuse_vocabulary("{\"a\": 1", "", "expected , or }");
    refuse_vocabulary("{\"a\": 1} x", "", "follows");
    refuse_vocabulary("{\"a", "", "does not end");
    refuse_vocabulary("{\"\\q\": 1}", "", "escape");
    refuse_vocabulary("{\"\\ud800x\": 1}", "\xef\xbf\xbdx x", "merges.txt:1: expected two tokens");
    refuse_vocabulary("{\"a\": 1}", "a b\n", "merges.txt:1: the vocabulary does not have");
    refuse_vocabulary("{\"a\": 1, \"aa\": 2}", "#version\na a\na\n", "merges.txt:3: expected two tokens");
}

int main(void)
{
    files_begin();
    RUN(reads_a_pair_of_files);
    RUN(cuts_a_single_file);
    RUN(refuses_bad_token_files);
    RUN(reads_text);
    RUN(reads_tinyshakespeare);
    RUN(encodes_byte_pairs);
    RUN(reads_tokenizers);
    RUN(reads_escaped_tokenizers);
    RUN(texts_come_back);
    RUN(cuts_words);
    RUN(long_words_do_not_hurt);
    RUN(reads_text_with_a_vocabulary);
    RUN(refuses_bad_vocabularies);
    return test_done();
}
