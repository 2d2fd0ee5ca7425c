// Attention that is spelled out becomes one step:
//
//   softmax(where(mask, (q · k) * scale, low)) · v      softmax((q · k) * scale + mask) · v      softmax((q · k) * scale) · v
//
// with any of its parts missing, with casts around the softmax, and with the softmax itself spelled out. Positions that the mask
// excludes for all rows are not read: a step in front finds them, once for all layers that share the mask.
#include "backend/cpu/fused/attention.h"

#include "specialize/match.h"
#include "specialize/passes.h"

enum { MAX_MASKS = 8 };

typedef struct attention_pass {
  crn_plan *plan;
  crn_plan_index index;
  uint32_t masks[MAX_MASKS], extents[MAX_MASKS];  ///< slots
  int n_masks;
} attention_pass;

typedef struct spelled {
  crn_step *values, *softmax, *scores;
  uint32_t mask;
  crn_fused_attention f;
} spelled;

// --- softmax ----------------------------------------------------------------------------------------------------------------

// divide(e, reduce_sum(e)) with e = exp(sub(x, reduce_max(x))), all over one axis: the division becomes a softmax of x.
static void join_softmax(attention_pass *a, crn_step *s) {
  const crn_plan *p = a->plan;
  const crn_plan_index *x = &a->index;
  const crn_step *sum = crn_match_own(p, x, s->in[1], CRN_OP_reduce_sum, CRN_OP_reduce_sum);
  const crn_step *e = crn_match_made(p, x, s->in[0], CRN_OP_exp, CRN_OP_exp);
  if (!sum || !e || sum->in[0] != s->in[0] || x->n_uses[s->in[0]] != 2) return;
  const crn_step *difference = crn_match_own(p, x, e->in[0], CRN_OP_broadcasting_sub, CRN_OP_sub);
  const crn_step *top = difference ? crn_match_own(p, x, difference->in[1], CRN_OP_reduce_max, CRN_OP_reduce_max) : NULL;
  if (!top || top->in[0] != difference->in[0]) return;
  const crn_type *type = p->slot_types[s->out[0]], *from = p->slot_types[difference->in[0]], *sums = p->slot_types[sum->out[0]];
  if (!crn_match_last_axis(p, sum->in[1], type->rank) || !crn_match_last_axis(p, top->in[1], type->rank)) return;
  if (from->rank != type->rank || sums->rank != type->rank || from->dtype != type->dtype) return;
  if (type->dtype != CAIRN_F32 && type->dtype != CAIRN_F16 && type->dtype != CAIRN_BF16) return;
  s->in[0] = difference->in[0];
  s->in[1] = sum->in[1];
  s->id = CRN_OP_softmax;
  s->infer = crn_infer_of(CRN_OP_softmax);
  s->kernel = crn_kernel_of(CRN_OP_softmax);
  s->view = NULL;
}

// --- the pattern ------------------------------------------------------------------------------------------------------------

// The step that makes a slot nobody else reads, seen through casts between float types.
static crn_step *own_maker(const attention_pass *a, uint32_t slot) {
  const crn_plan *p = a->plan;
  for (;;) {
    crn_step *s = a->index.n_uses[slot] == 1 ? crn_maker_of(p, &a->index, slot) : NULL;
    if (!s || s->kind != CRN_STEP_KERNEL || s->fused || s->n_out != 1 || !crn_is_small_float(p->slot_types[slot]->dtype)) return NULL;
    if (s->id != CRN_OP_cast) return s;
    slot = s->in[0];
  }
}

static bool is_product(const crn_step *s) {
  return crn_step_is(s, CRN_OP_broadcasting_batch_matmul) || crn_step_is(s, CRN_OP_batch_matmul);
}

static bool keeps_shape(const attention_pass *a, const crn_step *s, uint32_t operand) {
  return a->plan->slot_types[operand]->rank == a->plan->slot_types[s->out[0]]->rank;
}

