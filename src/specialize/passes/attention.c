// Attention that is spelled out becomes one step:
//
//   softmax(where(mask, (q · k) * scale, low)) · v      softmax((q · k) * scale + mask) · v      softmax((q · k) * scale) · v
//
// with any of its parts missing, with the choice the other way round, with casts around the softmax and in front of the products, with the
// softmax itself spelled out, and with batch and heads as one dimension in some of it (products of rank 3), apart in the rest. Positions
// that the mask excludes for all rows are not read: a step in front finds them, once for all layers that share the mask.
#include "backend/cpu/fused/attention.h"

#include <string.h>

#include "specialize/match.h"
#include "specialize/passes.h"
#include "specialize/shapes.h"

enum { MAX_MASKS = 8 };

typedef struct attention_pass {
  crn_plan *plan;
  crn_plan_index index;
  crn_shapes shapes;
  uint32_t masks[MAX_MASKS], extents[MAX_MASKS];  ///< slots
  int n_masks;
  uint32_t hidden[MAX_MASKS], seen[MAX_MASKS];  ///< masks of what is hidden, and those that say the opposite
  int n_hidden;
} attention_pass;

typedef struct spelled {
  crn_step *values, *softmax, *scores;
  crn_step *masking;       ///< where the mask comes in, NULL without one
  crn_step *choice;        ///< of a mask that is true where nothing is to be seen; else NULL
  crn_step *widenings[2];  ///< casts of queries and keys that are left out; NULL = none
  uint32_t mask, key, value;
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

static bool count_leading(const crn_slot_shape *s, int64_t *out) {
  *out = 1;
  for (int d = 0; d < s->rank - 2; d++) {
    if (!crn_sym_is_constant(s->dims[d]) || s->dims[d] < 1 || s->dims[d] > INT32_MAX / *out) return false;
    *out *= s->dims[d];
  }
  return true;
}

// Whether a reshape only puts leading dimensions together, or takes them apart: rows and positions stay as they are.
static bool keeps_rows(const attention_pass *a, const crn_step *s) {
  const crn_slot_shape *from = &a->shapes.slots[s->in[0]], *to = &a->shapes.slots[s->out[0]];
  int64_t before, after;
  if (s->id != CRN_OP_reshape || from->rank < 3 || to->rank < 3 || !count_leading(from, &before) || !count_leading(to, &after))
    return false;
  const bool is_same = from->rank == to->rank && !memcmp(from->dims, to->dims, (size_t)(from->rank - 2) * sizeof *from->dims);
  if (before != after || !(is_same || (from->rank != to->rank && (from->rank == 3 || to->rank == 3)))) return false;
  // There are as many elements as before, so when one of the two sizes is the same the other is, too.
  return from->dims[from->rank - 1] == to->dims[to->rank - 1] || from->dims[from->rank - 2] == to->dims[to->rank - 2];
}

// The step that makes a slot nobody else reads, seen through casts between float types and changes of the leading dimensions.
static crn_step *own_maker(const attention_pass *a, uint32_t slot) {
  const crn_plan *p = a->plan;
  for (;;) {
    crn_step *s = a->index.n_uses[slot] == 1 ? crn_maker_of(p, &a->index, slot) : NULL;
    if (!s || s->kind != CRN_STEP_KERNEL || s->fused || s->n_out != 1 || !crn_is_small_float(p->slot_types[slot]->dtype)) return NULL;
    if (s->id != CRN_OP_cast && !keeps_rows(a, s)) return s;
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
  m->masking = NULL;
  if (m->scores) return true;
  crn_step *s = own_maker(a, slot);
  if (!s) return false;
  m->masking = s;
  if (s->id == CRN_OP_broadcasting_where || s->id == CRN_OP_where) {
    m->f.mask = CRN_FUSED_MASK_CHOSEN;
    m->mask = s->in[0];
    if (p->slot_types[m->mask]->dtype != CAIRN_BOOL) return false;
    for (int side = 1; side <= 2 && !m->scores; side++) {
      // What is put in must weigh nothing beside a score.
      if (!keeps_shape(a, s, s->in[side]) || !crn_match_number(p, &a->index, s->in[3 - side], &m->f.masked)) continue;
      if (m->f.masked <= -9000.0) m->scores = find_scores(a, s->in[side], &m->f.scale);
      m->choice = side == 2 ? s : NULL;
    }
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

// Queries and keys that are widened for their product only: the step computes in f32 whatever they are. The cast may lie in front of steps
// that only move values, which nobody else reads.
static crn_step *find_widening(const attention_pass *a, uint32_t slot, cairn_dtype wanted) {
  const crn_plan *p = a->plan;
  for (;;) {
    crn_step *s = a->index.n_uses[slot] == 1 ? crn_maker_of(p, &a->index, slot) : NULL;
    if (!s || s->kind != CRN_STEP_KERNEL || s->fused || s->n_out != 1 || p->slot_types[slot]->dtype != CAIRN_F32) return NULL;
    switch (s->id) {
      case CRN_OP_cast:
        return p->slot_types[s->in[0]]->dtype == wanted && crn_is_small_float(wanted) && wanted != CAIRN_F32 ? s : NULL;
      case CRN_OP_transpose:
      case CRN_OP_reshape:
      case CRN_OP_broadcast_to:
      case CRN_OP_broadcast_in_dims:
      case CRN_OP_expand_dims:
      case CRN_OP_shrink_dims:
        slot = s->in[0];
        break;
      default:
        return NULL;
    }
  }
}

// Leaves the widening of an operand out: the steps behind it move values as they were.
static cairn_status drop_widening(const attention_pass *a, const crn_step *cast, uint32_t *in_out_slot) {
  crn_plan *p = a->plan;
  const cairn_dtype narrow = p->slot_types[cast->in[0]]->dtype;
  if (*in_out_slot == cast->out[0]) {
    *in_out_slot = cast->in[0];
    return CAIRN_OK;
  }
  for (crn_step *s = crn_maker_of(p, &a->index, *in_out_slot);; s = crn_maker_of(p, &a->index, s->in[0])) {
    crn_type *type;
    CRN_TRY(crn_arena_alloc(&p->arena, sizeof *type, &type));
    *type = *p->slot_types[s->out[0]];
    type->dtype = narrow;
    p->slot_types[s->out[0]] = type;
    if (s->in[0] != cast->out[0]) continue;
    s->in[0] = cast->in[0];
    return CAIRN_OK;
  }
}

// Heads of a group share keys and values: reshape(broadcast(x)) repeats each of x [.., groups, 1, positions, d] for its heads, and may put
// batch and heads together besides. Then the step reads x. `*out_sizes` is what the broadcast makes of x.
static bool find_grouped(const attention_pass *a, uint32_t slot, uint32_t *out_slot, const crn_type **out_sizes) {
  const crn_plan *p = a->plan;
  const crn_step *merge = crn_match_made(p, &a->index, slot, CRN_OP_reshape, CRN_OP_reshape), *first = merge;
  if (!merge) return false;
  // Several in a row keep the order of the elements as one does.
  for (const crn_step *s = merge; s; s = crn_match_made(p, &a->index, s->in[0], CRN_OP_reshape, CRN_OP_reshape)) first = s;
  const crn_step *repeat = crn_match_made(p, &a->index, first->in[0], CRN_OP_broadcast_in_dims, CRN_OP_broadcast_to);
  if (!repeat) return false;
  const crn_type *x = p->slot_types[repeat->in[0]], *wide = p->slot_types[repeat->out[0]];
  const crn_slot_shape *before = &a->shapes.slots[repeat->in[0]], *after = &a->shapes.slots[repeat->out[0]],
                       *merged = &a->shapes.slots[merge->out[0]];
  int64_t n, n_merged;
  if (x->rank != wide->rank || x->rank < 5 || merged->rank < 3 || merged->rank >= after->rank) return false;
  if (!count_leading(after, &n) || !count_leading(merged, &n_merged) || n != n_merged) return false;
  for (int d = 1; d <= 2; d++) {
    if (before->dims[before->rank - d] != after->dims[after->rank - d]) return false;
  }
  if (after->dims[after->rank - 1] != merged->dims[merged->rank - 1] && after->dims[after->rank - 2] != merged->dims[merged->rank - 2])
    return false;
  *out_slot = repeat->in[0];
  *out_sizes = wide;
  return true;
}

// Keys as products have them are turned: [.., d, positions].
static bool find_grouped_keys(const attention_pass *a, uint32_t slot, uint32_t *out_slot, const crn_type **out_sizes) {
  const crn_step *turn = crn_match_made(a->plan, &a->index, slot, CRN_OP_transpose, CRN_OP_transpose);
  int64_t order[CAIRN_MAX_RANK];
  int n;
  if (!turn || !crn_match_integers(a->plan, turn->in[1], CAIRN_MAX_RANK, order, &n) || n < 3) return false;
  for (int d = 0; d < n; d++) {
    if (order[d] != (d < n - 2 ? d : d == n - 2 ? n - 1 : n - 2)) return false;
  }
  return find_grouped(a, turn->in[0], out_slot, out_sizes);
}

// How dimensions `own` [0, n) stand for those that are furthest apart: each for some that follow one another.
static bool find_parts(const spelled *m, const int64_t *own, int n, crn_fused_leading *out) {
  int at = 0;
  out->n = n;
  for (int d = 0; d < n; d++) {
    int64_t count = 1;
    out->parts[d] = 0;
    while (at < m->f.n_leading && (count < own[d] || (d == n - 1 && m->f.leading[at] == 1) || out->parts[d] == 0)) {
      count *= m->f.leading[at++];
      out->parts[d]++;
    }
    if (count != own[d]) return false;
  }
  return at == m->f.n_leading;
}

// Which of them an operand of a step stands for, whose result has them as `whole` says: those at the end where it has fewer.
static bool take_parts(const attention_pass *a, uint32_t slot, const crn_fused_leading *whole, crn_fused_leading *out) {
  const crn_type *t = a->plan->slot_types[slot];
  const int n = t->rank - 2;
  *out = (crn_fused_leading){0};
  if (n > whole->n) return false;
  for (int d = 0; d < n; d++) out->parts[d] = whole->parts[whole->n - n + d];
  out->n = n < 0 ? 0 : n;
  return true;
}

static bool parts_of_result(const attention_pass *a, const spelled *m, uint32_t slot, crn_fused_leading *out) {
  const crn_type *t = a->plan->slot_types[slot];
  for (int d = 0; d < t->rank - 2; d++) {
    if (t->dims[d] < 1) return false;
  }
  return find_parts(m, t->dims, t->rank - 2, out);
}

// Everything in terms of the leading dimensions of `most`, of which all sizes must be known.
static bool set_leading(const attention_pass *a, spelled *m, const crn_type *most) {
  const uint32_t scores = m->scores->out[0], masking = m->masking ? m->masking->out[0] : scores;
  crn_fused_leading by_scores, by_mask;
  for (int d = 0; d < most->rank - 2; d++) {
    if (most->dims[d] < 1) return false;
    m->f.leading[d] = most->dims[d];
  }
  m->f.n_leading = most->rank - 2;
  return parts_of_result(a, m, scores, &by_scores) && parts_of_result(a, m, masking, &by_mask) &&
         parts_of_result(a, m, m->values->out[0], &m->f.out) && take_parts(a, m->scores->in[0], &by_scores, &m->f.query) &&
         (!m->masking || take_parts(a, m->mask, &by_mask, &m->f.mask_leading)) && take_parts(a, m->scores->in[1], &by_scores, &m->f.key) &&
         take_parts(a, m->values->in[1], &m->f.out, &m->f.value);
}

static bool set_grouped(const attention_pass *a, spelled *m) {
  const crn_type *keys, *values;
  if (m->widenings[1] || !find_grouped_keys(a, m->scores->in[1], &m->key, &keys) ||
      !find_grouped(a, m->values->in[1], &m->value, &values) || keys->rank != values->rank ||
      memcmp(keys->dims, values->dims, (size_t)(keys->rank - 2) * sizeof *keys->dims) || !set_leading(a, m, keys))
    return false;
  m->f.has_plain_keys = true;
  m->f.key = m->f.value = (crn_fused_leading){0};
  return true;
}

// The leading dimensions as they are furthest apart, where not all values have them in the same way.
static bool find_leading(const attention_pass *a, spelled *m) {
  const crn_plan *p = a->plan;
  const uint32_t values = m->values->out[0], scores = m->scores->out[0], masking = m->masking ? m->masking->out[0] : scores;
  const uint32_t slots[] = {values, scores, masking, m->softmax->out[0]};
  const crn_type *most = p->slot_types[values];
  bool is_mixed = false;
  if (set_grouped(a, m)) return true;
  m->key = m->scores->in[1];
  m->value = m->values->in[1];
  for (int i = 1; i < 4; i++) {
    const crn_type *t = p->slot_types[slots[i]];
    is_mixed |= t->rank != most->rank;
    if (t->rank > most->rank) most = t;
  }
  if (is_mixed) return set_leading(a, m, most);
  m->f.n_leading = 0;
  m->f.query = m->f.key = m->f.value = m->f.mask_leading = m->f.out = (crn_fused_leading){0};
  return true;
}

// One type everywhere, and ranks the step can bring together.
static bool types_fit(const attention_pass *a, spelled *m) {
  const crn_plan *p = a->plan;
  const crn_type *v = p->slot_types[m->values->in[1]];
  m->widenings[0] = find_widening(a, m->scores->in[0], v->dtype);
  m->widenings[1] = find_widening(a, m->scores->in[1], v->dtype);
  cairn_dtype types[2];
  for (int i = 0; i < 2; i++) types[i] = m->widenings[i] ? v->dtype : p->slot_types[m->scores->in[i]]->dtype;
  const crn_type *out = p->slot_types[m->values->out[0]];
  if (types[0] != types[1] || types[0] != v->dtype || v->dtype != out->dtype || !crn_is_small_float(v->dtype)) return false;
  if (!find_leading(a, m)) return false;
  const int rank = m->f.n_leading ? m->f.n_leading + 2 : out->rank;
  if (rank < 2 || rank > CAIRN_MAX_RANK - 2 || v->rank > rank) return false;
  if (m->f.mask == CRN_FUSED_NO_MASK) return true;
  const crn_type *mask = p->slot_types[m->mask];
  // A mask along the rows alone is none of positions.
  return mask->rank >= 1 && mask->rank <= rank && mask->dims[mask->rank - 1] != 1 &&
         (m->f.mask == CRN_FUSED_MASK_CHOSEN || mask->dtype == v->dtype || mask->dtype == CAIRN_F32);
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

// The step that chose between scores and what hides them becomes the one that turns the mask, once for all layers that share it.
static void turn_mask(attention_pass *a, spelled *m) {
  crn_plan *p = a->plan;
  crn_step *s = m->choice;
  const crn_step *turned = crn_match_made(p, &a->index, m->mask, CRN_OP_not, CRN_OP_not);
  if (turned) {
    m->mask = turned->in[0];
    return;
  }
  for (int i = 0; i < a->n_hidden; i++) {
    if (a->hidden[i] != m->mask) continue;
    m->mask = a->seen[i];
    return;
  }
  p->slot_types[s->out[0]] = p->slot_types[m->mask];
  s->id = CRN_OP_not;
  s->infer = crn_infer_of(CRN_OP_not);
  s->kernel = crn_kernel_of(CRN_OP_not);
  s->view = NULL;
  s->in[0] = m->mask;
  s->n_in = 1;
  if (a->n_hidden < MAX_MASKS) {
    a->hidden[a->n_hidden] = m->mask;
    a->seen[a->n_hidden++] = s->out[0];
  }
  m->mask = s->out[0];
}

static cairn_status fuse(attention_pass *a, spelled *m) {
  crn_plan *p = a->plan;
  crn_fused_attention *f;
  uint32_t *in, extent = 0;
  bool has_mask = m->f.mask != CRN_FUSED_NO_MASK;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *f, &f));
  CRN_TRY(crn_arena_array(&p->arena, 5, sizeof *in, &in));
  CRN_TRY(crn_make_attention_attributes(p, m->f.scale, &m->f.attrs, &m->f.input_names));
  if (m->choice) turn_mask(a, m);
  if (has_mask) CRN_TRY(make_extent(a, m, &extent));
  *f = m->f;
  in[0] = m->scores->in[0];
  in[1] = m->key;
  for (int i = 0; i < 2; i++) {
    if (!m->widenings[i]) continue;
    CRN_TRY(drop_widening(a, m->widenings[i], &in[i]));
    f->is_widened = true;
  }
  in[2] = m->value;
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
  cairn_status status = crn_shapes_create(p, &a.index, &a.shapes);
  for (uint32_t i = 0; i < p->n_steps && status == CAIRN_OK; i++) {
    spelled m;
    if (find_attention(&a, i, &m)) status = fuse(&a, &m);
  }
  crn_shapes_destroy(&a.shapes);
  crn_plan_index_destroy(&a.index);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
