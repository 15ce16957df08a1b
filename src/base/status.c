/*
 * The error message of each thread.
 */
#include <paradl/base/status.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_SIZE 2048

static _Thread_local char message[MESSAGE_SIZE] = "no error";

const char *pdl_status_text(pdl_status_t status)
{
    switch (status) {
#define STATUS_CASE(name, value, text) \
    case PDL_##name: return text;
        PDL_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

int pdl_status_exit(pdl_status_t status)
{
    if (status == PDL_OK) return 0;
    return status == PDL_ERR_INPUT || status == PDL_ERR_LIMIT || status == PDL_ERR_UNSUPPORTED ? 2 : 1;
}

/* Names that users typed and bytes of broken files end up in messages: a message stays on one line and
   never carries an escape sequence to the terminal. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
    }
}

pdl_status_t pdl_error(pdl_status_t status, const char *format, ...)
{
    /* Arguments may point into the previous message, hence the second buffer. */
    char    next[MESSAGE_SIZE];
    va_list args;
    int     length;

    va_start(args, format);
    length = vsnprintf(next, sizeof(next), format, args);
    va_end(args);
    if (length < 0) {
        snprintf(next, sizeof(next), "%s", pdl_status_text(status));
    } else if ((size_t)length >= sizeof(next)) {
        memcpy(next + sizeof(next) - 4, "...", 4);
    }
    make_printable(next);
    memcpy(message, next, sizeof(message));
    return status;
}

const char *pdl_error_message(void)
{
    return message;
}
