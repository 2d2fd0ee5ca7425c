// gather_mm on a constant stack of matrices works on packed ones: no expert is ever expanded.
#include "backend/cpu/fused/gather.h"

#include <string.h>

#include "specialize/passes.h"

// What the kernel would decline at run time, for which the body would have to stay.
static bool ranks_fit(const crn_plan *p, const crn_step *s) {
  int64_t n_batch;
  int out_rank = p->slot_types[s->out[0]]->rank;
  if (crn_attr_get_int(s->composite->attrs, "num_batch_axes", 0, &n_batch) != CAIRN_OK) return false;
  for (uint32_t k = 2; k < s->n_in; k++) {
    bool is_lhs = !strcmp(s->composite->input_names[k], "lhs_indices");
    const crn_type *index = p->slot_types[s->in[k]], *side = p->slot_types[s->in[is_lhs ? 0 : 1]];
    if (!is_lhs && strcmp(s->composite->input_names[k], "rhs_indices")) return false;
    if (!crn_dtype_is_integer(index->dtype) || n_batch < 0 || side->rank != n_batch + 3 || n_batch + index->rank > out_rank - 2)
      return false;
  }
  return true;
}

static bool is_candidate(const crn_plan *p, const crn_plan_index *x, uint32_t i) {
  const crn_step *s = &p->steps[i];
  if (x->is_inner[i] || s->kind != CRN_STEP_COMPOSITE || s->fused || s->id != CRN_OP_gather_mm || s->n_in < 2 || s->n_in > 4) return false;
  const crn_type *rhs = p->slot_types[s->in[1]], *out = p->slot_types[s->out[0]], *lhs = p->slot_types[s->in[0]];
  if (s->composite->n_inputs != s->n_in || rhs->rank < 3 || lhs->dtype != out->dtype || rhs->dtype != out->dtype) return false;
  for (int d = 0; d < rhs->rank; d++) {
    if (rhs->dims[d] < 0) return false;
  }
  return ranks_fit(p, s) && (out->dtype == CAIRN_F16 || out->dtype == CAIRN_BF16 || out->dtype == CAIRN_F32);
}

static cairn_status fuse(crn_plan *p, const crn_specialization *o, crn_step *s, const crn_weight_source *source) {
  const crn_type *rhs = p->slot_types[s->in[1]];
  crn_fused_gather *f;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *f, &f));
  *f = (crn_fused_gather){.mode = crn_linear_mode_of(o->precision),
                          .n = rhs->dims[rhs->rank - 1],
                          .rhs = crn_tensor_make(rhs->dtype, rhs->dims, rhs->rank, NULL),
                          .infer = s->infer,
                          .input_names = s->composite->input_names};
  // Offsets count matrices: one step of the stack's axis is one, all others are none.
  for (int d = 0; d < rhs->rank; d++) f->rhs.strides[d] = d == rhs->rank - 3 ? 1 : 0;
  CRN_TRY(crn_weight_store_pack(o->store, p->context->pool, source, 1, false, &f->weights));
  s->kind = CRN_STEP_KERNEL;
  s->name = "gather_linear";
  s->fused = f;
  for (uint32_t k = 1; k + 1 < s->n_in; k++) s->in[k] = s->in[k + 1];
  s->n_in--;
  s->infer = crn_infer_fused_gather;
  s->kernel = crn_fused_gather_run;
  return CAIRN_OK;
}

static cairn_status fuse_all(crn_plan *p, const crn_specialization *o, const crn_plan_index *x, bool *is_dropped) {
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < p->n_steps && status == CAIRN_OK; i++) {
    crn_weight_source source;
    crn_step *s = &p->steps[i];
    if (!is_candidate(p, x, i)) continue;
    int rank = p->slot_types[s->in[1]]->rank;
    if (!crn_weight_source_find(p, x, s->in[1], (crn_matrix_axes){rank - 1, rank - 2, rank - 3}, &source)) continue;
    if (source.n / source.stack % CRN_LINEAR_TILE || !crn_weight_is_precise_enough(o, &source)) continue;
    // The body reads the expanded stack; nothing may need it any more.
    for (uint32_t k = i + 1; k <= s->body_end; k++) is_dropped[k] = true;
    s->body_end = 0;
    status = fuse(p, o, s, &source);
  }
  return status;
}

cairn_status crn_pass_experts(crn_plan *p, const crn_specialization *o) {
  const cairn_allocator *a = &p->context->allocator;
  crn_plan_index x;
  bool *is_dropped;
  uint32_t n = p->n_steps;
  CRN_TRY(crn_plan_index_create(p, &x));
  cairn_status status = crn_alloc_array(a, n, sizeof *is_dropped, &is_dropped);
  if (status == CAIRN_OK) {
    status = fuse_all(p, o, &x, is_dropped);
    if (status == CAIRN_OK) status = crn_plan_drop(p, is_dropped);
    crn_free(a, is_dropped, n * sizeof *is_dropped);
  }
  crn_plan_index_destroy(&x);
  return status;
}
