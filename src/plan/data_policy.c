/*
 * The data policy of a plan: its text on the command line, its key in the plan file, and what can be wrong with it.
 */
#include "base/closest.h"
#include "plan/file.h"

#include <math.h>
#include <string.h>

const char *const pdl_policy_shuffle_names[PDL_POLICY_SHUFFLE_COUNT] = {"global", "local", "partial", "paired"};
const char *const pdl_policy_store_names[PDL_POLICY_STORE_COUNT] = {"pfs", "local"};

pdl_data_policy_t pdl_data_policy_default(void)
{
    return (pdl_data_policy_t){.shuffle = PDL_POLICY_GLOBAL, .store = PDL_POLICY_PFS, .refresh_every = 1};
}

static bool exchanges(const pdl_data_policy_t *policy)
{
    return policy->shuffle == PDL_POLICY_PARTIAL || policy->shuffle == PDL_POLICY_PAIRED;
}

/* Written so that NaN is refused as well. */
static bool is_share(double value)
{
    return value >= 0 && value <= 1;
}

pdl_status_t pdl_data_policy_check(const pdl_data_policy_t *policy)
{
    if (!is_share(policy->exchange))
        return pdl_error(PDL_ERR_INPUT, "data policy: exchange fraction of %g: expected 0 to 1", policy->exchange);
    if (!is_share(policy->hide))
        return pdl_error(PDL_ERR_INPUT, "data policy: hidden fraction of %g: expected 0 to 1", policy->hide);
    if (!is_share(policy->hide_mean) || policy->hide_mean > policy->hide)
        return pdl_error(PDL_ERR_INPUT,
                         "data policy: mean hidden fraction of %g: expected 0 to %g, what is hidden "
                         "at most",
                         policy->hide_mean, policy->hide);
    if (policy->refresh_every < 0)
        return pdl_error(PDL_ERR_INPUT,
                         "data policy: refreshed every %lld epochs: expected 1 or more, or 0 for never",
                         (long long)policy->refresh_every);
    if (policy->exchange > 0 && !exchanges(policy))
        return pdl_error(PDL_ERR_INPUT,
                         "data policy: %s shuffling exchanges nothing: leave the fraction out, or use "
                         "partial or paired",
                         pdl_policy_shuffle_names[policy->shuffle]);
    if (policy->shuffle != PDL_POLICY_GLOBAL && policy->store == PDL_POLICY_PFS)
        return pdl_error(PDL_ERR_INPUT,
                         "data policy: with %s shuffling the samples are kept on the nodes: leave "
                         "store out, or use global",
                         pdl_policy_shuffle_names[policy->shuffle]);
    return PDL_OK;
}

static pdl_status_t parse_share(const char *part, const char *value, double *share)
{
    if (pdl_parse_quantity(value, PDL_UNIT_NONE, share) == PDL_OK && is_share(*share)) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "data policy: %s: expected a fraction from 0 to 1, found \"%.40s\"", part,
                     value);
}

static int find_name(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0) return i;
    return -1;
}

/* The first part: the kind of shuffling, with its fraction where it exchanges samples. */
static pdl_status_t parse_shuffle(char *part, pdl_data_policy_t *policy)
{
    char *value = strchr(part, ':');
    char  names[64];
    int   kind;

    if (value != NULL) *value++ = '\0';
    kind = find_name(part, pdl_policy_shuffle_names, PDL_POLICY_SHUFFLE_COUNT);
    if (kind < 0) {
        pdl__join_names(pdl_policy_shuffle_names, PDL_POLICY_SHUFFLE_COUNT, names, sizeof(names));
        return pdl_error(PDL_ERR_INPUT, "data policy: unknown shuffling \"%.40s\": expected %s", part, names);
    }
    policy->shuffle = (pdl_policy_shuffle_t)kind;
    policy->store = kind == PDL_POLICY_GLOBAL ? PDL_POLICY_PFS : PDL_POLICY_NODE;
    if (exchanges(policy) && value == NULL)
        return pdl_error(PDL_ERR_INPUT, "data policy: %s needs the fraction to exchange, such as %s:0.1", part,
                         part);
    if (value == NULL) return PDL_OK;
    if (!exchanges(policy))
        return pdl_error(PDL_ERR_INPUT, "data policy: %s takes no fraction: it exchanges nothing", part);
    return parse_share(part, value, &policy->exchange);
}

static pdl_status_t parse_part(char *part, pdl_data_policy_t *policy, bool *mean_given)
{
    static const char *const keys[] = {"hide", "mean", "refresh", "store"};
    char                    *value = strchr(part, ':');
    int                      key, store;

    if (value != NULL) *value++ = '\0';
    key = find_name(part, keys, 4);
    if (key < 0 || value == NULL)
        return pdl_error(
            PDL_ERR_INPUT,
            "data policy: found \"%.40s\" where hide:F, mean:F, refresh:EPOCHS, store:pfs or store:local "
            "was expected",
            part);
    switch (key) {
    case 0: return parse_share(part, value, &policy->hide);
    case 1: *mean_given = true; return parse_share(part, value, &policy->hide_mean);
    case 2:
        if (pdl_parse_int(value, 0, INT32_MAX, &policy->refresh_every) == PDL_OK) return PDL_OK;
        return pdl_error(PDL_ERR_INPUT, "data policy: refresh: expected a number of epochs, found \"%.40s\"",
                         value);
    default:
        store = find_name(value, pdl_policy_store_names, PDL_POLICY_STORE_COUNT);
        if (store < 0)
            return pdl_error(PDL_ERR_INPUT, "data policy: unknown store \"%.40s\": expected pfs or local", value);
        policy->store = (pdl_policy_store_t)store;
        return PDL_OK;
    }
}

