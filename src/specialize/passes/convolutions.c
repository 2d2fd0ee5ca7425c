// Convolutions with constant weights become products of windows with packed matrices, and what surrounds them is done in the same step:
//
//   pad(x) with zeros                  what lies outside of the operand
//   conv + constant, conv * constant   one number a channel: the bias, and factors that go into the weights (what is left of a batch norm)
//   conv + y                           residual
//   relu, gelu, silu                   of all of it
//
// Results have their channels next to each other in memory. Called twice: in front of the second folding, so that plain weights are kept
// packed, and behind it, where quantised weights have become plain ones.
#include <stdio.h>
#include <string.h>

#include "backend/cpu/fused/conv.h"
#include "base/checked.h"
#include "specialize/match.h"
#include "specialize/passes.h"

enum { MOST_WINDOW = 1 << 20 };  ///< sizes, strides and paddings of a window that are looked at

typedef struct conv_pass {
  crn_plan *plan;
  const crn_specialization *options;
  crn_plan_index index;
  uint32_t *read_by;  ///< by slot: the step that reads it, when there is one and nobody else does
  bool *is_dropped;
} conv_pass;

/// One convolution while its surroundings are taken in.
typedef struct taken {
  crn_fused_conv *fused;
  uint32_t at;             ///< the last step that was taken in: it becomes the convolution
  uint32_t x, added;       ///< slots
  const crn_tensor *data;  ///< the weights
  bool is_folded;          ///< they were computed when the plan was made
  float *scale, *bias;     ///< one an output; NULL = none. The bias goes to the step, the factors into the weights
} taken;

// --- what is a convolution ------------------------------------------------------------------------------------------------------

static bool spatial_numbers(const crn_plan *p, uint32_t slot, int n, int64_t *out) {
  int count;
  if (!crn_match_integers(p, slot, CRN_CONV_SPATIAL, out, &count) || (count != 1 && count != n)) return false;
  for (int i = 0; i < n; i++) {
    if (count == 1) out[i] = out[0];
    if (out[i] < 1 || out[i] > MOST_WINDOW) return false;
  }
  return true;
}

bool crn_match_windows(const crn_plan *p, const crn_step *s, int spatial, const int64_t *sizes, int stride, int dilation, crn_window *out) {
  int64_t strides[CRN_CONV_SPATIAL], dilations[CRN_CONV_SPATIAL];
  if (!spatial_numbers(p, s->in[stride], spatial, strides) || !spatial_numbers(p, s->in[dilation], spatial, dilations)) return false;
  for (int d = 0; d < CRN_CONV_SPATIAL; d++) out[d] = (crn_window){1, 1, 1, 0, 0};
  for (int d = 0; d < spatial; d++) {
    // The dilation of a single element means nothing.
    out[CRN_CONV_SPATIAL - spatial + d] = (crn_window){sizes[d], strides[d], sizes[d] == 1 ? 1 : dilations[d], 0, 0};
    if (sizes[d] < 1 || sizes[d] > MOST_WINDOW) return false;
  }
  return true;
}

static bool is_taken_type(cairn_dtype dtype) { return dtype == CAIRN_F32 || dtype == CAIRN_F16; }

// Every output sees all channels, or each channel has an output of its own.
static bool set_channels(const crn_plan *p, const crn_step *s, crn_fused_conv *f) {
  const crn_type *w = p->slot_types[s->in[1]];
  int64_t groups;
  int n;
  if (!crn_match_integers(p, s->in[4], 1, &groups, &n) || n != 1 || groups < 1) return false;
  f->outputs = w->dims[0];
  if (w->dims[0] < 1 || w->dims[1] < 1 || !crn_mul_i64(w->dims[1], groups, &f->channels)) return false;
  return groups == 1 || (w->dims[1] == 1 && groups == f->outputs);
}

