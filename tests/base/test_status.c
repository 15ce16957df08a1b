/* The message of the latest failure. */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>

static void starts_without_error(void)
{
    CHECK_STR(pdl_error_message(), "no error");
}

static void names_every_code(void)
{
    CHECK_STR(pdl_status_text(PDL_OK), "success");
    CHECK_STR(pdl_status_text(PDL_ERR_INPUT), "wrong input");
    CHECK_STR(pdl_status_text(PDL_ERR_UNSUPPORTED), "not supported");
}

static void only_the_system_exits_with_one(void)
{
    CHECK_INT(pdl_status_exit(PDL_OK), 0);
    CHECK_INT(pdl_status_exit(PDL_ERR_NOMEM), 1);
    CHECK_INT(pdl_status_exit(PDL_ERR_IO), 1);
    CHECK_INT(pdl_status_exit(PDL_ERR_NOT_FINITE), 1);
    CHECK_INT(pdl_status_exit(PDL_ERR_INPUT), 2);
    CHECK_INT(pdl_status_exit(PDL_ERR_LIMIT), 2);
    CHECK_INT(pdl_status_exit(PDL_ERR_UNSUPPORTED), 2);
}

static void returns_the_status_it_is_given(void)
{
    CHECK_INT(pdl_error(PDL_ERR_IO, "cannot read %s", "x.yaml"), PDL_ERR_IO);
    CHECK_STR(pdl_error_message(), "cannot read x.yaml");
}

static void can_extend_its_own_message(void)
{
    pdl_error(PDL_ERR_INPUT, "expected a size");
    pdl_error(PDL_ERR_INPUT, "--max-memory: %s", pdl_error_message());
    CHECK_STR(pdl_error_message(), "--max-memory: expected a size");
}

static void stays_on_one_line(void)
{
    pdl_error(PDL_ERR_INPUT, "unknown model \"%s\"", "a\nb\x1b[31m\x7f");
    CHECK_STR(pdl_error_message(), "unknown model \"a?b?[31m?\"");
    pdl_error(PDL_ERR_INPUT, "%s", "\xc3\xa9t\xc3\xa9");
    CHECK_STR(pdl_error_message(), "\xc3\xa9t\xc3\xa9");
}

static void shortens_a_message_that_is_too_long(void)
{
    char   text[5000];
    size_t length;

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    pdl_error(PDL_ERR_INPUT, "%s", text);
    length = strlen(pdl_error_message());
    CHECK(length < sizeof(text) - 1);
    CHECK_STR(pdl_error_message() + length - 4, "x...");
}

static void *fail_in_thread(void *unused)
{
    (void)unused;
    pdl_error(PDL_ERR_INPUT, "of the thread");
    return NULL;
}

static void keeps_threads_apart(void)
{
    pthread_t thread;

    pdl_error(PDL_ERR_INPUT, "of the main thread");
    CHECK_INT(pthread_create(&thread, NULL, fail_in_thread, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_STR(pdl_error_message(), "of the main thread");
}

int main(void)
{
    RUN(starts_without_error);
    RUN(names_every_code);
    RUN(only_the_system_exits_with_one);
    RUN(returns_the_status_it_is_given);
    RUN(can_extend_its_own_message);
    RUN(stays_on_one_line);
    RUN(shortens_a_message_that_is_too_long);
    RUN(keeps_threads_apart);
    return test_done();
}
