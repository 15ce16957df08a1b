/* CSV tables: classes and numbers, splits, cells that are no numbers. */
#include "files.h"

static void put(const char *name, const char *text)
{
    write_file(in_scratch("%s", name), text, strlen(text));
}

static void classes_are_read(void)
{
    pdl_source_t *source = NULL;
    float         values[2];
    int32_t       label;
    pdl_sample_t  sample = {.values = values, .labels = &label};

    put("iris.csv", "a,label,b\n1.5,2,-3\n0.25,0,1e3\n\"7\",1,0\n");
    REQUIRE_OK(open_plain(in_scratch("iris.csv"), &source));
    CHECK_INT(pdl_source_info(source)->samples, 3);
    CHECK_INT(pdl_source_info(source)->classes, 3);
    CHECK_INT(pdl_source_info(source)->shape.channels, 2);
    CHECK_INT(pdl_source_info(source)->shape.rank, 0);
    CHECK_OK(pdl_source_read(source, 1, &sample));
    CHECK_NEAR(values[0], 0.25, 0);
    CHECK_NEAR(values[1], 1000, 0);
    CHECK_INT(label, 0);
    CHECK_OK(pdl_source_read(source, 2, &sample));
    CHECK_NEAR(values[0], 7, 0);
    CHECK_INT(label, 1);
    pdl_source_close(source);
}

static void numbers_are_read(void)
{
    pdl_source_t *source = NULL;
    float         values[1], numbers[2];
    pdl_sample_t  sample = {.values = values, .numbers = numbers};

    put("fit.csv", "target_x,v,target_y\n0.5,1,-1\n2,3,4\n");
    REQUIRE_OK(open_plain(in_scratch("fit.csv"), &source));
    CHECK_INT(pdl_source_info(source)->target, PDL_TARGET_VALUES);
    CHECK_INT(pdl_source_info(source)->target_count, 2);
    CHECK_OK(pdl_source_read(source, 0, &sample));
    CHECK_NEAR(values[0], 1, 0);
    CHECK_NEAR(numbers[0], 0.5, 0);
    CHECK_NEAR(numbers[1], -1, 0);
    pdl_source_close(source);
}

static void mistakes_are_named(void)
{
    put("bad.csv", "a,b\n1,2\n");
    CHECK_REFUSED(in_scratch("bad.csv"), "expected one column label, or columns target");
    put("bad.csv", "label\n1\n");
    CHECK_REFUSED(in_scratch("bad.csv"), "columns of values");
    put("bad.csv", "label,a\n1,2\n0,\n");
    CHECK_REFUSED(in_scratch("bad.csv"), ":3: column a is empty");
    put("bad.csv", "label,a\n1,x\n");
    CHECK_REFUSED(in_scratch("bad.csv"), "x");
    put("bad.csv", "label,a\n0.5,1\n");
    CHECK_REFUSED(in_scratch("bad.csv"), "classes are whole numbers from 0");
    put("bad.csv", "label,a\n-1,1\n");
    CHECK_REFUSED(in_scratch("bad.csv"), "classes are whole numbers from 0");
    put("bad.csv", "label,a\n");
    CHECK_REFUSED(in_scratch("bad.csv"), "bad.csv");
}

int main(void)
{
    files_begin();
    RUN(classes_are_read);
    RUN(numbers_are_read);
    RUN(mistakes_are_named);
    return test_done();
}
