// rms_norm and silu that are spelled out become what they are:
//
//   x * rsqrt(mean(x * x) + eps) * scale     with the mean as reduce_mean or as reduce_sum times 1/n, and factors on either side
//   x * sigmoid(x)
//
// The kernel of rms_norm computes in f32 and rounds once where the program rounds at every op.
#include "specialize/match.h"
#include "specialize/passes.h"

typedef struct norms_pass {
  crn_plan *plan;
  crn_plan_index index;
} norms_pass;

static bool is_mul(const crn_step *s) { return crn_step_is(s, CRN_OP_broadcasting_mul) || crn_step_is(s, CRN_OP_mul); }

static bool same_shape(const crn_plan *p, uint32_t a, uint32_t b) {
  const crn_type *s = p->slot_types[a], *t = p->slot_types[b];
  if (s->dtype != t->dtype || s->rank != t->rank) return false;
  for (int d = 0; d < s->rank; d++) {
    if (s->dims[d] != t->dims[d]) return false;
  }
  return true;
}

// --- silu -------------------------------------------------------------------------------------------------------------------

static void join_silu(norms_pass *n, crn_step *s) {
  const crn_plan *p = n->plan;
  for (int side = 0; side < 2; side++) {
    uint32_t x = s->in[1 - side];
    const crn_step *sigmoid = crn_match_own(p, &n->index, s->in[side], CRN_OP_sigmoid, CRN_OP_sigmoid);
    if (!sigmoid || sigmoid->in[0] != x || !same_shape(p, x, s->out[0]) || !crn_is_small_float(p->slot_types[x]->dtype)) continue;
    s->in[0] = x;
    s->n_in = 1;
    s->id = CRN_OP_silu;
    s->infer = crn_infer_of(CRN_OP_silu);
    s->kernel = crn_kernel_of(CRN_OP_silu);
    s->view = NULL;
    return;
  }
}

// --- rms_norm ---------------------------------------------------------------------------------------------------------------

// mean(x * x) over the last axis: the slot of x.
static bool find_mean_square(const norms_pass *n, uint32_t slot, uint32_t *out_x) {
  const crn_plan *p = n->plan;
  const crn_plan_index *x = &n->index;
  crn_step *s = crn_match_own(p, x, slot, CRN_OP_reduce_mean, CRN_OP_reduce_mean);
  if (!s) {
    const crn_step *scaled = x->n_uses[slot] == 1 ? crn_maker_of(p, x, slot) : NULL;
    double factor;
    bool is_product = is_mul(scaled), is_quotient = crn_step_is(scaled, CRN_OP_broadcasting_divide) || crn_step_is(scaled, CRN_OP_divide);
    for (int side = 0; !s && side < (is_product ? 2 : is_quotient ? 1 : 0); side++) {
      s = crn_match_own(p, x, scaled->in[side], CRN_OP_reduce_sum, CRN_OP_reduce_sum);
      if (s && !crn_match_number(p, x, scaled->in[1 - side], &factor)) s = NULL;
    }
    if (!s) return false;
    const crn_type *row = p->slot_types[s->in[0]];
    int64_t length = row->rank >= 1 ? row->dims[row->rank - 1] : -1;
    // The factor is stored in the type of the values: equal to 1/n but for its rounding.
    double product = is_product ? factor * (double)length : (double)length / factor;
    if (length < 1 || !(product > 0.999 && product < 1.001)) return false;
  }
  const crn_type *row = p->slot_types[s->in[0]];
  if (!crn_match_last_axis(p, s->in[1], row->rank)) return false;
  const crn_step *square = x->n_uses[s->in[0]] == 1 ? crn_maker_of(p, x, s->in[0]) : NULL;
  bool is_square = is_mul(square) && square->in[0] == square->in[1];
  double two;
  if (crn_step_is(square, CRN_OP_broadcasting_pow) || crn_step_is(square, CRN_OP_pow))
    is_square = crn_match_number(p, x, square->in[1], &two) && two == 2;
  if (!is_square) return false;
  *out_x = square->in[0];
  return true;
}

// rsqrt(mean(x * x) + eps).
static bool find_factor(const norms_pass *n, uint32_t slot, uint32_t *out_x, double *out_eps) {
  const crn_plan *p = n->plan;
  const crn_step *root = crn_match_own(p, &n->index, slot, CRN_OP_rsqrt, CRN_OP_rsqrt);
  const crn_step *sum = root ? crn_match_own(p, &n->index, root->in[0], CRN_OP_broadcasting_add, CRN_OP_add) : NULL;
  for (int side = 0; sum && side < 2; side++) {
    if (crn_match_number(p, &n->index, sum->in[1 - side], out_eps) && *out_eps >= 0 && find_mean_square(n, sum->in[side], out_x))
      return true;
  }
  return false;
}