static bool is_convolution(const conv_pass *c, const crn_step *s, crn_fused_conv *f, const crn_tensor **out_data) {
  const crn_plan *p = c->plan;
  if (!crn_step_is(s, CRN_OP_conv2d) && !crn_step_is(s, CRN_OP_conv3d)) return false;
  const crn_type *x = p->slot_types[s->in[0]], *w = p->slot_types[s->in[1]], *out = p->slot_types[s->out[0]];
  const crn_tensor *data = crn_constant_of(p, s->in[1]);
  f->spatial = s->id == CRN_OP_conv3d ? 3 : 2;
  if (!data || data->packed || !is_taken_type(x->dtype) || w->dtype != x->dtype || out->dtype != x->dtype) return false;
  if (x->rank != f->spatial + 2 || w->rank != x->rank || out->rank != x->rank || !crn_tensor_is_contiguous(data)) return false;
  *out_data = data;
  return crn_match_windows(p, s, f->spatial, &w->dims[2], 2, 3, f->window) && set_channels(p, s, f);
}

// --- what is in front -------------------------------------------------------------------------------------------------------------

bool crn_match_padding(const crn_plan *p, const crn_plan_index *index, uint32_t slot, int spatial, crn_window *windows, double *out_value) {
  const crn_step *s = crn_match_made(p, index, slot, CRN_OP_pad, CRN_OP_pad);
  int64_t amounts[2 * CAIRN_MAX_RANK];
  int n, rank = spatial + 2;
  if (!s || s->op->attr.mode != CRN_PAD_CONSTANT || !crn_match_number(p, index, s->in[2], out_value)) return false;
  if (!crn_match_integers(p, s->in[1], 2 * CAIRN_MAX_RANK, amounts, &n) || n != 2 * rank) return false;
  for (int i = 0; i < n; i++) {
    if (amounts[i] < 0 || amounts[i] > (i < 4 ? 0 : MOST_WINDOW)) return false;
  }
  for (int d = 0; d < spatial; d++) {
    windows[CRN_CONV_SPATIAL - spatial + d].before = amounts[4 + 2 * d];
    windows[CRN_CONV_SPATIAL - spatial + d].after = amounts[5 + 2 * d];
  }
  return true;
}

static void take_padding(const conv_pass *c, taken *t) {
  crn_window padded[CRN_CONV_SPATIAL];
  double value;
  memcpy(padded, t->fused->window, sizeof padded);
  if (!crn_match_padding(c->plan, &c->index, t->x, t->fused->spatial, padded, &value) || value != 0) return;
  memcpy(t->fused->window, padded, sizeof padded);
  t->x = crn_maker_of(c->plan, &c->index, t->x)->in[0];
}

// --- what is behind ---------------------------------------------------------------------------------------------------------------

static bool same_type(const crn_plan *p, uint32_t a, uint32_t b) {
  const crn_type *s = p->slot_types[a], *t = p->slot_types[b];
  if (s->dtype != t->dtype || s->rank != t->rank) return false;
  for (int d = 0; d < s->rank; d++) {
    if (s->dims[d] != t->dims[d]) return false;
  }
  return true;
}

// One number for each channel, or one for all; NULL when the slot holds anything else.
static cairn_status channel_numbers(const conv_pass *c, uint32_t slot, int rank, int64_t channels, const float **out) {
  const crn_tensor *t = crn_constant_of(c->plan, slot);
  *out = NULL;
  if (!t || t->packed || !is_taken_type(t->dtype) || t->rank > rank) return CAIRN_OK;
  int axis = 1 - (rank - t->rank);
  int64_t n = crn_tensor_count(t);
  if (n != 1 && (axis < 0 || t->dims[axis] != channels || n != channels)) return CAIRN_OK;
  float *values;
  CRN_TRY(crn_arena_array(&c->plan->arena, (size_t)channels, sizeof *values, &values));
  for (int64_t i = 0; i < channels; i++) values[i] = (float)crn_load_f64(t->dtype, crn_tensor_at(t, n == 1 ? 0 : i * t->strides[axis]));
  *out = values;
  return CAIRN_OK;
}

