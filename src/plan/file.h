/*
 * What the writer and the reader of plan files share: names of axes, patterns of layer names, and the short
 * form of the modes. docs/plan_format.md describes the file.
 */
#ifndef PDL_PLAN_FILE_H
#define PDL_PLAN_FILE_H

#include <paradl/base/units.h>
#include <paradl/base/yaml.h>
#include <paradl/plan/plan.h>

/* Beyond these a plan is a mistake: ranks and samples are counted in MPI's int elsewhere. */
#define PDL__PLAN_MAX_RANKS INT32_MAX
#define PDL__PLAN_MAX_BATCH INT32_MAX

/* The name of an axis in the file: its kind, with the extent it cuts if it is spatial, and with its number
   among the axes of that name if there are several: "data", "spatial_1", "tensor_0", "spatial_0_1". */
#define PDL__AXIS_NAME_SIZE 32
void pdl__axis_name(const pdl_mesh_t *mesh, int axis, char name[PDL__AXIS_NAME_SIZE]);

/* The axis of this name, or -1; "spatial" stands for "spatial_0". */
int pdl__axis_find(const pdl_mesh_t *mesh, const char *name);

/* The pipeline axis chooses layers instead of splitting them, so nothing runs in a mode on it. */
static inline bool pdl__axis_has_modes(const pdl_axis_t *axis)
{
    return axis->kind != PDL_AXIS_PIPELINE;
}

/* Whether a pattern matches the whole of a name: '*' any characters, dots included, '?' one, [a-z] and [!a-z]
   one of a set, '\' takes the next character as it is. Unlike fnmatch() it takes no more than
   the product of the two lengths in steps, and does not depend on the locale. */
bool pdl__glob_match(const char *pattern, const char *name);

extern const char *const pdl__run_mode_names[2]; /* by pdl_run_mode_t */

/* The figures of a projection with their keys, ended by NULL. */
typedef struct pdl__projection_key {
    const char *key;
    size_t      offset; /* of the double in pdl_plan_projection_t */
    pdl_unit_t  unit;
} pdl__projection_key_t;
extern const pdl__projection_key_t pdl__projection_keys[];

/* As few digits as give the same number again; a decimal point whatever the locale. */
void pdl__plan_write_number(double value, FILE *stream);

/* The key data_policy of a plan file; nothing is written when the plan has none. */
pdl_status_t pdl__data_policy_read(const pdl_yaml_t *root, pdl_data_policy_t *policy);
void         pdl__data_policy_write(const pdl_data_policy_t *policy, FILE *stream);

/* Puts the place in front of a message that another module left without one. */
pdl_status_t pdl__plan_add_place(const pdl_yaml_t *node, pdl_status_t status);
/* The keys modes and collectives of a plan file. */
pdl_status_t pdl__plan_read_modes(const pdl_yaml_t *root, pdl_plan_t *plan);
pdl_status_t pdl__plan_read_collectives(const pdl_yaml_t *root, pdl_plan_file_t *file);

/* Modes in short: what holds for every layer, then exceptions, of which a later one wins. */
typedef struct pdl__mode_rule {
    char       *match;
    pdl_modes_t modes;
    bool        given[PDL_MAX_AXES]; /* axes the rule says something about */
} pdl__mode_rule_t;

typedef struct pdl__mode_rules {
    pdl_modes_t       everywhere;
    pdl__mode_rule_t *rules;
    int               count;
} pdl__mode_rules_t;

/* Rules that give exactly the plan's modes. Free with pdl__mode_rules_free(). */
pdl_status_t pdl__mode_rules_create(const pdl_plan_t *plan, pdl__mode_rules_t *rules);
void         pdl__mode_rules_free(pdl__mode_rules_t *rules);

#endif
