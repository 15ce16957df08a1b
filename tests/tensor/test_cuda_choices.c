/*
 * The file that keeps which kernels were chosen. It belongs to the plugin of GPUs, which is not linked with tests: the source is
 * compiled here once more.
 */
#include "tensor/plugin/cuda/choices.c"

#include "test.h"

static char path[] = "choices-XXXXXX";

static pdl__choices_t *open_for(const char *file, const char *device)
{
    pdl__choices_t *choices = NULL;

    REQUIRE_OK(pdl__choices_open(file, device, &choices));
    return choices;
}

static void without_a_file_they_last_as_long_as_the_gpu(void)
{
    pdl__choices_t *choices = open_for(NULL, "a");

    CHECK(pdl__choices_find(choices, "x") == NULL);
    CHECK_OK(pdl__choices_add(choices, "x", "1"));
    CHECK_OK(pdl__choices_add(choices, "x", "2"));
    CHECK_STR(pdl__choices_find(choices, "x"), "2");
    pdl__choices_close(choices);
}

static void they_are_made_once_in_a_process(void)
{
    pdl__choices_t *one, *again, *other;

    REQUIRE_OK(pdl__choices_share(NULL, "a", &one));
    CHECK_OK(pdl__choices_add(one, "x", "1"));
    REQUIRE_OK(pdl__choices_share(NULL, "a", &again));
    CHECK_STR(pdl__choices_find(again, "x"), "1");
    REQUIRE_OK(pdl__choices_share(NULL, "b", &other));
    CHECK(pdl__choices_find(other, "x") == NULL);
}

static void ranks_learn_from_each_other(void)
{
    pdl__choices_t *first = open_for(NULL, "a"), *second = open_for(NULL, "a"), *other = open_for(NULL, "b");
    char           *text = NULL;

    CHECK_OK(pdl__choices_add(first, "x", "1 2=3"));
    CHECK_OK(pdl__choices_add(first, "y", "4"));
    CHECK_OK(pdl__choices_add(second, "x", "5"));
    CHECK_OK(pdl__choices_add(second, "z", "6"));
    REQUIRE_OK(pdl__choices_text(first, &text));
    CHECK_OK(pdl__choices_learn(second, text));
    CHECK_OK(pdl__choices_learn(other, text));
    CHECK_STR(pdl__choices_find(second, "x"), "1 2=3");
    CHECK_STR(pdl__choices_find(second, "y"), "4");
    CHECK_STR(pdl__choices_find(second, "z"), "6");
    CHECK_INT(other->count, 0); /* another kind of device */
    CHECK_OK(pdl__choices_learn(second, ""));
    free(text);
    pdl__choices_close(first);
    pdl__choices_close(second);
    pdl__choices_close(other);
}

static void a_file_is_read_again_for_the_same_device(void)
{
    pdl__choices_t *choices = open_for(path, "a");

    for (int i = 0; i < 100; i++) {
        char key[16];

        snprintf(key, sizeof(key), "key %d", i);
        CHECK_OK(pdl__choices_add(choices, key, key + 4));
    }
    pdl__choices_close(choices);
    choices = open_for(path, "a");
    CHECK_STR(pdl__choices_find(choices, "key 77"), "77");
    pdl__choices_close(choices);
    choices = open_for(path, "b");
    CHECK(pdl__choices_find(choices, "key 77") == NULL);
    pdl__choices_close(choices);
}

static void lines_that_say_nothing_are_passed_over(void)
{
    FILE           *file = fopen(path, "w");
    pdl__choices_t *choices;

    REQUIRE(file != NULL);
    fprintf(file, "%s\na\nno tab\n\tno key\nno choice\t\ngood\tyes\ngood\tno\ncut o", FIRST_LINE);
    fclose(file);
    choices = open_for(path, "a");
    CHECK_INT(choices->count, 1);
    CHECK_STR(pdl__choices_find(choices, "good"), "yes");
    pdl__choices_close(choices);
}

static void a_folder_that_is_not_there_is_named(void)
{
    pdl__choices_t *choices = open_for("no-such-folder/choices", "a");

    CHECK_ERROR(pdl__choices_add(choices, "x", "1"), "no-such-folder/choices");
    pdl__choices_close(choices);
}

int main(void)
{
    int file = mkstemp(path);

    if (file < 0) return 1;
    close(file);
    RUN(without_a_file_they_last_as_long_as_the_gpu);
    RUN(they_are_made_once_in_a_process);
    RUN(ranks_learn_from_each_other);
    RUN(a_file_is_read_again_for_the_same_device);
    RUN(lines_that_say_nothing_are_passed_over);
    RUN(a_folder_that_is_not_there_is_named);
    remove(path);
    return test_done();
}
