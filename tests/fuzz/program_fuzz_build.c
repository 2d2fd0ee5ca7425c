#include "program_fuzz_build.h"

#include <stdio.h>
#include <string.h>

uint32_t choose(choices *c, uint32_t below) {
  uint32_t v = c->at < c->n ? c->bytes[c->at++] : 0;
  return below ? v % below : 0;
}

// A program in the making: the values there are, and the choices.
typedef struct maker {
  choices *c;
  const form *f;
  crn_builder b;
  fuzz_program *p;
  crn_value *values[FUZZ_MAX_VALUES];
  int n_values;
  crn_value *outputs[FUZZ_MAX_OUTPUTS];
} maker;

static const cairn_dtype types[] = {CAIRN_F32,  CAIRN_F32,  CAIRN_F16, CAIRN_BF16, CAIRN_SI32, CAIRN_SI8,    CAIRN_UI8,
                                    CAIRN_UI32, CAIRN_BOOL, CAIRN_F64, CAIRN_SI64, CAIRN_UI4,  CAIRN_F8E5M2, CAIRN_SI16};
static const double specials[] = {0, -0.0, 1, -1, 0.5, 2, 3, -7, 100, 1e30, -3e38};

// --- values ----------------------------------------------------------------------------------------------------------------

static bool is_float(const crn_value *v) { return crn_dtype_is_float(v->type->dtype); }
static bool is_number(const crn_value *v) { return is_float(v) || crn_dtype_is_integer(v->type->dtype); }
static bool is_wide_float(const crn_value *v) { return is_float(v) && cairn_dtype_bytes(v->type->dtype) > 1; }
static bool has_rank(const crn_value *v) { return v->type->rank > 0; }

static crn_value *pick(maker *m, bool (*fits)(const crn_value *v)) {
  uint32_t first = choose(m->c, (uint32_t)m->n_values);
  for (int i = 0; i < m->n_values; i++) {
    crn_value *v = m->values[((int)first + i) % m->n_values];
    if (!fits || fits(v)) return v;
  }
  return NULL;
}

static void keep(maker *m, crn_value *v) {
  if (v && m->n_values < FUZZ_MAX_VALUES) m->values[m->n_values++] = v;
}

static bool same_shape(const crn_type *a, const crn_type *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

static bool can_broadcast(const crn_type *a, const crn_type *b) {
  for (int i = 1; i <= a->rank && i <= b->rank; i++) {
    int64_t x = a->dims[a->rank - i], y = b->dims[b->rank - i];
    if (x < 0 || y < 0 || (x != y && x != 1 && y != 1)) return false;
  }
  return true;
}

// A second operand of the same type, by shape or by broadcast; the value itself always fits.
static crn_value *partner(maker *m, crn_value *x, bool broadcast) {
  uint32_t first = choose(m->c, (uint32_t)m->n_values);
  for (int i = 0; i < m->n_values; i++) {
    crn_value *v = m->values[((int)first + i) % m->n_values];
    if (v->type->dtype != x->type->dtype) continue;
    if (same_shape(v->type, x->type) || (broadcast && can_broadcast(v->type, x->type))) return v;
  }
  return x;
}

static void fill(maker *m, fuzz_input *in) {
  crn_tensor t = crn_tensor_make(in->dtype, in->dims, in->rank, in->data);
  int64_t n = crn_tensor_count(&t);
  uint32_t seed = choose(m->c, 256) + 1 + (uint32_t)m->p->n_inputs * 977;
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    double v = (double)(int32_t)seed * 0x1p-29;
    if (seed >> 26 == 5) v = specials[(seed >> 8) % (sizeof specials / sizeof *specials)];
    if (crn_dtype_is_float(in->dtype)) {
      crn_store_f64(in->dtype, crn_tensor_at(&t, i), v);
    } else {
      crn_store_i64(in->dtype, crn_tensor_at(&t, i), in->dtype == CAIRN_BOOL ? v > 0 : (int64_t)(seed >> 24));
    }
  }
}

