/*
 * The verbs of the command.
 */
#include "cli/commands.h"

const pdl__verb_t pdl__verbs[] = {{"model", pdl__model_commands},       {"system", pdl__system_commands},
                                  {"data", pdl__data_commands},         {"plan", pdl__plan_commands},
                                  {"validate", pdl__validate_commands}, {"coll", pdl__coll_commands},
                                  {"topo", pdl__topo_commands},         {"simulate", pdl__simulate_commands},
                                  {"train", pdl__train_commands},       {"eval", pdl__eval_commands},
                                  {"predict", pdl__predict_commands},   {"calibrate", pdl__calibrate_commands},
                                  {"report", pdl__report_commands},     {NULL, NULL}};
