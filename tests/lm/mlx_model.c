#include "mlx_model.h"

#include <math.h>
#include <string.h>

#include "execute/model.h"
#include "program/builder.h"
#include "tensor/half.h"

#define V(...) ((crn_value *[]){__VA_ARGS__})
#define COUNT(...) ((int)(sizeof V(__VA_ARGS__) / sizeof(crn_value *)))
#define JOIN(b, ...) crn_build_concat(b, 0, V(__VA_ARGS__), COUNT(__VA_ARGS__))
#define I32(b, ...) crn_build_i32(b, (int32_t[]){__VA_ARGS__}, (int)(sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t)))

typedef struct maker {
  crn_builder b;
  const mlx_shape *s;
  uint32_t seed;
  crn_value *n_new, *rows;           // si32[1]: tokens of the run, rows of the caches
  crn_value *offset;                 // si32[1]: where the new rows go
  crn_value *seen;                   // bool[1, groups, heads / groups, n, rows]
  crn_value *cosines, *sines;        // [n, head_dim / 2]
  crn_value *states[2], *caches[2];  // handles, and what was read from them last
  cairn_status status;
} maker;

// --- constants ----------------------------------------------------------------------------------------------------------

typedef struct weights {
  const cairn_allocator *allocator;
  size_t bytes;
  void *data;
} weights;

static void release_weights(void *object) {
  weights *w = object;
  crn_free(w->allocator, w->data, w->bytes);
  crn_free(w->allocator, w, sizeof *w);
}

static cairn_status make_weights(maker *m, int64_t n, weights **out) {
  const cairn_allocator *a = m->b.program->arena.allocator;
  weights *w;
  CRN_TRY(crn_alloc_zero(a, sizeof *w, &w));
  w->allocator = a;
  w->bytes = (size_t)n * cairn_dtype_bytes(m->s->dtype);
  cairn_status status = crn_alloc(a, w->bytes, &w->data);
  if (status == CAIRN_OK) status = crn_program_keep(m->b.program, release_weights, w);
  if (status != CAIRN_OK) {
    crn_free(a, w->data, w->bytes);
    crn_free(a, w, sizeof *w);
  }
  *out = w;
  return status;
}

static void store(const maker *m, weights *w, int64_t i, float value) {
  if (m->s->dtype == CAIRN_F32) {
    ((float *)w->data)[i] = value;
  } else {
    ((uint16_t *)w->data)[i] = crn_f16_from_f32(value);
  }
}

// Values of about `scale` around `middle`.
static crn_value *parameter(maker *m, const int64_t *dims, int rank, float middle, float scale) {
  int64_t n = 1;
  weights *w;
  for (int i = 0; i < rank; i++) n *= dims[i];
  if (m->status != CAIRN_OK || (m->status = make_weights(m, n, &w)) != CAIRN_OK) return NULL;
  for (int64_t i = 0; i < n; i++) {
    m->seed = m->seed * 1664525u + 1013904223u;
    store(m, w, i, middle + scale * ((float)(m->seed >> 8) / (float)(1 << 23) - 1));
  }
  const crn_tensor t = crn_tensor_make(m->s->dtype, dims, rank, w->data);
  return crn_build_constant(&m->b, NULL, &t, w->bytes);
}

static crn_value *number(maker *m, float value) { return parameter(m, (int64_t[]){1}, 1, value, 0); }

static crn_value *matrix(maker *m, int64_t in, int64_t out) { return parameter(m, (int64_t[]){1, in, out}, 3, 0, 1.7f / sqrtf((float)in)); }

static crn_value *i32(maker *m, int64_t value) { return crn_build_i32(&m->b, (int32_t[]){(int32_t)value}, 1); }

// --- parts --------------------------------------------------------------------------------------------------------------

static crn_value *binary(maker *m, crn_op_id id, crn_value *x, crn_value *y) { return crn_build_binary(&m->b, id, x, y); }

static crn_value *reshape(maker *m, crn_value *x, crn_value *shape) { return binary(m, CRN_OP_reshape, x, shape); }

static crn_value *broadcast(maker *m, crn_value *x, crn_value *shape) {
  return binary(m, CRN_OP_broadcast_to, x, crn_build_cast(&m->b, shape, CAIRN_UI32));
}

// MLX says the shape of a result again behind most ops.
static crn_value *wide(maker *m, crn_value *x, int64_t width) { return broadcast(m, x, JOIN(&m->b, i32(m, 1), m->n_new, i32(m, width))); }

static crn_value *product(maker *m, crn_value *x, int64_t in, int64_t out) {
  return binary(m, CRN_OP_broadcasting_batch_matmul, x, matrix(m, in, out));
}

