// Attention written head by head, as programs for fixed shapes have it: queries, keys and values are split along their features, each
// head is a product of its own, the scores are joined for one softmax with a mask and split again, and the results are joined.
//
//   concat_h( softmax( concat_h( q_h · k_g(h) ) + mask )_h · v_g(h) )      with transpositions anywhere between
//
// becomes one step on the values that were split. A factor on the keys or the scores goes into its scale.
#include "backend/cpu/fused/attention.h"

#include "specialize/match.h"
#include "specialize/passes.h"

enum { MAX_MASKS = 8 };

typedef struct head_pass {
  crn_plan *plan;
  crn_plan_index index;
  uint32_t masks[MAX_MASKS], extents[MAX_MASKS];
  int axes[MAX_MASKS];
  int n_masks;
} head_pass;

/// A value seen through a transposition: dimension d of what is looked at is `order[d]` of `slot`.
typedef struct turned {
  uint32_t slot;
  int order[CAIRN_MAX_RANK];
} turned;

typedef struct found_heads {
  const crn_step *q_split, *k_split, *v_split, *scores, *weights_split;
  crn_step *softmax;
  uint32_t mask;
  double scale;
  crn_fused_heads f;
} found_heads;

static turned see_through(const head_pass *a, uint32_t slot) {
  const crn_plan *p = a->plan;
  turned t = {.slot = slot};
  int rank = p->slot_types[slot]->rank, n;
  int64_t order[CAIRN_MAX_RANK];
  const crn_step *s = crn_match_made(p, &a->index, slot, CRN_OP_transpose, CRN_OP_transpose);
  bool is_turned = s && crn_match_integers(p, s->in[1], CAIRN_MAX_RANK, order, &n) && n == rank;
  for (int d = 0; d < rank; d++) t.order[d] = is_turned ? (int)(order[d] < 0 ? order[d] + rank : order[d]) : d;
  if (is_turned) t.slot = s->in[0];
  return t;
}

// The split that a slot comes from, its axis, and which piece it is. All pieces must be of one size.
static const crn_step *find_split(const head_pass *a, uint32_t slot, int *out_axis, uint32_t *out_piece) {
  const crn_plan *p = a->plan;
  const crn_step *s = crn_match_made(p, &a->index, slot, CRN_OP_split, CRN_OP_split);
  int64_t axis;
  int n, rank = p->slot_types[slot]->rank;
  if (!s || s->n_in != 3 || !crn_match_integers(p, s->in[2], 1, &axis, &n) || n != 1) return NULL;
  *out_axis = (int)(axis < 0 ? axis + rank : axis);
  if (*out_axis < 0 || *out_axis >= rank) return NULL;
  for (uint32_t k = 0; k < s->n_out; k++) {
    int64_t size = p->slot_types[s->out[k]]->dims[*out_axis];
    if (size < 1 || size != p->slot_types[s->out[0]]->dims[*out_axis]) return NULL;
    if (s->out[k] == slot) *out_piece = k;
  }
  return s;
}

// Whether all dimensions but two have one element.
static bool is_plane(const crn_plan *p, uint32_t slot, int a, int b) {
  const crn_type *t = p->slot_types[slot];
  if (a == b) return false;
  for (int d = 0; d < t->rank; d++) {
    if (d != a && d != b && t->dims[d] != 1) return false;
  }
  return true;
}

static bool is_product(const crn_step *s) {
  return crn_step_is(s, CRN_OP_broadcasting_batch_matmul) || crn_step_is(s, CRN_OP_batch_matmul);
}

static const crn_step *own_product(const head_pass *a, uint32_t slot) {
  const crn_step *s = a->index.n_uses[slot] == 1 ? crn_maker_of(a->plan, &a->index, slot) : NULL;
  return is_product(s) ? s : NULL;
}

static bool find_axis(const head_pass *a, const crn_step *concat, int *out_axis) {
  int64_t axis;
  int n, rank = a->plan->slot_types[concat->out[0]]->rank;
  if (!crn_match_integers(a->plan, concat->in[0], 1, &axis, &n) || n != 1) return false;
  *out_axis = (int)(axis < 0 ? axis + rank : axis);
  return *out_axis >= 0 && *out_axis < rank;
}

// Where dimension `of` of the product went in the turned value.
static int place_of(const turned *t, int rank, int of) {
  for (int d = 0; d < rank; d++) {
    if (t->order[d] == of) return d;
  }
  return -1;
}

// What the heads share must be the same for all of them, and be known by the first.
static bool agree(int *known, int value, bool first) {
  if (first) *known = value;
  return *known == value;
}