// The product at the bottom of `slot`, with a factor on the way.
static crn_step *find_scores(const attention_pass *a, uint32_t slot, double *scale) {
  crn_step *s = own_maker(a, slot);
  *scale = 1;
  if (!s || is_product(s)) return s;
  bool is_mul = s->id == CRN_OP_broadcasting_mul || s->id == CRN_OP_mul,
       is_div = s->id == CRN_OP_broadcasting_divide || s->id == CRN_OP_divide;
  for (int side = 0; side < (is_mul ? 2 : is_div ? 1 : 0); side++) {
    double number;
    crn_step *product = own_maker(a, s->in[side]);
    if (!product || !is_product(product) || !keeps_shape(a, s, s->in[side])) continue;
    if (!crn_match_number(a->plan, &a->index, s->in[1 - side], &number) || (is_div && number == 0)) continue;
    *scale = is_div ? 1 / number : number;
    return product;
  }
  return NULL;
}

static bool find_masked_scores(const attention_pass *a, uint32_t slot, spelled *m) {
  const crn_plan *p = a->plan;
  m->f.mask = CRN_FUSED_NO_MASK;
  m->scores = find_scores(a, slot, &m->f.scale);
  if (m->scores) return true;
  crn_step *s = own_maker(a, slot);
  if (!s) return false;
  if (s->id == CRN_OP_broadcasting_where || s->id == CRN_OP_where) {
    m->f.mask = CRN_FUSED_MASK_CHOSEN;
    m->mask = s->in[0];
    if (p->slot_types[m->mask]->dtype != CAIRN_BOOL || !keeps_shape(a, s, s->in[1])) return false;
    // What is put in must weigh nothing beside a score.
    if (!crn_match_number(p, &a->index, s->in[2], &m->f.masked) || !(m->f.masked <= -9000.0)) return false;
    m->scores = find_scores(a, s->in[1], &m->f.scale);
    return m->scores != NULL;
  }
  if (s->id != CRN_OP_broadcasting_add && s->id != CRN_OP_add) return false;
  for (int side = 0; side < 2 && !m->scores; side++) {
    if (!keeps_shape(a, s, s->in[side])) continue;
    m->f.mask = CRN_FUSED_MASK_ADDED;
    m->mask = s->in[1 - side];
    m->scores = find_scores(a, s->in[side], &m->f.scale);
  }
  return m->scores && crn_is_small_float(p->slot_types[m->mask]->dtype);
}

// One type everywhere, and ranks the step can bring together.
static bool types_fit(const attention_pass *a, const spelled *m) {
  const crn_plan *p = a->plan;
  const crn_type *q = p->slot_types[m->scores->in[0]], *k = p->slot_types[m->scores->in[1]], *v = p->slot_types[m->values->in[1]];
  const crn_type *scores = p->slot_types[m->scores->out[0]], *out = p->slot_types[m->values->out[0]];
  if (q->dtype != k->dtype || q->dtype != v->dtype || q->dtype != out->dtype || !crn_is_small_float(q->dtype)) return false;
  if (scores->rank != out->rank || out->rank < 2 || out->rank > CAIRN_MAX_RANK - 2 || v->rank > out->rank) return false;
  if (m->f.mask == CRN_FUSED_NO_MASK) return true;
  const crn_type *mask = p->slot_types[m->mask];
  // A mask along the rows alone is none of positions.
  return mask->rank >= 1 && mask->rank <= out->rank && mask->dims[mask->rank - 1] != 1 &&
         (m->f.mask == CRN_FUSED_MASK_CHOSEN || mask->dtype == q->dtype || mask->dtype == CAIRN_F32);
}

static bool find_attention(const attention_pass *a, uint32_t i, spelled *m) {
  const crn_plan *p = a->plan;
  *m = (spelled){.values = &p->steps[i]};
  if (a->index.is_inner[i] || !is_product(m->values)) return false;
  m->softmax = own_maker(a, m->values->in[0]);
  if (!m->softmax || m->softmax->id != CRN_OP_softmax) return false;
  if (!crn_match_last_axis(p, m->softmax->in[1], p->slot_types[m->softmax->out[0]]->rank)) return false;
  return find_masked_scores(a, m->softmax->in[0], m) && types_fit(a, m);
}

// --- the step ---------------------------------------------------------------------------------------------------------------