static crn_value *norm(maker *m, crn_value *x) {
  const int64_t width = m->s->width;
  crn_value *squares = wide(m, binary(m, CRN_OP_broadcasting_mul, x, x), width);
  crn_value *sum = binary(m, CRN_OP_reduce_sum, squares, i32(m, 2));
  crn_value *mean = wide(m, binary(m, CRN_OP_broadcasting_mul, sum, number(m, 1.0f / (float)width)), 1);
  crn_value *root = crn_build_unary(&m->b, CRN_OP_rsqrt, binary(m, CRN_OP_broadcasting_add, mean, number(m, 1e-5f)));
  crn_value *even = wide(m, binary(m, CRN_OP_broadcasting_mul, x, wide(m, root, 1)), width);
  return wide(m, binary(m, CRN_OP_broadcasting_mul, even, parameter(m, &width, 1, 1, 0.2f)), width);
}

// [1, n, heads * head_dim] as [1, heads, n, head_dim].
static crn_value *heads_of(maker *m, crn_value *x, int64_t heads) {
  crn_value *apart = reshape(m, x, JOIN(&m->b, i32(m, 1), m->n_new, i32(m, heads), i32(m, m->s->head_dim)));
  return crn_build_transpose(&m->b, apart, (uint32_t[]){0, 2, 1, 3}, 4);
}

static crn_value *rotate(maker *m, crn_value *x, int64_t heads) {
  const int64_t half = m->s->head_dim / 2;
  crn_builder *b = &m->b;
  crn_value *ones = I32(b, 1, 1, 1, 1), *shape = JOIN(b, i32(m, 1), i32(m, heads), m->n_new, i32(m, half));
  crn_value *end = JOIN(b, i32(m, 1), i32(m, heads), m->n_new, i32(m, 2 * half));
  crn_value *first = crn_build_slice(b, x, I32(b, 0, 0, 0, 0), shape, ones);
  crn_value *second = crn_build_slice(b, x, I32(b, 0, 0, 0, (int32_t)half), end, ones);
  crn_value *real = binary(m, CRN_OP_broadcasting_sub, binary(m, CRN_OP_broadcasting_mul, first, m->cosines),
                           binary(m, CRN_OP_broadcasting_mul, second, m->sines));
  crn_value *imaginary = binary(m, CRN_OP_broadcasting_add, binary(m, CRN_OP_broadcasting_mul, first, m->sines),
                                binary(m, CRN_OP_broadcasting_mul, second, m->cosines));
  return crn_build_concat(b, 3, V(broadcast(m, real, shape), broadcast(m, imaginary, shape)), 2);
}

// Writes new rows [1, groups, n, head_dim] into cache `which` and gives all rows of the layer, [1, groups, 1, rows, head_dim].
static crn_value *keep(maker *m, int which, int64_t layer, crn_value *x) {
  crn_builder *b = &m->b;
  crn_value *rows = binary(m, CRN_OP_expand_dims, x, i32(m, 0));
  crn_value *start = JOIN(b, i32(m, layer), I32(b, 0, 0), m->offset, i32(m, 0));
  crn_value *shape = crn_build_cast(b, crn_build_unary(b, CRN_OP_get_shape, rows), CAIRN_SI32);
  crn_value *end = binary(m, CRN_OP_broadcasting_add, start, shape);
  crn_value *fresh =
      crn_build_op(b, CRN_OP_slice_update, V(m->caches[which], start, end, I32(b, 1, 1, 1, 1, 1), rows), 5, CAIRN_DTYPE_NONE, 0);
  crn_build_write_state(b, m->states[which], fresh);
  m->caches[which] = crn_build_read_state(b, m->states[which]);
  crn_value *index = reshape(m, i32(m, layer), crn_build_u32(b, (uint32_t[]){1, 1}, 2));
  crn_value *one = binary(m, CRN_OP_shrink_dims, binary(m, CRN_OP_gather_nd, m->caches[which], index), i32(m, 0));
  return binary(m, CRN_OP_expand_dims, one, i32(m, 2));
}

