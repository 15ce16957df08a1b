/*
 * The info of a checkpoint as metadata of its files: one text per field, under "paradl." and the field's name.
 * A table lists the fields, so that what is written is what is read. Numbers are written with all their digits.
 */
#include "train/checkpoint/checkpoint.h"

#include "base/number.h"

#include <paradl/base/digest.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "paradl."
#define FORMAT "checkpoint/1"

typedef enum kind { SIGNED, UNSIGNED, HASH, REAL, FLAG, TEXT, METHOD, SCHEDULE } kind_t;

static const struct field {
    const char *key;
    kind_t      kind;
    size_t      offset;
    bool        optional; /* the first version did not write it */
} fields[] = {
#define AT(field)    offsetof(pdl_checkpoint_info_t, field)
#define OPTION(name) PREFIX "optimizer." #name
    {PREFIX "step", SIGNED, AT(step), false},
    {PREFIX "epoch", SIGNED, AT(epoch), false},
    {PREFIX "step_in_epoch", SIGNED, AT(step_in_epoch), false},
    {PREFIX "loss_sum", REAL, AT(loss_sum), true},
    {PREFIX "accuracy_sum", REAL, AT(accuracy_sum), true},
    {PREFIX "sample_sum", REAL, AT(sample_sum), true},
    {PREFIX "seed", UNSIGNED, AT(seed), false},
    {PREFIX "batch", SIGNED, AT(batch), false},
    {PREFIX "model", TEXT, AT(model), false},
    {PREFIX "model_hash", HASH, AT(model_hash), false},
    {PREFIX "version", TEXT, AT(version), false},
    {OPTION(method), METHOD, AT(optimizer.method), false},
    {OPTION(lr), REAL, AT(optimizer.lr), false},
    {OPTION(momentum), REAL, AT(optimizer.momentum), false},
    {OPTION(nesterov), FLAG, AT(optimizer.nesterov), false},
    {OPTION(beta1), REAL, AT(optimizer.beta1), false},
    {OPTION(beta2), REAL, AT(optimizer.beta2), false},
    {OPTION(epsilon), REAL, AT(optimizer.epsilon), false},
    {OPTION(weight_decay), REAL, AT(optimizer.weight_decay), false},
    {OPTION(decay_all), FLAG, AT(optimizer.decay_all), false},
    {OPTION(trust), REAL, AT(optimizer.trust), false},
    {OPTION(clip_norm), REAL, AT(optimizer.clip_norm), false},
    {OPTION(ema), REAL, AT(optimizer.ema), false},
    {OPTION(schedule), SCHEDULE, AT(optimizer.schedule), false},
    {OPTION(warmup_steps), REAL, AT(optimizer.warmup_steps), false},
    {OPTION(total_steps), REAL, AT(optimizer.total_steps), false},
    {OPTION(min_lr), REAL, AT(optimizer.min_lr), false},
    {OPTION(power), REAL, AT(optimizer.power), false},
    {OPTION(gamma), REAL, AT(optimizer.gamma), false},
#undef AT
#undef OPTION
};
#define FIELDS     (sizeof(fields) / sizeof(fields[0]))
#define MILESTONES PREFIX "optimizer.milestones"
_Static_assert(FIELDS + 4 <= PDL__INFO_ENTRIES, "room for every field, the formats, milestones and description");

static const char *print_field(const struct field *field, const void *value, char *text, size_t size)
{
    switch (field->kind) {
    case SIGNED: snprintf(text, size, "%" PRId64, *(const int64_t *)value); break;
    case UNSIGNED: snprintf(text, size, "%" PRIu64, *(const uint64_t *)value); break;
    case HASH: snprintf(text, size, "%016" PRIx64, *(const uint64_t *)value); break;
    case REAL: pdl__number_print(text, size, "%.*g", 17, *(const double *)value); break;
    case FLAG: return *(const bool *)value ? "true" : "false";
    case TEXT: return *(const char *const *)value != NULL ? *(const char *const *)value : "";
    case METHOD: return pdl_method_names[*(const pdl_method_t *)value];
    case SCHEDULE: return pdl_lr_names[*(const pdl_lr_schedule_t *)value];
    }
    return text;
}

static void print_milestones(const pdl_optimizer_options_t *options, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < options->milestone_count && used < size; i++) {
        if (i > 0) text[used++] = ' ';
        used += (size_t)pdl__number_print(text + used, size - used, "%.*g", 17, options->milestone[i]);
    }
}

