#include "backend/cpu/kernels/rows/rows.h"
#include "base/cpu.h"

static const crn_rows_kernels g_sets[] = {
#define ROWS(isa, bit)         \
  {#isa,                       \
   bit,                        \
   crn_rows_activate__##isa,   \
   crn_rows_gate_pairs__##isa, \
   crn_rows_residual__##isa,   \
   crn_rows_squares__##isa,    \
   crn_rows_multiply__##isa,   \
   crn_rows_add__##isa,        \
   crn_rows_subtract__##isa,   \
   crn_rows_scale__##isa,      \
   crn_rows_scale_by__##isa,   \
   crn_rows_turn__##isa,       \
   crn_rows_end_turn__##isa},
#include "backend/cpu/kernels/rows/rows.def"
#undef ROWS
};

const crn_rows_kernels *crn_rows_list(int *out_n) {
  *out_n = (int)(sizeof g_sets / sizeof *g_sets);
  return g_sets;
}

const crn_rows_kernels *crn_rows_select(void) {
  uint64_t bits = crn_cpu_bits();
  const crn_rows_kernels *set = g_sets;
  while (set->isa & ~bits) set++;
  return set;
}