static crn_value *attention(maker *m, crn_value *x, int64_t layer) {
  const mlx_shape *s = m->s;
  const int64_t share = s->heads / s->groups;
  crn_builder *b = &m->b;
  crn_value *groups = i32(m, s->groups), *each = i32(m, share), *dim = i32(m, s->head_dim), *one = i32(m, 1);
  crn_value *queries = rotate(m, heads_of(m, product(m, x, s->width, s->heads * s->head_dim), s->heads), s->heads);
  queries = binary(m, CRN_OP_broadcasting_mul, queries, number(m, 1.0f / sqrtf((float)s->head_dim)));
  queries = broadcast(m, queries, JOIN(b, one, i32(m, s->heads), m->n_new, dim));
  crn_value *apart = JOIN(b, one, groups, each, m->n_new, dim), *scored = JOIN(b, one, groups, each, m->n_new, m->rows);
  queries = broadcast(m, reshape(m, queries, apart), apart);
  crn_value *key = rotate(m, heads_of(m, product(m, x, s->width, s->groups * s->head_dim), s->groups), s->groups);
  crn_value *keys = crn_build_transpose(b, keep(m, 0, layer, key), (uint32_t[]){0, 1, 2, 4, 3}, 5);
  keys = broadcast(m, keys, JOIN(b, one, groups, each, dim, m->rows));
  crn_value *scores = broadcast(m, binary(m, CRN_OP_broadcasting_batch_matmul, queries, keys), scored);
  const float least = s->dtype == CAIRN_F32 ? -3.4028235e38f : -65504.0f;
  crn_value *masked =
      crn_build_op(b, CRN_OP_broadcasting_where, V(broadcast(m, m->seen, scored), scores, broadcast(m, number(m, least), scored)), 3,
                   CAIRN_DTYPE_NONE, 0);
  crn_value *shares = broadcast(m, binary(m, CRN_OP_softmax, masked, crn_build_scalar_i32(b, 4)), scored);
  crn_value *values = keep(m, 1, layer, heads_of(m, product(m, x, s->width, s->groups * s->head_dim), s->groups));
  values = broadcast(m, values, JOIN(b, one, groups, each, m->rows, dim));
  crn_value *mixed = reshape(m, binary(m, CRN_OP_broadcasting_batch_matmul, shares, values), JOIN(b, one, i32(m, s->heads), m->n_new, dim));
  mixed = crn_build_transpose(b, mixed, (uint32_t[]){0, 2, 1, 3}, 4);
  mixed = wide(m, reshape(m, mixed, JOIN(b, one, m->n_new, i32(m, s->heads * s->head_dim))), s->heads * s->head_dim);
  return product(m, mixed, s->heads * s->head_dim, s->width);
}

static crn_value *feed_forward(maker *m, crn_value *x) {
  const mlx_shape *s = m->s;
  crn_value *gate = product(m, x, s->width, s->inner);
  gate = wide(m, binary(m, CRN_OP_broadcasting_mul, gate, crn_build_unary(&m->b, CRN_OP_sigmoid, gate)), s->inner);
  crn_value *both = wide(m, binary(m, CRN_OP_broadcasting_mul, gate, product(m, x, s->width, s->inner)), s->inner);
  return product(m, both, s->inner, s->width);
}

// --- what all layers share ------------------------------------------------------------------------------------------------

