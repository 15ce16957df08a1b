/*
 * Any bytes given to the reader of documents, logs and pages become a page and a text, or an error that names the file.
 */
#define _GNU_SOURCE
#include <paradl/report/page.h>

#include "as_file.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_forms(const pdl_documents_t *documents)
{
    char  *text = NULL;
    size_t length = 0;
    FILE  *stream = open_memstream(&text, &length);

    if (stream == NULL) abort();
    assert(pdl_report_page(documents, &(pdl_page_options_t){.title = NULL}, stream) == PDL_OK);
    fflush(stream);
    assert(strstr(text, "<script") == strstr(text, "<script type=\"application/json\" id=\"paradl-documents\">"));
    assert(pdl_report_page_text(documents, NULL, stream) == PDL_OK);
    for (int i = 0; i < pdl_documents_count(documents); i++)
        assert(pdl_documents_write(documents, i, stream) == PDL_OK);
    fclose(stream);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file_t      file = fuzz_file_make(data, size);
    pdl_documents_t *documents;

    if (pdl_documents_create(&documents) != PDL_OK) abort();
    if (pdl_documents_add(documents, file.path) != PDL_OK)
        assert(strstr(pdl_error_message(), file.path) != NULL ||
               strstr(pdl_error_message(), "out of memory") != NULL);
    else if (pdl_documents_count(documents) > 0)
        write_forms(documents);
    pdl_documents_destroy(documents);
    fuzz_file_close(&file);
    return 0;
}
