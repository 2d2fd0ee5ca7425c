#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/kernels/attention/exact.h"
#include "backend/cpu/kernels/attention/items.h"
#include "backend/cpu/kernels/attention/packed.h"
#include "backend/cpu/kernels/attention/parts.h"
#include "base/cpu.h"

// Beyond these no real model lies, and within them no byte count of a plan overflows.
enum { LARGEST_SIZE = 1 << 16, LARGEST_GROUP = 1 << 12 };

static const crn_attention_kernel g_kernels[] = {
#define ATTENTION(name, bits, mode, min_items, driver, parts) \
  {#name, bits, mode, min_items, crn_attention_plan_##driver, crn_attention_run_##driver, crn_attention_merge_##driver, &crn_##parts},
#include "backend/cpu/kernels/attention/attention.def"
#undef ATTENTION
};

enum { N_KERNELS = sizeof g_kernels / sizeof *g_kernels };

const crn_attention_kernel *crn_attention_list(int *out_n) {
  *out_n = N_KERNELS;
  return g_kernels;
}

static bool is_cache(const crn_cache_view *view) {
  if (view->type == CRN_CACHE_I8) return view->scales && view->group > 0;
  return view->type >= 0 && view->type < CRN_CACHE_TYPES;
}

static bool serves(const crn_attention *a) {
  bool sizes = a->rows > 0 && a->positions > 0 && a->key_size > 0 && a->value_size > 0 && a->key_size <= LARGEST_SIZE &&
               a->value_size <= LARGEST_SIZE && a->rows <= INT32_MAX && a->positions <= INT32_MAX;
  bool heads = a->kv_heads > 0 && a->heads > 0 && a->heads % a->kv_heads == 0 && a->heads / a->kv_heads <= LARGEST_GROUP;
  bool types = is_cache(&a->k) && is_cache(&a->v) && (!a->mask || (a->mask_type >= 0 && a->mask_type <= CRN_MASK_BOOL));
  return sizes && heads && types;
}

const crn_attention_kernel *crn_attention_select(int mode, const crn_attention *a) {
  if (!serves(a)) return NULL;
  uint64_t bits = crn_cpu_bits();
  int64_t items = a->rows * (a->heads / a->kv_heads);
  // What has no kernel of its own in a faster mode is served exactly.
  if (a->k.type == CRN_CACHE_I8 || a->v.type == CRN_CACHE_I8) mode = CRN_ATTENTION_EXACT;
  for (int m = mode; m >= 0; m--) {
    for (int i = 0; i < N_KERNELS; i++) {
      const crn_attention_kernel *k = &g_kernels[i];
      if (k->mode == m && (k->isa & ~bits) == 0 && items >= k->min_items) return k;
    }
  }
  return NULL;
}

void crn_attention_find_mask_extent(crn_attention *a) {
  const crn_attention_kernel *k = crn_attention_select(CRN_ATTENTION_EXACT, a);
  a->mask_low = a->mask_high = 0;
  if (a->mask && k) crn_attention_extend_extent(a, k->parts);
}