// One operand of a product: a piece of a split whose features lie along the split. `rows` and `features` are its dimensions
// counted from the last one.
static const crn_step *find_piece(const head_pass *a, uint32_t slot, int rows, int features, const crn_step *known, int *row_axis,
                                  int *feature_axis, uint32_t *out_piece) {
  const crn_plan *p = a->plan;
  turned t = see_through(a, slot);
  int rank = p->slot_types[slot]->rank, split_axis;
  const crn_step *split = find_split(a, t.slot, &split_axis, out_piece);
  if (!split || rank < 2 || (known && split != known)) return NULL;
  int row = t.order[rank - 1 - rows], feature = t.order[rank - 1 - features];
  if (split_axis != feature || !is_plane(p, t.slot, row, feature)) return NULL;
  return agree(row_axis, row, !known) && agree(feature_axis, feature, !known) ? split : NULL;
}

// --- the parts --------------------------------------------------------------------------------------------------------------

// Head `h` of the result: weights of the head times the values of its group.
static bool find_values(const head_pass *a, const crn_step *joined, uint32_t h, found_heads *m) {
  const crn_plan *p = a->plan;
  uint32_t piece;
  turned t = see_through(a, joined->in[1 + h]);
  const crn_step *product = own_product(a, t.slot);
  if (!product || a->index.n_uses[joined->in[1 + h]] != 1) return false;
  int rank = p->slot_types[t.slot]->rank, axis;
  if (rank != p->slot_types[joined->out[0]]->rank) return false;
  if (!agree(&m->f.out_row, place_of(&t, rank, rank - 2), h == 0) || place_of(&t, rank, rank - 1) != m->f.out_feature) return false;
  m->v_split = find_piece(a, product->in[1], 1, 0, m->v_split, &m->f.v_position, &m->f.v_feature, &piece);
  if (!m->v_split || piece != h * m->v_split->n_out / m->f.heads) return false;
  turned w = see_through(a, product->in[0]);
  const crn_step *split = find_split(a, w.slot, &axis, &piece);
  if (!split || piece != h || split->n_out != m->f.heads || (m->weights_split && split != m->weights_split)) return false;
  m->weights_split = split;
  int w_rank = p->slot_types[w.slot]->rank;
  // The pieces of weights keep the dimensions of the softmax: rows and positions are where the mask has them.
  return agree(&m->f.mask_row, w.order[w_rank - 2], h == 0) && agree(&m->f.mask_position, w.order[w_rank - 1], h == 0) &&
         p->slot_types[split->out[0]]->dims[axis] == 1 && axis != m->f.mask_row && axis != m->f.mask_position &&
         is_plane(p, w.slot, m->f.mask_row, m->f.mask_position);
}

static bool find_scores(const head_pass *a, uint32_t h, found_heads *m) {
  const crn_plan *p = a->plan;
  uint32_t piece;
  turned t = see_through(a, m->scores->in[1 + h]);
  const crn_step *product = own_product(a, t.slot);
  if (!product || a->index.n_uses[m->scores->in[1 + h]] != 1) return false;
  int rank = p->slot_types[t.slot]->rank;
  if (place_of(&t, rank, rank - 2) != m->f.mask_row || place_of(&t, rank, rank - 1) != m->f.mask_position) return false;
  m->q_split = find_piece(a, product->in[0], 1, 0, m->q_split, &m->f.q_row, &m->f.q_feature, &piece);
  if (!m->q_split || piece != h || m->q_split->n_out != m->f.heads) return false;
  m->k_split = find_piece(a, product->in[1], 0, 1, m->k_split, &m->f.k_position, &m->f.k_feature, &piece);
  return m->k_split && piece == h * m->k_split->n_out / m->f.heads;
}

// The mask beside the scores: one value for all heads, or that value joined with itself.
static bool find_mask(const head_pass *a, uint32_t slot, int head_axis, found_heads *m) {
  const crn_plan *p = a->plan;
  const crn_step *s = crn_match_made(p, &a->index, slot, CRN_OP_concat, CRN_OP_concat);
  int axis;
  m->mask = slot;
  if (s && s->n_in == m->f.heads + 1 && find_axis(a, s, &axis) && axis == head_axis) {
    m->mask = s->in[1];
    for (uint32_t k = 2; k < s->n_in; k++) {
      if (s->in[k] != m->mask) return false;
    }
  }
  const crn_type *type = p->slot_types[m->mask], *scores = p->slot_types[m->scores->out[0]];
  return type->rank == scores->rank && type->dtype == scores->dtype && is_plane(p, m->mask, m->f.mask_row, m->f.mask_position) &&
         type->dims[m->f.mask_position] == scores->dims[m->f.mask_position];
}