static void add_input(maker *m, cairn_dtype dtype, int rank, const int64_t *dims) {
  fuzz_program *p = m->p;
  int i = p->n_inputs++;
  fuzz_input *in = &p->inputs[i];
  snprintf(in->name, sizeof in->name, "x%d", i);
  in->dtype = dtype;
  in->rank = rank;
  for (int d = 0; d < rank; d++) in->dims[d] = dims[d];
  fill(m, in);
  p->is_given[i] = i == 0 || !m->f->constants;
  if (p->is_given[i]) {
    keep(m, crn_build_input(&m->b, in->name, dtype, in->dims, rank));
  } else {
    crn_tensor t = crn_tensor_make(dtype, in->dims, rank, in->data);
    keep(m, crn_build_constant(&m->b, NULL, &t, 0));
  }
}

static void add_inputs(maker *m) {
  int n = 1 + (int)choose(m->c, FUZZ_MAX_INPUTS);
  for (int i = 0; i < n; i++) {
    cairn_dtype dtype = types[choose(m->c, sizeof types / sizeof *types)];
    int rank = (int)choose(m->c, 5);
    int64_t dims[4];
    for (int d = 0; d < rank; d++) dims[d] = 1 + (int64_t)choose(m->c, 4);
    add_input(m, dtype, rank, dims);
  }
}

static void add_output(maker *m, crn_value *v, bool close) {
  fuzz_program *p = m->p;
  if (!v || p->n_outputs == FUZZ_MAX_OUTPUTS) return;
  snprintf(p->output_names[p->n_outputs], sizeof p->output_names[0], "y%d", p->n_outputs);
  p->is_close[p->n_outputs] = close;
  m->outputs[p->n_outputs++] = v;
}

// --- ops ---------------------------------------------------------------------------------------------------------------------

#define PICK_OP(m, list) ((list)[choose((m)->c, sizeof(list) / sizeof *(list))])

static crn_value *scalar_axis(maker *m, const crn_value *x) {
  return crn_build_scalar_i32(&m->b, (int32_t)choose(m->c, 2 * (uint32_t)x->type->rank) - x->type->rank);
}

static crn_value *unary(maker *m) {
  static const crn_op_id floats[] = {CRN_OP_tanh, CRN_OP_exp,  CRN_OP_sigmoid, CRN_OP_silu,  CRN_OP_sqrt, CRN_OP_rsqrt, CRN_OP_erf,
                                     CRN_OP_sin,  CRN_OP_relu, CRN_OP_abs,     CRN_OP_round, CRN_OP_gelu, CRN_OP_log};
  crn_value *x = pick(m, is_float);
  if (!x) return NULL;
  crn_op_id id = PICK_OP(m, floats);
  return crn_build_op(&m->b, id, &x, 1, CAIRN_DTYPE_NONE, id == CRN_OP_gelu ? (int)choose(m->c, 3) : 0);
}

typedef struct pair_op {
  crn_op_id plain, broadcast;
} pair_op;

static crn_value *stretched(maker *m, crn_value *x, const crn_type *to) {
  uint32_t dims[CAIRN_MAX_RANK];
  for (int i = 0; i < to->rank; i++) dims[i] = (uint32_t)to->dims[i];
  return crn_build_binary(&m->b, CRN_OP_broadcast_to, x, crn_build_u32(&m->b, dims, to->rank));
}

static crn_value *apply_pair(maker *m, const pair_op *op, crn_value *x, crn_value *y) {
  if (!m->f->decomposed) return crn_build_binary(&m->b, op->broadcast, x, y);
  const crn_type *a = x->type, *b = y->type;
  int64_t dims[CAIRN_MAX_RANK];
  int rank = a->rank > b->rank ? a->rank : b->rank;
  for (int i = 1; i <= rank; i++) {
    int64_t p = i <= a->rank ? a->dims[a->rank - i] : 1, q = i <= b->rank ? b->dims[b->rank - i] : 1;
    dims[rank - i] = p == 1 ? q : p;
  }
  const crn_type *to = crn_build_tensor_type(&m->b, a->dtype, dims, rank);
  if (!to) return NULL;
  return crn_build_binary(&m->b, op->plain, stretched(m, x, to), stretched(m, y, to));
}

