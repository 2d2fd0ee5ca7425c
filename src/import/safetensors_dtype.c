#include "import/safetensors_dtype.h"

#include <string.h>

#include "import/safetensors.h"

// One row per element type of the format; CAIRN_DTYPE_NONE marks those cairn has no type for.
static const struct {
  const char *name;
  cairn_dtype dtype;
} rows[] = {
    {"BOOL", CAIRN_BOOL},
    {"U8", CAIRN_UI8},
    {"I8", CAIRN_SI8},
    {"U16", CAIRN_UI16},
    {"I16", CAIRN_SI16},
    {"U32", CAIRN_UI32},
    {"I32", CAIRN_SI32},
    {"U64", CAIRN_UI64},
    {"I64", CAIRN_SI64},
    {"F16", CAIRN_F16},
    {"BF16", CAIRN_BF16},
    {"F32", CAIRN_F32},
    {"F64", CAIRN_F64},
    {"F8_E5M2", CAIRN_F8E5M2},
    {"F8_E4M3", CAIRN_F8E4M3FN},
    {"F8_E8M0", CAIRN_F8E8M0FNU},
    {"F4", CAIRN_F4E2M1FN},
    {"C64", CAIRN_C64},
    {"F6_E2M3", CAIRN_DTYPE_NONE},
    {"F6_E3M2", CAIRN_DTYPE_NONE},
    {"F8_E5M2FNUZ", CAIRN_DTYPE_NONE},
    {"F8_E4M3FNUZ", CAIRN_DTYPE_NONE},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

crn_safetensors_dtype_state crn_safetensors_dtype_find(const char *name, cairn_dtype *out_dtype) {
  for (size_t i = 0; i < N_ROWS; i++) {
    if (strcmp(rows[i].name, name)) continue;
    *out_dtype = rows[i].dtype;
    return rows[i].dtype == CAIRN_DTYPE_NONE ? CRN_SAFETENSORS_UNSUPPORTED : CRN_SAFETENSORS_KNOWN;
  }
  return CRN_SAFETENSORS_UNKNOWN;
}

const char *crn_safetensors_dtype_name(cairn_dtype dtype) {
  if (dtype == CAIRN_DTYPE_NONE) return NULL;
  for (size_t i = 0; i < N_ROWS; i++) {
    if (rows[i].dtype == dtype) return rows[i].name;
  }
  return NULL;
}
