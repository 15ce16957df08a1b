/*
 * Included before every source by tools/lint.sh. The analyzer looks at one source at a time and cannot know that
 * these functions never return PDL_OK; without this it follows every error path as if nothing had failed.
 */
#include "model/onnx/graph.h"

#include <paradl/base/yaml.h>

#define pdl_error(status, ...)         (pdl_error(status, __VA_ARGS__), (status))
#define pdl__onnx_fail(o, status, ...) (pdl__onnx_fail(o, status, __VA_ARGS__), (status))
#define pdl_yaml_error(node, ...)      (pdl_yaml_error(node, __VA_ARGS__), PDL_ERR_INPUT)