static cairn_status filled(const conv_pass *c, int64_t n, float value, float **in_out) {
  if (*in_out) return CAIRN_OK;
  CRN_TRY(crn_arena_array(&c->plan->arena, (size_t)n, sizeof **in_out, in_out));
  for (int64_t i = 0; i < n; i++) (*in_out)[i] = value;
  return CAIRN_OK;
}

static bool is_sum(const crn_step *s) { return crn_step_is(s, CRN_OP_broadcasting_add) || crn_step_is(s, CRN_OP_add); }
static bool is_difference(const crn_step *s) { return crn_step_is(s, CRN_OP_broadcasting_sub) || crn_step_is(s, CRN_OP_sub); }
static bool is_product(const crn_step *s) { return crn_step_is(s, CRN_OP_broadcasting_mul) || crn_step_is(s, CRN_OP_mul); }

// Constants behind the convolution. Sums of f16 are rounded one by one, so that only one goes into the step, and no factor.
static cairn_status take_constant(const conv_pass *c, const crn_step *s, uint32_t made, taken *t, bool *out_done) {
  crn_fused_conv *f = t->fused;
  int side = s->in[0] == made ? 1 : 0;
  bool is_f32 = c->plan->slot_types[made]->dtype == CAIRN_F32;
  const float *numbers;
  if (!(is_sum(s) || is_product(s) || (is_difference(s) && side == 1)) || f->has_added) return CAIRN_OK;
  if (!is_f32 && (t->bias || is_product(s))) return CAIRN_OK;
  CRN_TRY(channel_numbers(c, s->in[side], c->plan->slot_types[made]->rank, f->outputs, &numbers));
  if (!numbers) return CAIRN_OK;
  if (is_product(s)) CRN_TRY(filled(c, f->outputs, 1, &t->scale));
  if (!is_product(s)) CRN_TRY(filled(c, f->outputs, 0, &t->bias));
  for (int64_t i = 0; i < f->outputs; i++) {
    if (is_product(s)) {
      t->scale[i] *= numbers[i];
      if (t->bias) t->bias[i] *= numbers[i];
    } else {
      t->bias[i] += is_difference(s) ? -numbers[i] : numbers[i];
    }
  }
  *out_done = true;
  return CAIRN_OK;
}

// Shapes must be known to be equal; a batch may be open, for one image goes with any number of them.
static bool take_added(const conv_pass *c, const crn_step *s, uint32_t made, taken *t) {
  const crn_plan *p = c->plan;
  uint32_t other = s->in[0] == made ? s->in[1] : s->in[0];
  if (!is_sum(s) || t->fused->has_added || other == made || p->is_constant[other] || !same_type(p, other, made)) return false;
  for (int d = 1; d < p->slot_types[made]->rank; d++) {
    if (p->slot_types[made]->dims[d] < 0) return false;
  }
  t->fused->has_added = true;
  t->added = other;
  return true;
}

crn_activation crn_match_activation(const crn_step *s) {
  if (crn_step_is(s, CRN_OP_relu)) return CRN_ACTIVATION_RELU;
  if (crn_step_is(s, CRN_OP_silu)) return CRN_ACTIVATION_SILU;
  if (!crn_step_is(s, CRN_OP_gelu)) return CRN_ACTIVATION_NONE;
  return s->op->attr.mode == CRN_GELU_NONE      ? CRN_ACTIVATION_GELU
         : s->op->attr.mode == CRN_GELU_TANH    ? CRN_ACTIVATION_GELU_TANH
         : s->op->attr.mode == CRN_GELU_SIGMOID ? CRN_ACTIVATION_GELU_SIGMOID
                                                : CRN_ACTIVATION_NONE;
}

bool crn_match_gate(const crn_step *s, crn_gate *out) {
  switch (crn_match_activation(s)) {
    case CRN_ACTIVATION_SILU:
      *out = CRN_GATE_SILU;
      return true;
    case CRN_ACTIVATION_GELU:
      *out = CRN_GATE_GELU;
      return true;
    case CRN_ACTIVATION_GELU_TANH:
      *out = CRN_GATE_GELU_TANH;
      return true;
    case CRN_ACTIVATION_GELU_SIGMOID:
      *out = CRN_GATE_GELU_SIGMOID;
      return true;
    default:
      return false;
  }
}

