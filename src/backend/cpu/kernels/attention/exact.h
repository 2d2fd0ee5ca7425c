/// Drivers of exact attention over the parts of an instruction set: `few` splits the context into ranges, `many` the rows into blocks.
#ifndef CRN_BACKEND_CPU_KERNELS_ATTENTION_EXACT_H
#define CRN_BACKEND_CPU_KERNELS_ATTENTION_EXACT_H

#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/kernels/attention/parts.h"

#define CRN_ATTENTION_DRIVER(name)                                                                                                         \
  void crn_attention_plan_##name(const crn_attention_kernel *kernel, const crn_attention *a, int n_workers, crn_attention_plan *out);      \
  void crn_attention_run_##name(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job,   \
                                void *scratch, void *shared);                                                                              \
  void crn_attention_merge_##name(const crn_attention_kernel *kernel, const crn_attention *a, const crn_attention_plan *plan, int64_t job, \
                                  void *scratch, void *shared);
CRN_ATTENTION_DRIVER(few)
CRN_ATTENTION_DRIVER(many)
#undef CRN_ATTENTION_DRIVER

/// One row with everything masked, for drivers of other modes; the bytes of its scratch.
void crn_attention_masked_row(const crn_attention_parts *parts, const crn_attention *a, int64_t row, int64_t head, void *scratch);
size_t crn_attention_masked_bytes(const crn_attention *a);

#endif