// The softmax's step and slot, which are not needed any more, serve for the extent of the mask.
cairn_status crn_make_mask_extent(crn_plan *p, crn_step *s, uint32_t mask, int position_axis) {
  crn_fused_extent *f;
  crn_type *type;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *f, &f));
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *type, &type));
  f->position_axis = position_axis;
  *type = (crn_type){.kind = CRN_TYPE_TENSOR, .dtype = CAIRN_SI64, .rank = 1, .dims = {CRN_EXTENT_VALUES}};
  for (int d = 0; d < CAIRN_MAX_RANK; d++) type->interleave[d] = 1;
  p->slot_types[s->out[0]] = type;
  s->name = "mask_extent";
  s->fused = f;
  s->in[0] = mask;
  s->n_in = 1;
  s->infer = crn_infer_fused_extent;
  s->kernel = crn_fused_extent_run;
  s->view = NULL;
  return CAIRN_OK;
}

static cairn_status make_extent(attention_pass *a, const spelled *m, uint32_t *out_slot) {
  for (int i = 0; i < a->n_masks; i++) {
    if (a->masks[i] != m->mask) continue;
    *out_slot = a->extents[i];
    return CAIRN_OK;
  }
  CRN_TRY(crn_make_mask_extent(a->plan, m->softmax, m->mask, 0));
  *out_slot = m->softmax->out[0];
  if (a->n_masks == MAX_MASKS) return CAIRN_OK;
  a->masks[a->n_masks] = m->mask;
  a->extents[a->n_masks++] = *out_slot;
  return CAIRN_OK;
}

cairn_status crn_make_attention_attributes(crn_plan *p, double scale, const crn_attr **out_attrs, const char *const **out_names) {
  static const char *const names[] = {"query", "key", "value", "attn_mask"};
  crn_attr *items;
  CRN_TRY(crn_arena_array(&p->arena, 2, sizeof *items, &items));
  items[0] = (crn_attr){.kind = CRN_ATTR_DICT};
  items[1] = (crn_attr){.kind = CRN_ATTR_FLOAT, .key = "scale"};
  items[1].f = scale;
  items[0].list.items = &items[1];
  items[0].list.n = 1;
  *out_attrs = items;
  *out_names = names;
  return CAIRN_OK;
}

static cairn_status fuse(attention_pass *a, spelled *m) {
  crn_plan *p = a->plan;
  crn_fused_attention *f;
  uint32_t *in, extent = 0;
  bool has_mask = m->f.mask != CRN_FUSED_NO_MASK;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *f, &f));
  CRN_TRY(crn_arena_array(&p->arena, 5, sizeof *in, &in));
  CRN_TRY(crn_make_attention_attributes(p, m->f.scale, &m->f.attrs, &m->f.input_names));
  if (has_mask) CRN_TRY(make_extent(a, m, &extent));
  *f = m->f;
  in[0] = m->scores->in[0];
  in[1] = m->scores->in[1];
  in[2] = m->values->in[1];
  in[3] = m->mask;
  in[4] = extent;
  crn_step *s = m->values;
  s->name = "attention";
  s->fused = f;
  s->in = in;
  s->n_in = has_mask ? 5 : 3;
  s->infer = crn_infer_fused_attention;
  s->kernel = crn_fused_attention_run;
  s->view = NULL;
  return CAIRN_OK;
}

cairn_status crn_pass_attention(crn_plan *p) {
  attention_pass a = {.plan = p};
  CRN_TRY(crn_plan_index_create(p, &a.index));
  for (uint32_t i = 0; i < p->n_steps; i++) {
    crn_step *s = &p->steps[i];
    if (!a.index.is_inner[i] && (crn_step_is(s, CRN_OP_broadcasting_divide) || crn_step_is(s, CRN_OP_divide))) join_softmax(&a, s);
  }
  crn_plan_index_destroy(&a.index);
  CRN_TRY(crn_plan_drop_unused(p));
  CRN_TRY(crn_plan_index_create(p, &a.index));
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < p->n_steps && status == CAIRN_OK; i++) {
    spelled m;
    if (find_attention(&a, i, &m)) status = fuse(&a, &m);
  }
  crn_plan_index_destroy(&a.index);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