pdl_status_t pdl_data_policy_parse(const char *text, pdl_data_policy_t *policy)
{
    pdl_data_policy_t made = pdl_data_policy_default();
    char              copy[PDL_POLICY_TEXT_SIZE], *part = copy;
    bool              mean_given = false;
    pdl_status_t      status = PDL_OK;

    if (strlen(text) >= sizeof(copy))
        return pdl_error(PDL_ERR_INPUT, "data policy: at most %zu characters", sizeof(copy) - 1);
    memcpy(copy, text, strlen(text) + 1);
    made.given = true;
    for (int i = 0; part != NULL && !status; i++) {
        char *next = strchr(part, ',');

        if (next != NULL) *next++ = '\0';
        status = i == 0 ? parse_shuffle(part, &made) : parse_part(part, &made, &mean_given);
        part = next;
    }
    if (!mean_given) made.hide_mean = PDL_POLICY_HIDE_MEAN * made.hide;
    if (!status) status = pdl_data_policy_check(&made);
    if (!status) *policy = made;
    return status;
}

char *pdl_data_policy_format(const pdl_data_policy_t *policy, char text[PDL_POLICY_TEXT_SIZE])
{
    int used = snprintf(text, PDL_POLICY_TEXT_SIZE, "%s", pdl_policy_shuffle_names[policy->shuffle]);

#define APPEND(...) used += snprintf(text + used, PDL_POLICY_TEXT_SIZE - (size_t)used, __VA_ARGS__)
    if (exchanges(policy)) APPEND(":%.6g", policy->exchange);
    if (policy->shuffle == PDL_POLICY_GLOBAL && policy->store == PDL_POLICY_NODE) APPEND(",store:local");
    if (policy->hide > 0) APPEND(",hide:%.6g", policy->hide);
    if (policy->hide_mean != PDL_POLICY_HIDE_MEAN * policy->hide) APPEND(",mean:%.6g", policy->hide_mean);
    if (policy->refresh_every != 1) APPEND(",refresh:%lld", (long long)policy->refresh_every);
#undef APPEND
    return text;
}

static pdl_status_t read_share(const pdl_yaml_t *node, const char *key, double *share)
{
    pdl_status_t st = pdl_yaml_get_number(node, key, PDL_UNIT_NONE, PDL_OPTIONAL, share);

    if (st != PDL_OK || is_share(*share)) return st;
    return pdl_yaml_error(pdl_yaml_find(node, key), "%s: expected a fraction from 0 to 1, found %g", key, *share);
}

pdl_status_t pdl__data_policy_read(const pdl_yaml_t *root, pdl_data_policy_t *policy)
{
    static const char *const keys[] = {"shuffle", "exchange", "store", "hide", "hide_mean", "refresh_every", NULL};
    const pdl_yaml_t        *node = pdl_yaml_find(root, "data_policy");
    pdl_data_policy_t        made = pdl_data_policy_default();
    int                      shuffle = (int)made.shuffle, store;
    pdl_status_t             st;

    if (node == NULL) return PDL_OK;
    st = pdl_yaml_check_keys(node, keys);
    if (st == PDL_OK)
        st = pdl_yaml_get_enum(node, "shuffle", pdl_policy_shuffle_names, PDL_POLICY_SHUFFLE_COUNT, PDL_REQUIRED,
                               &shuffle);
    store = shuffle == PDL_POLICY_GLOBAL ? PDL_POLICY_PFS : PDL_POLICY_NODE;
    if (st == PDL_OK)
        st = pdl_yaml_get_enum(node, "store", pdl_policy_store_names, PDL_POLICY_STORE_COUNT, PDL_OPTIONAL, &store);
    if (st == PDL_OK) st = read_share(node, "exchange", &made.exchange);
    if (st == PDL_OK) st = read_share(node, "hide", &made.hide);
    made.hide_mean = PDL_POLICY_HIDE_MEAN * made.hide;
    if (st == PDL_OK) st = read_share(node, "hide_mean", &made.hide_mean);
    if (st == PDL_OK) st = pdl_yaml_get_int(node, "refresh_every", 0, INT32_MAX, PDL_OPTIONAL, &made.refresh_every);
    if (st != PDL_OK) return st;
    made.given = true;
    made.shuffle = (pdl_policy_shuffle_t)shuffle;
    made.store = (pdl_policy_store_t)store;
    if (exchanges(&made) && pdl_yaml_find(node, "exchange") == NULL)
        return pdl_yaml_error(node, "data_policy: %s needs exchange, the fraction to exchange, such as 0.1",
                              pdl_policy_shuffle_names[shuffle]);
    st = pdl_data_policy_check(&made);
    if (st != PDL_OK) return pdl_yaml_error(node, "%s", pdl_error_message());
    *policy = made;
    return PDL_OK;
}

void pdl__data_policy_write(const pdl_data_policy_t *policy, FILE *stream)
{
    if (!policy->given) return;
    fprintf(stream, "data_policy: {shuffle: %s", pdl_policy_shuffle_names[policy->shuffle]);
    if (exchanges(policy)) {
        fputs(", exchange: ", stream); /* of a zero, the sign would not be read */
        pdl__plan_write_number(fabs(policy->exchange), stream);
    }
    fprintf(stream, ", store: %s", pdl_policy_store_names[policy->store]);
    if (policy->hide > 0) {
        fputs(", hide: ", stream);
        pdl__plan_write_number(policy->hide, stream);
        fputs(", hide_mean: ", stream);
        pdl__plan_write_number(fabs(policy->hide_mean), stream);
    }
    fprintf(stream, ", refresh_every: %lld}\n", (long long)policy->refresh_every);
}