// Positions, mask and angles. The offset is the largest position less the number of tokens, plus one.
static void place(maker *m, crn_value *ids, crn_value *positions) {
  const mlx_shape *s = m->s;
  crn_builder *b = &m->b;
  crn_value *one = i32(m, 1), *scalar = crn_build_u32(b, NULL, 0), *zero = crn_build_scalar_i32(b, 0), *step = crn_build_scalar_i32(b, 1);
  crn_value *shape = crn_build_unary(b, CRN_OP_get_shape, ids);
  m->n_new = crn_build_cast(b, crn_build_slice(b, shape, one, i32(m, 2), one), CAIRN_SI32);
  crn_value *range = crn_build_op(b, CRN_OP_range, V(zero, reshape(m, m->n_new, scalar), step), 3, CAIRN_DTYPE_NONE, 0);
  crn_value *largest = binary(m, CRN_OP_reduce_max, positions, I32(b, 0, 1));
  crn_value *n = binary(m, CRN_OP_broadcasting_add, binary(m, CRN_OP_reduce_max, range, i32(m, 0)), step);
  crn_value *offset = binary(m, CRN_OP_broadcasting_add, binary(m, CRN_OP_broadcasting_sub, largest, n), step);
  m->offset = reshape(m, offset, crn_build_u32(b, (uint32_t[]){1}, 1));
  crn_value *queries = broadcast(m, reshape(m, binary(m, CRN_OP_broadcasting_add, range, offset), m->n_new), m->n_new);
  crn_value *cache_shape = crn_build_unary(b, CRN_OP_get_shape, m->caches[0]);
  m->rows = crn_build_cast(b, crn_build_slice(b, cache_shape, i32(m, 3), i32(m, 4), one), CAIRN_SI32);
  crn_value *keys = crn_build_op(b, CRN_OP_range, V(zero, reshape(m, m->rows, scalar), step), 3, CAIRN_DTYPE_NONE, 0);
  queries = binary(m, CRN_OP_expand_dims, queries, one);
  keys = binary(m, CRN_OP_expand_dims, keys, i32(m, 0));
  crn_value *seen = binary(m, CRN_OP_broadcasting_or, binary(m, CRN_OP_broadcasting_greater, queries, keys),
                           binary(m, CRN_OP_broadcasting_equal, queries, keys));
  seen = binary(m, CRN_OP_expand_dims, broadcast(m, seen, JOIN(b, m->n_new, m->rows)), I32(b, 0, 1));
  seen = broadcast(m, seen, JOIN(b, one, i32(m, s->heads), m->n_new, m->rows));
  m->seen = reshape(m, seen, JOIN(b, one, i32(m, s->groups), i32(m, s->heads / s->groups), m->n_new, m->rows));
  // Angles in f32 whatever the model.
  const int64_t half = s->head_dim / 2;
  float speeds[256];
  void *copy = NULL;
  for (int64_t i = 0; i < half && i < 256; i++) speeds[i] = powf(10000.0f, -(float)i / (float)half);
  if (b->status == CAIRN_OK) b->status = crn_arena_alloc(&b->program->arena, sizeof speeds, &copy);
  if (b->status != CAIRN_OK) return;
  memcpy(copy, speeds, sizeof speeds);
  const crn_tensor t = crn_tensor_make(CAIRN_F32, &half, 1, copy);
  crn_value *at =
      binary(m, CRN_OP_broadcasting_add, crn_build_cast(b, range, CAIRN_F32), crn_build_cast(b, reshape(m, offset, scalar), CAIRN_F32));
  crn_value *angles = binary(m, CRN_OP_broadcasting_mul, binary(m, CRN_OP_expand_dims, at, one),
                             crn_build_constant(b, NULL, &t, (size_t)half * sizeof(float)));
  m->cosines = crn_build_cast(b, crn_build_unary(b, CRN_OP_cos, angles), s->dtype);
  m->sines = crn_build_cast(b, crn_build_unary(b, CRN_OP_sin, angles), s->dtype);
}

static cairn_status build(crn_program *program, const mlx_shape *s) {
  const int64_t open[] = {1, -1}, cache[] = {s->layers, 1, s->groups, s->capacity, s->head_dim}, table[] = {s->vocab, s->width};
  maker m = {.s = s, .seed = 7};
  crn_builder *b = &m.b;
  crn_builder_begin(b, program, "main");
  crn_value *ids = crn_build_input(b, "input_ids", CAIRN_SI32, open, 2),
            *positions = crn_build_input(b, "position_ids", CAIRN_SI32, open, 2);
  m.states[0] = crn_build_state(b, "keyCache", s->dtype, cache, 5);
  m.states[1] = crn_build_state(b, "valueCache", s->dtype, cache, 5);
  for (int i = 0; i < 2; i++) m.caches[i] = crn_build_read_state(b, m.states[i]);
  place(&m, ids, positions);
  crn_value *x = binary(&m, CRN_OP_gather_nd, parameter(&m, table, 2, 0, 1), binary(&m, CRN_OP_expand_dims, ids, i32(&m, 2)));
  for (int64_t layer = 0; layer < s->layers; layer++) {
    x = wide(&m, binary(&m, CRN_OP_broadcasting_add, x, attention(&m, norm(&m, x), layer)), s->width);
    x = wide(&m, binary(&m, CRN_OP_broadcasting_add, x, feed_forward(&m, norm(&m, x))), s->width);
  }
  crn_value *logits = product(&m, norm(&m, x), s->width, s->vocab);
  cairn_status status = crn_builder_finish(b, &logits, (const char *[]){"logits"}, 1);
  return m.status != CAIRN_OK ? m.status : status;
}

cairn_status mlx_open(void *user, cairn_context *context, const cairn_model_options *options, crn_arena *arena,
                      crn_llm_source *out_source) {
  const mlx_shape *s = user;
  crn_program *program;
  (void)arena;
  *out_source = (crn_llm_source){.kind = "aimodel", .name = "mlx", .context_length = s->context, .parts = {.bos_id = -1, .eos_id = -1}};
  CRN_TRY(crn_program_create(&context->allocator, &program));
  cairn_status status = build(program, s);
  if (status == CAIRN_OK) return crn_model_create_from_program(context, program, options, &out_source->model);
  crn_program_destroy(program);
  return status;
}
