// Values whose channels lie next to each other in memory (what convolutions make) stay so through what comes behind them: maxima over
// windows, with the padding in front of them, and elementwise ops. Other steps read them by their strides.
#include <float.h>
#include <string.h>

#include "backend/cpu/fused/conv.h"
#include "specialize/match.h"
#include "specialize/passes.h"

typedef struct layout_pass {
  crn_plan *plan;
  crn_plan_index index;
  bool *is_minor;  ///< by slot: axis 1 is innermost
} layout_pass;

// --- maxima ---------------------------------------------------------------------------------------------------------------------

static bool window_sizes(const crn_plan *p, const crn_step *s, int spatial, int64_t *out) {
  int n;
  if (!crn_match_integers(p, s->in[1], CRN_CONV_SPATIAL, out, &n) || (n != 1 && n != spatial)) return false;
  for (int i = 0; n == 1 && i < spatial; i++) out[i] = out[0];
  return true;
}

// Padding below all values takes no part in a maximum, unless a window sees nothing else.
static bool is_lowest(cairn_dtype dtype, double value) { return value <= (dtype == CAIRN_F16 ? -65504.0 : -(double)FLT_MAX); }

static void take_padding(const layout_pass *l, const crn_step *s, crn_fused_pool *f, uint32_t *in_out_x) {
  crn_window padded[CRN_CONV_SPATIAL];
  double value;
  memcpy(padded, f->window, sizeof padded);
  if (!crn_match_padding(l->plan, &l->index, *in_out_x, f->spatial, padded, &value)) return;
  if (!is_lowest(l->plan->slot_types[s->out[0]]->dtype, value)) return;
  for (int d = 0; d < CRN_CONV_SPATIAL; d++) {
    if (padded[d].before >= padded[d].size || padded[d].after >= padded[d].size || padded[d].dilation != 1) return;
  }
  memcpy(f->window, padded, sizeof padded);
  *in_out_x = crn_maker_of(l->plan, &l->index, *in_out_x)->in[0];
}

static cairn_status take_pool(layout_pass *l, crn_step *s) {
  crn_plan *p = l->plan;
  crn_fused_pool f = {.spatial = s->id == CRN_OP_max_pool_3d ? 3 : 2};
  int64_t sizes[CRN_CONV_SPATIAL];
  uint32_t x = s->in[0], *in;
  cairn_dtype dtype = p->slot_types[s->out[0]]->dtype;
  if (dtype != CAIRN_F32 && dtype != CAIRN_F16 && dtype != CAIRN_BF16) return CAIRN_OK;
  if (!window_sizes(p, s, f.spatial, sizes) || !crn_match_windows(p, s, f.spatial, sizes, 2, 3, f.window)) return CAIRN_OK;
  take_padding(l, s, &f, &x);
  if (!l->is_minor[x]) return CAIRN_OK;
  crn_fused_pool *kept;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *kept, &kept));
  CRN_TRY(crn_arena_array(&p->arena, s->n_in, sizeof *in, &in));
  *kept = f;
  memcpy(in, s->in, s->n_in * sizeof *in);
  s->name = x == s->in[0] ? "max_pool" : "pad+max_pool";
  in[0] = x;
  s->in = in;
  s->fused = kept;
  s->infer = crn_infer_fused_pool;
  s->kernel = crn_fused_pool_run;
  s->view = NULL;
  s->minor_axis = 1;
  return CAIRN_OK;
}

// --- elementwise ops --------------------------------------------------------------------------------------------------------------

// Whether the operand can be read along its channels: they lie next to each other, or there is nothing but channels.
static bool goes_along(const layout_pass *l, uint32_t slot, int rank) {
  const crn_type *t = l->plan->slot_types[slot];
  const crn_tensor *constant = crn_constant_of(l->plan, slot);
  if (l->is_minor[slot]) return t->rank == rank;
  if (constant && constant->packed) return false;
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] != 1 && d + rank - t->rank != 1) return false;
  }
  return t->rank <= rank;
}

static bool is_elementwise(const layout_pass *l, const crn_step *s) {
  if (s->kind != CRN_STEP_KERNEL || s->fused || s->composite || s->minor_axis || s->n_out != 1 || s->n_in < 1 || s->n_in > 3) return false;
  if (!(crn_op_info_of(s->id)->traits & CRN_ELEMENTWISE)) return false;
  const crn_type *out = l->plan->slot_types[s->out[0]];
  bool is_any = false;
  for (uint32_t i = 0; i < s->n_in; i++) {
    if (!goes_along(l, s->in[i], out->rank)) return false;
    is_any |= l->is_minor[s->in[i]];
  }
  return is_any;
}

static cairn_status take_elementwise(layout_pass *l, crn_step *s) {
  crn_fused_minor *f;
  CRN_TRY(crn_arena_alloc(&l->plan->arena, sizeof *f, &f));
  *f = (crn_fused_minor){.infer = s->infer, .kernel = s->kernel, .axis = 1};
  s->fused = f;
  s->infer = crn_infer_fused_minor;
  s->kernel = crn_fused_minor_run;
  s->view = NULL;
  s->minor_axis = 1;
  return CAIRN_OK;
}

// --- the pass ---------------------------------------------------------------------------------------------------------------------

static cairn_status run_pass(layout_pass *l) {
  crn_plan *p = l->plan;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    crn_step *s = &p->steps[i];
    if (l->index.is_inner[i]) continue;
    if (crn_step_is(s, CRN_OP_max_pool_2d) || crn_step_is(s, CRN_OP_max_pool_3d)) {
      CRN_TRY(take_pool(l, s));
    } else if (is_elementwise(l, s)) {
      CRN_TRY(take_elementwise(l, s));
    }
    for (uint32_t k = 0; k < s->n_out; k++) l->is_minor[s->out[k]] = s->minor_axis == 1 && p->slot_types[s->out[k]]->rank > 2;
  }
  return CAIRN_OK;
}

cairn_status crn_pass_layouts(crn_plan *p) {
  const cairn_allocator *a = &p->context->allocator;
  layout_pass l = {.plan = p};
  uint32_t n_slots = p->n_slots;
  CRN_TRY(crn_plan_index_create(p, &l.index));
  cairn_status status = crn_alloc_array(a, n_slots, sizeof *l.is_minor, &l.is_minor);
  if (status == CAIRN_OK) status = run_pass(&l);
  crn_free(a, l.is_minor, n_slots * sizeof *l.is_minor);
  crn_plan_index_destroy(&l.index);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
