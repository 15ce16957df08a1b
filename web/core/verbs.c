/*
 * The verbs of a page: those that answer from descriptions alone.
 */
#include "cli/commands.h"
#include "page.h"

const pdl__verb_t pdl__verbs[] = {{"model", pdl__model_commands},
                                  {"system", pdl__system_commands},
                                  {"plan", pdl__plan_commands},
                                  {"topo", pdl__topo_commands},
                                  {"simulate", pdl__simulate_commands},
                                  {"page", pdl__page_commands},
                                  {NULL, NULL}};