void pdl__checkpoint_info_write(const pdl_checkpoint_info_t *info, pdl__info_text_t *text)
{
    int n = 0;

    /* Other tools look at "format" to know whose names these are. */
    text->entry[n++] = (pdl_metadata_t){"format", "pt"};
    text->entry[n++] = (pdl_metadata_t){PREFIX "format", FORMAT};
    for (size_t i = 0; i < FIELDS; i++, n++) {
        text->entry[n].key = fields[i].key;
        text->entry[n].value =
            print_field(&fields[i], (const char *)info + fields[i].offset, text->text[n], sizeof(text->text[n]));
    }
    print_milestones(&info->optimizer, text->milestones, sizeof(text->milestones));
    text->entry[n++] = (pdl_metadata_t){MILESTONES, text->milestones};
    if (info->description != NULL) {
        snprintf(text->description, sizeof(text->description), "%016" PRIx64,
                 pdl_sum64(info->description, strlen(info->description)));
        text->entry[n++] = (pdl_metadata_t){PDL__DESCRIPTION_KEY, text->description};
    }
    text->count = n;
}

static bool scan_integer(const char *text, int base, bool negative, uint64_t *value)
{
    uint64_t limit = negative ? (uint64_t)INT64_MAX : UINT64_MAX;

    *value = 0;
    if (*text == '\0') return false;
    for (; *text != '\0'; text++) {
        const char *digits = "0123456789abcdef", *found = strchr(digits, *text);

        if (found == NULL || found - digits >= base) return false;
        if (*value > (limit - (uint64_t)(found - digits)) / (uint64_t)base) return false;
        *value = *value * (uint64_t)base + (uint64_t)(found - digits);
    }
    return true;
}

static bool scan_name(const char *text, const char *const *names, int count, int *value)
{
    for (*value = 0; *value < count; ++*value) {
        if (strcmp(names[*value], text) == 0) return true;
    }
    return false;
}

static bool scan_real(const char *text, double *value)
{
    const char *end;

    return pdl__number_scan(text, true, &end, value) && *end == '\0';
}

static bool scan_field(const struct field *field, const char *text, void *value)
{
    uint64_t integer = 0;
    int      choice = 0;
    bool     good = false;

    switch (field->kind) {
    case SIGNED:
        good = scan_integer(text, 10, true, &integer);
        if (good) *(int64_t *)value = (int64_t)integer;
        break;
    case UNSIGNED:
    case HASH:
        good = scan_integer(text, field->kind == HASH ? 16 : 10, false, &integer);
        if (good) *(uint64_t *)value = integer;
        break;
    case REAL: good = scan_real(text, value); break;
    case FLAG:
        *(bool *)value = strcmp(text, "true") == 0;
        good = *(bool *)value || strcmp(text, "false") == 0;
        break;
    case TEXT:
        *(const char **)value = text;
        good = true;
        break;
    case METHOD:
        good = scan_name(text, pdl_method_names, PDL_METHOD_COUNT, &choice);
        if (good) *(pdl_method_t *)value = (pdl_method_t)choice;
        break;
    case SCHEDULE:
        good = scan_name(text, pdl_lr_names, PDL_LR_COUNT, &choice);
        if (good) *(pdl_lr_schedule_t *)value = (pdl_lr_schedule_t)choice;
        break;
    }
    return good;
}

static bool scan_milestones(const char *text, pdl_optimizer_options_t *options)
{
    options->milestone_count = 0;
    while (*text != '\0') {
        if (options->milestone_count == PDL_MAX_MILESTONES) return false;
        if (!pdl__number_scan(text, false, &text, &options->milestone[options->milestone_count++])) return false;
        if (*text == ' ' && text[1] != '\0')
            text++;
        else if (*text != '\0')
            return false;
    }
    return true;
}

static pdl_status_t refuse(const pdl_safetensors_t *file, const char *key, const char *value)
{
    if (value == NULL)
        return pdl_error(PDL_ERR_INPUT, "%s: its metadata lacks %s: it is no part of a checkpoint",
                         pdl_safetensors_name(file), key);
    return pdl_error(PDL_ERR_INPUT, "%s: metadata %s cannot be \"%s\"", pdl_safetensors_name(file), key, value);
}

pdl_status_t pdl__checkpoint_info_read(const pdl_safetensors_t *file, pdl_checkpoint_info_t *info)
{
    const char *value = pdl_safetensors_metadata(file, PREFIX "format");
    char        message[256];

    if (value == NULL) return refuse(file, PREFIX "format", NULL);
    if (strcmp(value, FORMAT) != 0)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: the format is %s, this version reads %s",
                         pdl_safetensors_name(file), value, FORMAT);
    memset(info, 0, sizeof(*info));
    for (size_t i = 0; i < FIELDS; i++) {
        value = pdl_safetensors_metadata(file, fields[i].key);
        if (value == NULL && fields[i].optional) continue;
        if (value == NULL || !scan_field(&fields[i], value, (char *)info + fields[i].offset))
            return refuse(file, fields[i].key, value);
    }
    value = pdl_safetensors_metadata(file, MILESTONES);
    if (value == NULL || !scan_milestones(value, &info->optimizer)) return refuse(file, MILESTONES, value);
    if (pdl_optimizer_check(&info->optimizer) == PDL_OK) return PDL_OK;
    snprintf(message, sizeof(message), "%s", pdl_error_message());
    return pdl_error(PDL_ERR_INPUT, "%s: %s", pdl_safetensors_name(file), message);
}