#define PAIR(id) \
  { CRN_OP_##id, CRN_OP_broadcasting_##id }

static crn_value *binary(maker *m) {
  static const pair_op numbers[] = {PAIR(add),     PAIR(sub),   PAIR(mul),          PAIR(divide),    PAIR(maximum), PAIR(minimum),
                                    PAIR(greater), PAIR(equal), PAIR(floor_divide), PAIR(not_equal), PAIR(modulo),  PAIR(pow)};
  static const pair_op bools[] = {PAIR(and), PAIR(or), PAIR(xor), PAIR(equal), PAIR(bitwise_and)};
  crn_value *x = pick(m, NULL), *y = partner(m, x, true);
  if (x->type->dtype == CAIRN_BOOL) return apply_pair(m, &bools[choose(m->c, 5)], x, y);
  // The 8-bit floats have no floor_divide, modulo, pow and comparisons for equality in the dialect.
  uint32_t n = is_float(x) && !is_wide_float(x) ? 7 : 12;
  return apply_pair(m, &numbers[choose(m->c, n)], x, y);
}

static crn_value *cast(maker *m) {
  crn_value *x = pick(m, NULL);
  return crn_build_cast(&m->b, x, types[choose(m->c, sizeof types / sizeof *types)]);
}

static crn_value *reduction(maker *m) {
  static const crn_op_id ids[] = {CRN_OP_reduce_sum, CRN_OP_reduce_max, CRN_OP_reduce_min, CRN_OP_reduce_product, CRN_OP_reduce_mean};
  crn_value *x = pick(m, has_rank);
  int32_t axes[CAIRN_MAX_RANK];
  int n = 0;
  if (!x) return NULL;
  for (int d = 0; d < x->type->rank; d++) {
    if (choose(m->c, 2)) axes[n++] = choose(m->c, 2) ? d : d - x->type->rank;
  }
  crn_op_id id = ids[choose(m->c, is_float(x) ? 5 : 4)];
  if (x->type->dtype == CAIRN_BOOL) id = choose(m->c, 2) ? CRN_OP_any : CRN_OP_all;
  return crn_build_binary(&m->b, id, x, crn_build_i32(&m->b, axes, n));
}

static crn_value *along_axis(maker *m) {
  crn_value *x = pick(m, has_rank), *no = NULL;
  if (!x || !is_number(x)) return NULL;
  crn_value *axis = scalar_axis(m, x), *flags[2];
  for (int i = 0; i < 2; i++) flags[i] = crn_build_cast(&m->b, crn_build_scalar_i32(&m->b, (int32_t)choose(m->c, 2)), CAIRN_BOOL);
  switch (choose(m->c, 5)) {
    case 0:
      return crn_build_op(&m->b, CRN_OP_scan, (crn_value *[]){x, axis, flags[0]}, 3, CAIRN_DTYPE_NONE, (int)choose(m->c, 4));
    case 1:
      return crn_build_op(&m->b, CRN_OP_sort, (crn_value *[]){x, axis, flags[0], flags[1]}, 4, CAIRN_DTYPE_NONE, 0);
    case 2:
      return crn_build_op(&m->b, CRN_OP_argsort, (crn_value *[]){x, axis, flags[0], flags[1]}, 4, CAIRN_SI32, 0);
    case 3:
      return crn_build_op(&m->b, CRN_OP_argmax, (crn_value *[]){x, axis}, 2, CAIRN_UI32, 0);
    default:
      return is_float(x) ? crn_build_binary(&m->b, CRN_OP_softmax, x, axis) : no;
  }
}

static crn_value *reshape(maker *m) {
  crn_value *x = pick(m, NULL);
  int32_t to[3] = {-1, 1, 1};
  int at = (int)choose(m->c, 3);
  to[0] = 1;
  to[at] = -1;
  return crn_build_binary(&m->b, CRN_OP_reshape, x, crn_build_i32(&m->b, to, 1 + at + (int)choose(m->c, (uint32_t)(3 - at))));
}

static crn_value *transpose(maker *m) {
  crn_value *x = pick(m, NULL);
  uint32_t order[CAIRN_MAX_RANK];
  int rank = x->type->rank;
  for (int i = 0; i < rank; i++) order[i] = (uint32_t)i;
  for (int i = rank - 1; i > 0; i--) {
    uint32_t k = choose(m->c, (uint32_t)i + 1), t = order[i];
    order[i] = order[k];
    order[k] = t;
  }
  return crn_build_transpose(&m->b, x, order, rank);
}

static crn_value *slice(maker *m) {
  crn_value *x = pick(m, NULL);
  int32_t bounds[3][CAIRN_MAX_RANK];
  for (int d = 0; d < x->type->rank; d++) {
    bounds[0][d] = (int32_t)choose(m->c, 7) - 3;
    bounds[1][d] = (int32_t)choose(m->c, 9) - 4;
    bounds[2][d] = (int32_t)choose(m->c, 4) - 1;
    if (bounds[2][d] == 0) bounds[2][d] = 2;
  }
  crn_value *v[3];
  for (int k = 0; k < 3; k++) v[k] = crn_build_i32(&m->b, bounds[k], x->type->rank);
  return crn_build_slice(&m->b, x, v[0], v[1], v[2]);
}

static crn_value *concat(maker *m) {
  crn_value *x = pick(m, has_rank);
  if (!x) return NULL;
  crn_value *y = partner(m, x, false);
  return crn_build_concat(&m->b, (int32_t)choose(m->c, (uint32_t)x->type->rank), (crn_value *[]){x, y, x}, 2 + (int)choose(m->c, 2));
}

static crn_value *pad(maker *m) {
  crn_value *x = pick(m, NULL);
  uint32_t amounts[2 * CAIRN_MAX_RANK];
  // The modes that copy from inside cannot take more than there is.
  int mode = choose(m->c, 2) ? CRN_PAD_CONSTANT : CRN_PAD_REPLICATE;
  for (int d = 0; d < x->type->rank; d++) {
    for (int k = 0; k < 2; k++) amounts[2 * d + k] = x->type->dims[d] == 0 && mode == CRN_PAD_REPLICATE ? 0 : choose(m->c, 3);
    if (mode == CRN_PAD_REPLICATE && x->type->dims[d] < 0) amounts[2 * d] = amounts[2 * d + 1] = 0;
  }
  crn_value *value = crn_build_cast(&m->b, crn_build_scalar_i32(&m->b, 1), x->type->dtype);
  return crn_build_op(&m->b, CRN_OP_pad, (crn_value *[]){x, crn_build_u32(&m->b, amounts, 2 * x->type->rank), value}, 3, CAIRN_DTYPE_NONE,
                      mode);
}

static crn_value *where(maker *m) {
  crn_value *x = pick(m, is_number);
  if (!x) return NULL;
  crn_value *y = partner(m, x, false);
  crn_value *condition = crn_build_binary(&m->b, CRN_OP_greater, x, y);
  return crn_build_op(&m->b, choose(m->c, 2) ? CRN_OP_where : CRN_OP_broadcasting_where, (crn_value *[]){condition, x, y}, 3,
                      CAIRN_DTYPE_NONE, 0);
}

static bool is_matrix(const crn_value *v) { return v->type->rank >= 2 && is_number(v); }

// A product's sums may be added up in another order when one side is constant. So floats are tame first, and the result goes straight
// out, where it is compared with a tolerance.
static crn_value *product(maker *m) {
  crn_value *x = pick(m, is_matrix);
  if (!x) return NULL;
  uint32_t order[CAIRN_MAX_RANK];
  int rank = x->type->rank;
  for (int i = 0; i < rank; i++) order[i] = (uint32_t)i;
  order[rank - 1] = (uint32_t)rank - 2;
  order[rank - 2] = (uint32_t)rank - 1;
  crn_value *y = partner(m, x, false);
  if (is_float(x)) {
    y = crn_build_unary(&m->b, CRN_OP_tanh, y);
    x = crn_build_unary(&m->b, CRN_OP_tanh, x);
  }
  crn_value *turned = crn_build_transpose(&m->b, y, order, rank);
  crn_value *z = crn_build_binary(&m->b, m->f->decomposed ? CRN_OP_batch_matmul : CRN_OP_broadcasting_batch_matmul, x, turned);
  add_output(m, z, true);
  return NULL;
}

static crn_value *gather(maker *m) {
  crn_value *x = pick(m, has_rank);
  if (!x || crn_dtype_is_complex(x->type->dtype)) return NULL;
  int32_t index[3];
  // Now and then an index lies outside: then the run must fail in every form.
  for (int i = 0; i < 3; i++) index[i] = (int32_t)choose(m->c, 40) % 4 - (choose(m->c, 30) == 1 ? 9 : 0);
  int n = 1 + (int)choose(m->c, 3);
  crn_value *column = crn_build_binary(&m->b, CRN_OP_reshape, crn_build_i32(&m->b, index, n), crn_build_i32(&m->b, (int32_t[]){n, 1}, 2));
  return crn_build_binary(&m->b, CRN_OP_gather_nd, x, column);
}

static crn_value *tile(maker *m) {
  crn_value *x = pick(m, has_rank);
  uint32_t times[2] = {1 + choose(m->c, 2), 1 + choose(m->c, 3)};
  if (!x) return NULL;
  int n = x->type->rank < 2 ? x->type->rank : 1 + (int)choose(m->c, 2);
  return crn_build_binary(&m->b, CRN_OP_tile, x, crn_build_u32(&m->b, times, n));
}

// --- regions -------------------------------------------------------------------------------------------------------------------

static crn_value *region_reduce(maker *m) {
  static const crn_op_id ids[] = {CRN_OP_add, CRN_OP_maximum, CRN_OP_sub, CRN_OP_mul};
  crn_value *x = pick(m, has_rank);
  if (!x || !is_number(x) || !is_wide_float(x)) return NULL;
  const crn_type *scalar = crn_build_tensor_type(&m->b, x->type->dtype, NULL, 0);
  crn_value *init = crn_build_cast(&m->b, crn_build_scalar_i32(&m->b, (int32_t)choose(m->c, 3)), x->type->dtype);
  crn_block *body = crn_build_region_begin(&m->b, (const crn_type *[]){scalar, scalar}, 2);
  if (!body) return NULL;
  crn_value *y = crn_build_binary(&m->b, PICK_OP(m, ids), &body->arguments[0], &body->arguments[1]);
  crn_build_region_end(&m->b, CRN_OP_yield, &y, 1);
  crn_value *axes = crn_build_i32(&m->b, (int32_t[]){(int32_t)choose(m->c, (uint32_t)x->type->rank)}, 1);
  return crn_build_region_op(&m->b, CRN_OP_reduce, (crn_value *[]){x, axes, init}, 3, &body, 1, NULL, 1);
}

static crn_value *branch(maker *m) {
  crn_value *x = pick(m, is_float);
  if (!x) return NULL;
  crn_value *flag = crn_build_cast(&m->b, crn_build_scalar_i32(&m->b, (int32_t)choose(m->c, 2)), CAIRN_BOOL);
  crn_block *blocks[2];
  for (int i = 0; i < 2; i++) {
    blocks[i] = crn_build_region_begin(&m->b, NULL, 0);
    if (!blocks[i]) return NULL;
    crn_value *y = i ? crn_build_unary(&m->b, CRN_OP_abs, x) : crn_build_binary(&m->b, CRN_OP_add, x, x);
    crn_build_region_end(&m->b, CRN_OP_yield, &y, 1);
  }
  return crn_build_region_op(&m->b, CRN_OP_if, &flag, 1, blocks, 2, &x->type, 1);
}

// Doubles a value a few times: a counter and the value go round.
static crn_value *loop(maker *m) {
  crn_value *x = pick(m, is_float);
  if (!x) return NULL;
  crn_value *inits[2] = {crn_build_scalar_i32(&m->b, 0), x}, *limit = crn_build_scalar_i32(&m->b, (int32_t)choose(m->c, 4));
  if (!inits[0]) return NULL;
  const crn_type *passed[2] = {inits[0]->type, x->type};
  crn_block *blocks[2];
  blocks[0] = crn_build_region_begin(&m->b, passed, 2);
  if (!blocks[0]) return NULL;
  crn_value *next[3] = {NULL, &blocks[0]->arguments[0], &blocks[0]->arguments[1]};
  next[0] = crn_build_binary(&m->b, CRN_OP_greater, limit, next[1]);
  crn_build_region_end(&m->b, CRN_OP_condition, next, 3);
  blocks[1] = crn_build_region_begin(&m->b, passed, 2);
  if (!blocks[1]) return NULL;
  next[0] = crn_build_binary(&m->b, CRN_OP_add, &blocks[1]->arguments[0], crn_build_scalar_i32(&m->b, 1));
  next[1] = crn_build_binary(&m->b, CRN_OP_add, &blocks[1]->arguments[1], &blocks[1]->arguments[1]);
  crn_build_region_end(&m->b, CRN_OP_yield, next, 2);
  crn_value *first = crn_build_region_op(&m->b, CRN_OP_while, inits, 2, blocks, 2, passed, 2);
  return first ? first + 1 : NULL;
}

// --- composites ------------------------------------------------------------------------------------------------------------------

// A composite with a body, called from the program: `body` builds what the declaration stands for.
static crn_value *composite(maker *m, crn_op_id id, const char *const *names, crn_value *const *operands, int n, const crn_attr *attrs,
                            crn_value *(*body)(crn_builder *b, crn_value *const *x, const crn_type *out)) {
  crn_builder inner;
  crn_value *inputs[4];
  char name[16];
  snprintf(name, sizeof name, "body%u", m->p->program->n_graphs);
  crn_builder_begin(&inner, m->p->program, name);
  for (int i = 0; i < n; i++)
    inputs[i] = crn_build_input(&inner, names[i], operands[i]->type->dtype, operands[i]->type->dims, operands[i]->type->rank);
  crn_value *y = body(&inner, inputs, operands[0]->type);
  if (crn_builder_finish(&inner, &y, (const char *[]){"y"}, 1) != CAIRN_OK) return NULL;
  crn_graph *graph = crn_program_find_graph(m->p->program, name);
  crn_composite_decl *decl;
  const char **copies;
  if (crn_arena_alloc(&m->p->program->arena, sizeof *decl, &decl) != CAIRN_OK ||
      crn_arena_array(&m->p->program->arena, (size_t)n, sizeof *copies, &copies) != CAIRN_OK)
    return NULL;
  for (int i = 0; i < n; i++) copies[i] = names[i];
  *decl = (crn_composite_decl){.name = crn_op_info_of(id)->name, .id = id, .n_inputs = (uint32_t)n, .input_names = copies, .attrs = attrs};
  graph->is_private = true;
  graph->composite = decl;
  crn_value *result = crn_build_region_op(&m->b, CRN_OP_invoke, operands, n, NULL, 0, &y->type, 1);
  if (result) result->def->attr.callee = graph;
  return result;
}

static crn_value *last_axis(crn_builder *b) { return crn_build_i32(b, (int32_t[]){-1}, 1); }

static crn_value *norm_body(crn_builder *b, crn_value *const *x, const crn_type *out) {
  (void)out;
  crn_value *squares = crn_build_binary(b, CRN_OP_mul, x[0], x[0]), *mean = crn_build_binary(b, CRN_OP_reduce_mean, squares, last_axis(b));
  crn_value *sum = crn_build_binary(b, CRN_OP_broadcasting_add, mean, crn_build_scalar_f32(b, 0x1p-10f));
  crn_value *y = crn_build_binary(b, CRN_OP_broadcasting_mul, x[0], crn_build_unary(b, CRN_OP_rsqrt, sum));
  return crn_build_binary(b, CRN_OP_broadcasting_mul, y, x[1]);
}

static crn_value *attention_body(crn_builder *b, crn_value *const *x, const crn_type *out) {
  (void)out;
  crn_value *turned = crn_build_transpose(b, x[1], (uint32_t[]){0, 1, 3, 2}, 4);
  crn_value *scores = crn_build_binary(b, CRN_OP_broadcasting_batch_matmul, x[0], turned);
  crn_value *scaled = crn_build_binary(b, CRN_OP_broadcasting_mul, scores, crn_build_scalar_f32(b, 0.5f));
  crn_value *weights = crn_build_binary(b, CRN_OP_softmax, scaled, crn_build_scalar_i32(b, -1));
  return crn_build_binary(b, CRN_OP_broadcasting_batch_matmul, weights, x[2]);
}

static crn_attr *attributes(maker *m, const char *const *keys, const crn_attr *values, int n) {
  crn_attr *dict = crn_build_attrs(&m->b, n);
  if (!dict) return NULL;
  crn_attr *items = (crn_attr *)dict->list.items;
  for (int i = 0; i < n; i++) {
    items[i] = values[i];
    items[i].key = keys[i];
  }
  return dict;
}

// The operands of composites are finite and of modest size, for sums of what is far apart depend on their order.
static crn_value *tame(maker *m, int rank, const int64_t *dims) {
  float *data;
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  if (crn_arena_array(&m->p->program->arena, (size_t)n, sizeof *data, &data) != CAIRN_OK) return NULL;
  uint32_t seed = choose(m->c, 256);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = (float)(int32_t)seed * 0x1p-31f;
  }
  crn_tensor t = crn_tensor_make(CAIRN_F32, dims, rank, data);
  return crn_build_constant(&m->b, NULL, &t, 0);
}

