/// Functions and their values as people and programs read them.
#ifndef CRN_TOOLS_DESCRIBE_H
#define CRN_TOOLS_DESCRIBE_H

#include "cairn/asset.h"
#include "tools/json_writer.h"

/// "int32 [1,?]" (dynamic dims as ?), "float16 []", "image RGBA 512x512".
cairn_status crn_describe_type(crn_str *out, const cairn_descriptor *d);
/// "float32 [2,3]" of an array.
cairn_status crn_describe_array(crn_str *out, const cairn_ndarray *array);
/// "[1,?,3]"
cairn_status crn_describe_shape(crn_str *out, const int64_t *shape, int rank);

/// A function as readable lines on stdout.
cairn_status crn_print_function(const cairn_function_info *f);

/// {"name","dtype","shape"}; an image has dtype "image" and a further member "image".
void crn_write_descriptor(crn_json_writer *w, const cairn_descriptor *d);
/// {"name","inputs","outputs","states"}
void crn_write_function(crn_json_writer *w, const cairn_function_info *f);
/// A shape with null for dynamic dims.
void crn_write_shape(crn_json_writer *w, const int64_t *shape, int rank);

#endif