// softmax(scores + mask) over the positions.
static bool find_softmax(const head_pass *a, found_heads *m) {
  const crn_plan *p = a->plan;
  const crn_plan_index *x = &a->index;
  uint32_t weights = m->weights_split->in[0];
  int64_t axis;
  int n, head_axis, rank = p->slot_types[weights]->rank;
  m->softmax = crn_match_own(p, x, weights, CRN_OP_softmax, CRN_OP_softmax);
  if (!m->softmax || !crn_match_integers(p, m->softmax->in[1], 1, &axis, &n) || n != 1) return false;
  if ((axis < 0 ? axis + rank : axis) != m->f.mask_position) return false;
  const crn_step *sum = crn_match_own(p, x, m->softmax->in[0], CRN_OP_broadcasting_add, CRN_OP_add);
  for (int side = 0; sum && side < 2; side++) {
    m->scores = crn_match_own(p, x, sum->in[side], CRN_OP_concat, CRN_OP_concat);
    if (!m->scores || m->scores->n_in != m->f.heads + 1 || !find_axis(a, m->scores, &head_axis)) continue;
    if (head_axis == m->f.mask_row || head_axis == m->f.mask_position) continue;
    if (!find_mask(a, sum->in[1 - side], head_axis, m)) continue;
    uint32_t h = 0;
    m->q_split = m->k_split = NULL;
    while (h < m->f.heads && find_scores(a, h, m)) h++;
    if (h == m->f.heads) return true;
  }
  return false;
}

static bool find_heads(const head_pass *a, uint32_t i, found_heads *m) {
  const crn_plan *p = a->plan;
  const crn_step *s = &p->steps[i];
  *m = (found_heads){.scale = 1};
  if (a->index.is_inner[i] || !crn_step_is(s, CRN_OP_concat) || s->n_in < 2) return false;
  const crn_type *type = p->slot_types[s->out[0]];
  m->f.heads = s->n_in - 1;
  if (!crn_is_small_float(type->dtype) || !find_axis(a, s, &m->f.out_feature)) return false;
  uint32_t h = 0;
  while (h < m->f.heads && find_values(a, s, h, m)) h++;
  if (h < m->f.heads || !find_softmax(a, m)) return false;
  m->f.groups = m->k_split->n_out;
  if (m->v_split->n_out != m->f.groups || m->f.heads % m->f.groups || !is_plane(p, s->out[0], m->f.out_row, m->f.out_feature)) return false;
  const uint32_t slots[] = {m->q_split->in[0], m->k_split->in[0], m->v_split->in[0]};
  for (int k = 0; k < 3; k++) {
    if (p->slot_types[slots[k]]->dtype != type->dtype) return false;
  }
  return p->slot_types[slots[1]]->dims[m->f.k_position] != 0;
}

// --- the step ---------------------------------------------------------------------------------------------------------------

static cairn_status make_extent(head_pass *a, const found_heads *m, uint32_t *out_slot) {
  crn_plan *p = a->plan;
  int axis = p->slot_types[m->mask]->rank - 1 - m->f.mask_position;
  for (int i = 0; i < a->n_masks; i++) {
    if (a->masks[i] != m->mask || a->axes[i] != axis) continue;
    *out_slot = a->extents[i];
    return CAIRN_OK;
  }
  CRN_TRY(crn_make_mask_extent(p, m->softmax, m->mask, axis));
  *out_slot = m->softmax->out[0];
  if (a->n_masks == MAX_MASKS) return CAIRN_OK;
  a->masks[a->n_masks] = m->mask;
  a->axes[a->n_masks] = axis;
  a->extents[a->n_masks++] = *out_slot;
  return CAIRN_OK;
}

// The keys before they were multiplied by a number.
static uint32_t unscaled_keys(const head_pass *a, uint32_t slot, double *scale) {
  const crn_step *s = crn_match_own(a->plan, &a->index, slot, CRN_OP_broadcasting_mul, CRN_OP_mul);
  for (int side = 0; s && side < 2; side++) {
    if (a->plan->slot_types[s->in[side]]->rank != a->plan->slot_types[slot]->rank) continue;
    if (crn_match_number(a->plan, &a->index, s->in[1 - side], scale)) return s->in[side];
  }
  *scale = 1;
  return slot;
}

static cairn_status fuse(head_pass *a, crn_step *s, found_heads *m) {
  crn_plan *p = a->plan;
  crn_fused_heads *f;
  uint32_t *in, extent;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *f, &f));
  CRN_TRY(crn_arena_array(&p->arena, 5, sizeof *in, &in));
  in[0] = m->q_split->in[0];
  in[1] = unscaled_keys(a, m->k_split->in[0], &m->scale);
  in[2] = m->v_split->in[0];
  in[3] = m->mask;
  CRN_TRY(make_extent(a, m, &extent));
  in[4] = extent;
  CRN_TRY(crn_make_attention_attributes(p, m->scale, &m->f.attrs, &m->f.input_names));
  *f = m->f;
  s->name = "attention";
  s->fused = f;
  s->in = in;
  s->n_in = 5;
  s->minor_axis = f->out_feature;
  s->infer = crn_infer_fused_heads;
  s->kernel = crn_fused_heads_run;
  s->view = NULL;
  return CAIRN_OK;
}

cairn_status crn_pass_head_attention(crn_plan *p) {
  head_pass a = {.plan = p};
  CRN_TRY(crn_plan_index_create(p, &a.index));
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < p->n_steps && status == CAIRN_OK; i++) {
    found_heads m;
    if (find_heads(&a, i, &m)) status = fuse(&a, &p->steps[i], &m);
  }
  crn_plan_index_destroy(&a.index);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