// x times its factor: the step's x, or false.
static bool find_normed(const norms_pass *n, const crn_step *s, uint32_t *out_x, double *out_eps) {
  for (int side = 0; is_mul(s) && side < 2; side++) {
    if (find_factor(n, s->in[side], out_x, out_eps) && *out_x == s->in[1 - side] && same_shape(n->plan, *out_x, s->out[0])) return true;
  }
  return false;
}

static bool is_scale(const norms_pass *n, uint32_t slot, const crn_type *x) {
  const crn_type *t = n->plan->slot_types[slot];
  if (!n->plan->is_constant[slot] || t->dtype != x->dtype || n->plan->constants[slot].tensor.packed) return false;
  const crn_tensor *scale = &n->plan->constants[slot].tensor;
  return scale->rank >= 1 && scale->rank <= x->rank && scale->dims[scale->rank - 1] == x->dims[x->rank - 1] &&
         crn_tensor_count(scale) == scale->dims[scale->rank - 1];
}

static cairn_status make_norm(norms_pass *n, crn_step *s, uint32_t x, double eps, uint32_t scale, bool has_scale) {
  static const char *const names[] = {"x", "scale"};
  crn_plan *p = n->plan;
  crn_composite_decl *decl;
  crn_attr *items;
  uint32_t *in;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *decl, &decl));
  CRN_TRY(crn_arena_array(&p->arena, 3, sizeof *items, &items));
  CRN_TRY(crn_arena_array(&p->arena, 2, sizeof *in, &in));
  items[0] = (crn_attr){.kind = CRN_ATTR_DICT};
  items[0].list.items = &items[1];
  items[0].list.n = 2;
  items[1] = (crn_attr){.kind = CRN_ATTR_FLOAT, .key = "eps"};
  items[1].f = eps;
  items[2] = (crn_attr){.kind = CRN_ATTR_INT, .key = "axes"};
  items[2].i = -1;
  *decl =
      (crn_composite_decl){.name = "rms_norm", .id = CRN_OP_rms_norm, .n_inputs = has_scale ? 2 : 1, .input_names = names, .attrs = items};
  in[0] = x;
  in[1] = scale;
  s->kind = CRN_STEP_KERNEL;
  s->id = CRN_OP_rms_norm;
  s->name = "rms_norm";
  s->composite = decl;
  s->in = in;
  s->n_in = has_scale ? 2 : 1;
  s->infer = crn_infer_of(CRN_OP_rms_norm);
  s->kernel = crn_ref_kernel_of(CRN_OP_rms_norm);
  s->view = NULL;
  return CAIRN_OK;
}

static cairn_status join_norm(norms_pass *n, crn_step *s) {
  const crn_plan *p = n->plan;
  uint32_t x;
  double eps;
  const crn_type *type = p->slot_types[s->out[0]];
  if (!crn_is_small_float(type->dtype) || type->rank < 1 || type->dims[type->rank - 1] < 1) return CAIRN_OK;
  // The scale first: the product in front of it is then part of the norm.
  for (int side = 0; side < 2; side++) {
    uint32_t inner = s->in[side], scale = s->in[1 - side];
    const crn_step *normed = n->index.n_uses[inner] == 1 ? crn_maker_of(p, &n->index, inner) : NULL;
    if (!normed || !find_normed(n, normed, &x, &eps) || !same_shape(p, x, s->out[0]) || !is_scale(n, scale, p->slot_types[x])) continue;
    return make_norm(n, s, x, eps, scale, true);
  }
  return CAIRN_OK;
}

static cairn_status join_plain_norm(norms_pass *n, crn_step *s) {
  uint32_t x;
  double eps;
  const crn_type *type = n->plan->slot_types[s->out[0]];
  if (!crn_is_small_float(type->dtype) || type->rank < 1 || type->dims[type->rank - 1] < 1 || !find_normed(n, s, &x, &eps)) return CAIRN_OK;
  return make_norm(n, s, x, eps, 0, false);
}

static cairn_status join_all(crn_plan *p, cairn_status (*join)(norms_pass *n, crn_step *s)) {
  norms_pass n = {.plan = p};
  CRN_TRY(crn_plan_index_create(p, &n.index));
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < p->n_steps && status == CAIRN_OK; i++) {
    if (!n.index.is_inner[i] && is_mul(&p->steps[i])) status = join(&n, &p->steps[i]);
  }
  crn_plan_index_destroy(&n.index);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}

static cairn_status join_silu_step(norms_pass *n, crn_step *s) {
  join_silu(n, s);
  return CAIRN_OK;
}

cairn_status crn_pass_norms(crn_plan *p) {
  CRN_TRY(join_all(p, join_silu_step));
  CRN_TRY(join_all(p, join_norm));
  return join_all(p, join_plain_norm);
}
