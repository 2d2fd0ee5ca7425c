#include <string.h>

#include "tensor/tensor.h"

typedef struct dtype_info {
  const char *name;
  uint8_t bits, class;
} dtype_info;

static const dtype_info g_dtypes[CAIRN_DTYPE_COUNT] = {
    [CAIRN_DTYPE_NONE] = {"none", 0, CRN_CLASS_NONE},
#define DTYPE(id, value, name, bits, class) [CAIRN_##id] = {name, bits, CRN_CLASS_##class},
#include "tensor/dtype.def"
#undef DTYPE
};

#define DTYPE(id, value, name, bits, class) _Static_assert(CAIRN_##id == (value), "dtype.def and ndarray.h disagree on " name);
#include "tensor/dtype.def"
#undef DTYPE

static const dtype_info *info(cairn_dtype d) { return &g_dtypes[(unsigned)d < CAIRN_DTYPE_COUNT ? d : CAIRN_DTYPE_NONE]; }

const char *cairn_dtype_name(cairn_dtype dtype) { return info(dtype)->name; }

cairn_dtype cairn_dtype_from_name(const char *name) {
  for (int d = 1; name && d < CAIRN_DTYPE_COUNT; d++) {
    if (!strcmp(g_dtypes[d].name, name)) return (cairn_dtype)d;
  }
  return CAIRN_DTYPE_NONE;
}

size_t cairn_dtype_bytes(cairn_dtype dtype) { return (info(dtype)->bits + 7u) / 8u; }

crn_dtype_class crn_dtype_class_of(cairn_dtype dtype) { return (crn_dtype_class)info(dtype)->class; }

int crn_dtype_bits(cairn_dtype dtype) { return info(dtype)->bits; }

bool crn_dtype_is_integer(cairn_dtype dtype) {
  crn_dtype_class c = crn_dtype_class_of(dtype);
  return c == CRN_CLASS_SINT || c == CRN_CLASS_UINT;
}