static crn_value *make_composite(maker *m) {
  int64_t dims[4] = {1, 1 + (int64_t)choose(m->c, 3), 1 + (int64_t)choose(m->c, 5), 1 + (int64_t)choose(m->c, 9)};
  if (choose(m->c, 2)) {
    static const char *const names[] = {"input", "scale"}, *const keys[] = {"axes", "eps", "version"};
    const crn_attr values[] = {{.kind = CRN_ATTR_INT, .i = -1}, {.kind = CRN_ATTR_FLOAT, .f = 0x1p-10}, {.kind = CRN_ATTR_INT, .i = 1}};
    crn_value *x[2] = {tame(m, 4, dims), tame(m, 1, &dims[3])};
    if (!x[0] || !x[1]) return NULL;
    return composite(m, CRN_OP_rms_norm, names, x, 2, attributes(m, keys, values, 3), norm_body);
  }
  static const char *const names[] = {"query", "key", "value"}, *const keys[] = {"is_causal", "scale", "version", "window_size"};
  const crn_attr values[] = {
      {.kind = CRN_ATTR_BOOL, .i = 0}, {.kind = CRN_ATTR_FLOAT, .f = 0.5}, {.kind = CRN_ATTR_INT, .i = 1}, {.kind = CRN_ATTR_NONE}};
  int64_t past[4] = {dims[0], dims[1], 1 + (int64_t)choose(m->c, 6), dims[3]};
  crn_value *x[3] = {tame(m, 4, dims), tame(m, 4, past), tame(m, 4, past)};
  if (!x[0] || !x[1] || !x[2]) return NULL;
  return composite(m, CRN_OP_scaled_dot_product_attention, names, x, 3, attributes(m, keys, values, 4), attention_body);
}