static cairn_status take_next(const conv_pass *c, taken *t, bool *out_done) {
  const crn_plan *p = c->plan;
  uint32_t made = p->steps[t->at].out[0], next = c->read_by[made];
  *out_done = false;
  if (next == CRN_NO_STEP || c->is_dropped[next] || t->fused->activation) return CAIRN_OK;
  const crn_step *s = &p->steps[next];
  if (s->n_out != 1 || s->minor_axis || !same_type(p, made, s->out[0])) return CAIRN_OK;
  CRN_TRY(take_constant(c, s, made, t, out_done));
  if (!*out_done) *out_done = take_added(c, s, made, t);
  if (!*out_done) {
    t->fused->activation = crn_match_activation(s);
    *out_done = t->fused->activation != CRN_ACTIVATION_NONE;
  }
  if (!*out_done) return CAIRN_OK;
  c->is_dropped[t->at] = true;
  t->at = next;
  return CAIRN_OK;
}

// --- weights ----------------------------------------------------------------------------------------------------------------------

static float weight_at(const taken *t, int64_t output, int64_t channel, int64_t tap) {
  const crn_tensor *w = t->data;
  int64_t taps = crn_tensor_count(w) / w->dims[0] / w->dims[1];
  float value = (float)crn_load_f64(w->dtype, crn_tensor_at(w, (output * w->dims[1] + channel) * taps + tap));
  return t->scale ? value * t->scale[output] : value;
}

static cairn_status pack_channels(const conv_pass *c, const taken *t, int64_t taps) {
  int64_t n = t->fused->outputs;
  size_t count;
  float *w;
  if (!crn_mul_size((size_t)n, (size_t)taps, &count)) return CRN_FAIL(OUT_OF_RANGE, "the weights of a convolution are too large");
  CRN_TRY(crn_arena_array(&c->plan->arena, count, sizeof *w, &w));
  for (int64_t tap = 0; tap < taps; tap++) {
    for (int64_t i = 0; i < n; i++) w[tap * n + i] = weight_at(t, i, 0, tap);
  }
  t->fused->depthwise = w;
  return crn_vec_push(&c->plan->context->allocator, &c->plan->folded_reads, *t->data);
}

// Weights that are stored as they are packed are known by their place in the file; others are made for this plan.
static cairn_status pack_weights(const conv_pass *c, const taken *t) {
  const cairn_allocator *a = &c->plan->context->allocator;
  int64_t n = t->fused->outputs, channels = t->fused->channels, taps = 1;
  for (int d = 2; d < t->data->rank; d++) taps *= t->data->dims[d];
  if (t->data->dims[1] != channels) return pack_channels(c, t, taps);
  crn_weight_source w = {.dtype = CAIRN_F32, .n = n, .k = channels * taps, .n_axis = 0, .k_axis = 1, .stack = 1, .taps = taps};
  int64_t dims[] = {n, channels, taps};
  size_t count = (size_t)(n * channels * taps);
  float *copy = NULL;
  w.data = crn_tensor_make(CAIRN_F32, dims, 3, t->data->data);
  bool is_changed = t->scale || t->data->dtype != CAIRN_F32;
  w.is_transient = is_changed || t->is_folded;
  // Whoever compiles the asset must know that these are read whenever the plan is made.
  if (w.is_transient) CRN_TRY(crn_vec_push(a, &c->plan->folded_reads, *t->data));
  if (is_changed) {
    CRN_TRY(crn_alloc_array(a, count, sizeof *copy, &copy));
    for (int64_t i = 0; i < (int64_t)count; i++) copy[i] = weight_at(t, i / taps / channels, i / taps % channels, i % taps);
    w.data.data = copy;
  }
  cairn_status status = crn_weight_store_pack(c->options->store, c->plan->context->pool, &w, 1, false, &t->fused->weights);
  crn_free(a, copy, count * sizeof *copy);
  return status;
}

