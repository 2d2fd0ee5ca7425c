// A norm that only products read is done while they prepare their rows, so that nothing between is stored, rounded and read again:
//
//   rms_norm(x) · W   becomes one step on x, whatever else the product has taken in
//
// Where several products read one norm each does it for itself: it is small beside any of them.
#include <stdio.h>
#include <string.h>

#include "backend/cpu/fused/linear.h"
#include "specialize/edit.h"
#include "specialize/passes.h"

enum { MOST_READERS = 4 };

static bool is_linear(const crn_step *s) { return s->fused && s->infer == crn_infer_fused_linear; }

// The norm takes the last dimension of its operand and nothing else, with a constant scale or none.
static bool is_row_norm(const crn_plan *p, const crn_step *s) {
  if (s->id != CRN_OP_rms_norm || s->fused || !s->composite || s->n_out != 1 || s->n_in < 1 || s->n_in > 2) return false;
  if (s->kind != CRN_STEP_KERNEL && s->kind != CRN_STEP_COMPOSITE) return false;
  if (s->composite->n_inputs != s->n_in || (s->n_in == 2 && strcmp(s->composite->input_names[1], "scale") != 0)) return false;
  const crn_type *x = p->slot_types[s->in[0]], *y = p->slot_types[s->out[0]];
  if (x->dtype != y->dtype || x->rank != y->rank || x->rank < 2) return false;
  if (x->dtype != CAIRN_F16 && x->dtype != CAIRN_BF16 && x->dtype != CAIRN_F32) return false;
  const crn_attr *axes = crn_attr_find(s->composite->attrs, "axes");
  if (axes && axes->kind == CRN_ATTR_LIST && axes->list.n == 1) axes = &axes->list.items[0];
  return !axes || (axes->kind == CRN_ATTR_INT && (axes->i == -1 || axes->i == x->rank - 1));
}

// The scale as k numbers; false when it is no constant that all rows share.
static bool is_row_scale(const crn_plan *p, uint32_t slot, const crn_type *x, int64_t k) {
  const crn_tensor *t = crn_constant_of(p, slot);
  if (!t || t->packed || (t->dtype != x->dtype && t->dtype != CAIRN_F32) || t->rank < 1 || t->rank > x->rank) return false;
  return t->dims[t->rank - 1] == k && crn_tensor_count(t) == k;
}

// Whether all who read the slot are products of its rows.
static bool has_products_only(const crn_plan *p, const crn_plan_index *x, uint32_t slot) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_steps && n <= MOST_READERS; i++) {
    const crn_step *s = &p->steps[i];
    if (s->n_in < 1 || s->in[0] != slot || x->is_inner[i] || !is_linear(s)) continue;
    if (((const crn_fused_linear *)s->fused)->axis != 0 || (s->n_in > 1 && s->in[1] == slot)) return false;
    n++;
  }
  return n > 0 && n <= MOST_READERS && n == x->n_uses[slot];
}

static cairn_status make_norm(crn_plan *p, const crn_step *s, int64_t k, crn_linear_norm **out) {
  double eps;
  *out = NULL;
  if (!crn_attr_find(s->composite->attrs, "eps") || crn_attr_get_float(s->composite->attrs, "eps", 0, &eps) != CAIRN_OK) return CAIRN_OK;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof **out, out));
  **out = (crn_linear_norm){.eps = (float)eps};
  if (s->n_in < 2) return CAIRN_OK;
  const crn_tensor *t = crn_constant_of(p, s->in[1]);
  float *scale;
  CRN_TRY(crn_arena_array(&p->arena, (size_t)k, sizeof *scale, &scale));
  for (int64_t i = 0; i < k; i++) scale[i] = (float)crn_load_f64(t->dtype, crn_tensor_at(t, i * t->strides[t->rank - 1]));
  (*out)->scale = scale;
  (*out)->rounds_before = t->dtype == p->slot_types[s->in[0]]->dtype;
  return CAIRN_OK;
}

static cairn_status add_to_name(crn_plan *p, crn_step *s) {
  char name[64];
  int n = snprintf(name, sizeof name, "norm+%s", s->name);
  return crn_arena_strndup(&p->arena, name, (size_t)n < sizeof name ? (size_t)n : sizeof name - 1, &s->name);
}

static cairn_status give_norm(crn_plan *p, const crn_plan_index *index, const crn_step *norm, const crn_linear_norm *parameters) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    crn_step *s = &p->steps[i];
    if (index->is_inner[i] || !is_linear(s) || s->in[0] != norm->out[0]) continue;
    crn_fused_linear *f;
    CRN_TRY(crn_arena_alloc(&p->arena, sizeof *f, &f));
    *f = *(const crn_fused_linear *)s->fused;
    f->norm = parameters;
    s->fused = f;
    s->in[0] = norm->in[0];
    CRN_TRY(add_to_name(p, s));
  }
  return CAIRN_OK;
}

static cairn_status take_in(crn_plan *p, const crn_plan_index *index, uint32_t i) {
  const crn_step *s = &p->steps[i];
  if (index->is_inner[i] || !is_row_norm(p, s) || index->made_by[s->out[0]] != i || !has_products_only(p, index, s->out[0]))
    return CAIRN_OK;
  const crn_type *x = p->slot_types[s->in[0]];
  int64_t k = x->dims[x->rank - 1];
  crn_linear_norm *norm;
  if (k < 1 || (s->n_in == 2 && !is_row_scale(p, s->in[1], x, k))) return CAIRN_OK;
  CRN_TRY(make_norm(p, s, k, &norm));
  return norm ? give_norm(p, index, s, norm) : CAIRN_OK;
}

cairn_status crn_pass_prologues(crn_plan *p) {
  crn_plan_index x;
  CRN_TRY(crn_plan_index_create(p, &x));
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < p->n_steps && status == CAIRN_OK; i++) status = take_in(p, &x, i);
  crn_plan_index_destroy(&x);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
