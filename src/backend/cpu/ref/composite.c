#include "backend/cpu/ref/composite.h"

#include <string.h>

const crn_tensor *crn_composite_operand(const crn_kernel_args *args, const char *name) {
  for (int i = 0; args->input_names && i < args->n_operands; i++) {
    if (args->input_names[i] && !strcmp(args->input_names[i], name)) return &args->operands[i];
  }
  return NULL;
}

cairn_status crn_composite_names(const crn_kernel_args *args, int first, const char *const *names) {
  if (!args->input_names && args->n_operands > first) return CRN_FAIL(UNSUPPORTED, "%s: the inputs have no names", crn_ref_name(args));
  for (int i = first; i < args->n_operands; i++) {
    const char *const *known = names;
    while (*known && (!args->input_names[i] || strcmp(args->input_names[i], *known))) known++;
    if (!*known)
      return CRN_FAIL(UNSUPPORTED, "%s: input '%s' is not known", crn_ref_name(args), args->input_names[i] ? args->input_names[i] : "");
  }
  return CAIRN_OK;
}

cairn_status crn_composite_trailing_axes(const crn_kernel_args *args, int rank, int *out_n) {
  const crn_attr *axes = crn_attr_find(args->attrs, "axes");
  bool seen[CAIRN_MAX_RANK] = {false};
  uint32_t n = axes && axes->kind == CRN_ATTR_LIST ? axes->list.n : 1;
  for (uint32_t i = 0; axes && i < n; i++) {
    const crn_attr *one = axes->kind == CRN_ATTR_LIST ? &axes->list.items[i] : axes;
    if (one->kind != CRN_ATTR_INT || one->i < -rank || one->i >= rank) {
      return CRN_FAIL(UNSUPPORTED, "%s: attribute 'axes' must hold axes of rank %d", crn_ref_name(args), rank);
    }
    seen[one->i < 0 ? one->i + rank : one->i] = true;
  }
  *out_n = 0;
  while (*out_n < rank && seen[rank - 1 - *out_n]) ++*out_n;
  bool gap = *out_n == 0;
  for (int d = 0; d < rank - *out_n; d++) gap = gap || seen[d];
  return gap ? CRN_FAIL(UNSUPPORTED, "%s: the axes are not the last ones", crn_ref_name(args)) : CAIRN_OK;
}

double crn_sum_f32(const float *values, int64_t n) {
  enum { LANES = 8 };
  double lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int l = 0; l < LANES; l++) lane[l] += (double)values[i + l];
  }
  for (int l = 0; i < n; i++, l++) lane[l] += (double)values[i];
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; l++) lane[l] += lane[l + half];
  }
  return lane[0];
}