// --- the step ---------------------------------------------------------------------------------------------------------------------

static cairn_status name_of(const conv_pass *c, const taken *t, const char **out) {
  char *name;
  enum { ROOM = 64 };
  CRN_TRY(crn_arena_array(&c->plan->arena, ROOM, 1, &name));
  bool is_padded = false;
  for (int d = 0; d < CRN_CONV_SPATIAL; d++) is_padded |= t->fused->window[d].before || t->fused->window[d].after;
  snprintf(name, ROOM, "%sconv%s%s%s", is_padded ? "pad+" : "", t->bias ? "+bias" : "", t->fused->has_added ? "+add" : "",
           crn_activation_suffix(t->fused->activation));
  *out = name;
  return CAIRN_OK;
}

static cairn_status make_step(const conv_pass *c, const taken *t) {
  crn_step *s = &c->plan->steps[t->at];
  uint32_t *in;
  CRN_TRY(crn_arena_array(&c->plan->arena, 2, sizeof *in, &in));
  CRN_TRY(name_of(c, t, &s->name));
  in[0] = t->x;
  in[1] = t->added;
  t->fused->bias = t->bias;
  s->kind = CRN_STEP_KERNEL;
  s->fused = t->fused;
  s->in = in;
  s->n_in = t->fused->has_added ? 2 : 1;
  s->infer = crn_infer_fused_conv;
  s->kernel = crn_fused_conv_run;
  s->view = NULL;
  s->minor_axis = 1;
  return CAIRN_OK;
}

static cairn_status take_convolution(const conv_pass *c, uint32_t at) {
  crn_plan *p = c->plan;
  crn_fused_conv f = {0};
  taken t = {.at = at};
  if (c->index.is_inner[at] || c->is_dropped[at] || !is_convolution(c, &p->steps[at], &f, &t.data)) return CAIRN_OK;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *t.fused, &t.fused));
  *t.fused = f;
  t.x = p->steps[at].in[0];
  t.is_folded = p->constants[p->steps[at].in[1]].buffer != NULL;
  take_padding(c, &t);
  for (bool done = true; done;) CRN_TRY(take_next(c, &t, &done));
  CRN_TRY(pack_weights(c, &t));
  return make_step(c, &t);
}

// --- the pass ---------------------------------------------------------------------------------------------------------------------

void crn_plan_find_readers(const crn_plan *p, const crn_plan_index *index, uint32_t *read_by) {
  for (uint32_t i = 0; i < p->n_slots; i++) read_by[i] = CRN_NO_STEP;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    for (uint32_t k = 0; k < p->steps[i].n_in; k++) {
      uint32_t slot = p->steps[i].in[k];
      if (index->n_uses[slot] == 1 && !index->is_inner[i]) read_by[slot] = i;
    }
  }
}

static cairn_status run_pass(conv_pass *c) {
  crn_plan_find_readers(c->plan, &c->index, c->read_by);
  for (uint32_t i = 0; i < c->plan->n_steps; i++) CRN_TRY(take_convolution(c, i));
  return crn_plan_drop(c->plan, c->is_dropped);
}

cairn_status crn_pass_convolutions(crn_plan *p, const crn_specialization *options) {
  const cairn_allocator *a = &p->context->allocator;
  conv_pass c = {.plan = p, .options = options};
  uint32_t n_steps = p->n_steps, n_slots = p->n_slots;
  CRN_TRY(crn_plan_index_create(p, &c.index));
  cairn_status status = crn_alloc_array(a, n_slots, sizeof *c.read_by, &c.read_by);
  if (status == CAIRN_OK) status = crn_alloc_array(a, n_steps, sizeof *c.is_dropped, &c.is_dropped);
  if (status == CAIRN_OK) status = run_pass(&c);
  crn_free(a, c.read_by, n_slots * sizeof *c.read_by);
  crn_free(a, c.is_dropped, n_steps * sizeof *c.is_dropped);
  crn_plan_index_destroy(&c.index);
  return status == CAIRN_OK ? crn_plan_drop_unused(p) : status;
}