// --- the program -------------------------------------------------------------------------------------------------------------

static bool is_small(const crn_value *v) {
  int64_t n = 1;
  for (int i = 0; i < v->type->rank; i++) n *= v->type->dims[i] < 0 ? 4 : v->type->dims[i];
  return n <= 2048 && v->type->rank <= 6;
}

static void add_op(maker *m) {
  static crn_value *(*const makers[])(maker * m) = {unary,     binary, binary, cast, reduction,    along_axis, reshape,
                                                    transpose, slice,  concat, pad,  where,        product,    gather,
                                                    tile,      unary,  branch, loop, region_reduce};
  crn_value *v = makers[choose(m->c, sizeof makers / sizeof *makers)](m);
  // Everything becomes an output: an op that nobody needs may be left out, and then does not fail either.
  if (v && is_small(v)) {
    keep(m, v);
  } else {
    add_output(m, v, false);
  }
}

cairn_status fuzz_build(choices *c, const form *f, fuzz_program *p) {
  maker m = {.c = c, .f = f, .p = p};
  const char *names[FUZZ_MAX_OUTPUTS];
  memset(p, 0, sizeof *p);
  cairn_status status = crn_program_create(crn_default_allocator(), &p->program);
  if (status != CAIRN_OK) return status;
  crn_builder_begin(&m.b, p->program, "main");
  add_inputs(&m);
  int n_ops = 1 + (int)choose(c, 24);
  for (int i = 0; i < n_ops && m.n_values; i++) add_op(&m);
  // A composite's result goes straight out, where it is compared with a tolerance.
  if (choose(c, 3) == 0) add_output(&m, make_composite(&m), true);
  for (int i = m.n_values - 1; i >= 0 && p->n_outputs < FUZZ_MAX_OUTPUTS; i--) add_output(&m, m.values[i], false);
  for (int i = 0; i < p->n_outputs; i++) names[i] = p->output_names[i];
  return crn_builder_finish(&m.b, m.outputs, names, p->n_outputs);
}
