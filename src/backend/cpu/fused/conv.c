// Convolutions as products: what a window sees is a row of values, a run of them for each of its lines when the channels lie next to each
// other. Windows that reach into the padding, and inputs in another order, are copied into a window of the worker that stays in its cache.
#include "backend/cpu/fused/conv.h"

#include <string.h>

#include "backend/cpu/kernels/tiles/tiles.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/ref.h"
#include "base/checked.h"

enum {
  TILE = CRN_LINEAR_TILE,
  PAIR = 2 * TILE,
  STRIP = 56,               ///< rows whose sums are kept until they are finished
  LINES = 7,                ///< positions of a line up to which kernels take two lines together
  WINDOW_BYTES = 640 << 10  ///< of the copied input of a block, which the second-level cache holds together with two tiles
};

// --- inference --------------------------------------------------------------------------------------------------------------

static cairn_status infer_window(int d, int64_t n, const crn_window *w, int64_t *out) {
  int64_t padded;
  *out = CAIRN_DYNAMIC;
  if (n == CAIRN_DYNAMIC) return CAIRN_OK;
  if (crn_add_i64(n, w->before + w->after, &padded) && crn_window_count(padded, w->size, w->stride, w->dilation, out)) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "a window of %lld with dilation %lld does not fit into dimension %d of size %lld", (long long)w->size,
                  (long long)w->dilation, d, (long long)n);
}

cairn_status crn_infer_fused_conv(const crn_infer_args *args) {
  const crn_fused_conv *f = args->fused;
  const crn_tensor *x = &args->operands[0];
  int64_t dims[CAIRN_MAX_RANK];
  if (x->rank != f->spatial + 2 || x->dims[1] != f->channels) {
    return CRN_FAIL(INVALID_ARGUMENT, "a convolution of %lld channels and %d dimensions behind them was given %lld and %d",
                    (long long)f->channels, f->spatial, x->rank > 1 ? (long long)x->dims[1] : 0LL, x->rank - 2);
  }
  dims[0] = x->dims[0];
  dims[1] = f->outputs;
  for (int d = 0; d < f->spatial; d++)
    CRN_TRY(infer_window(d + 2, x->dims[d + 2], &f->window[CRN_CONV_SPATIAL - f->spatial + d], &dims[d + 2]));
  if (f->has_added && dims[0] == 1) dims[0] = args->operands[1].dims[0];
  return crn_infer_finish(args, 0, x->dtype, x->rank, dims);
}

// --- the geometry of a run ------------------------------------------------------------------------------------------------------

// A plane is one image and one index of the outermost spatial dimension; a block is several whole planes, or some lines of one.
typedef struct conv_run {
  const crn_fused_conv *f;
  const crn_kernel_args *args;
  const crn_tensor *x, *added, *y;
  const crn_tile_kernels *kernels;
  int64_t in[CRN_CONV_SPATIAL], in_step[CRN_CONV_SPATIAL], count[CRN_CONV_SPATIAL];
  int64_t image_step;                                ///< of x; 0 = one image for all
  bool is_copied;                                    ///< else windows are read where they lie
  int64_t planes;                                    ///< in all
  int64_t block_planes;                              ///< of a block
  int64_t block_lines;                               ///< of each plane of a block
  int64_t parts;                                     ///< blocks of a plane, when it has several
  int64_t blocks, groups;                            ///< an item is a block and a group of pairs of tiles
  int64_t pairs;                                     ///< of tiles; of depthwise convolutions 1
  int64_t window_line, window_plane, window_region;  ///< elements of the copy: a line, a plane of taps, all taps of a plane
  int64_t window_lines, window_width;
  int64_t row_step, line_step;  ///< from a position to the next along a line, and from a line to the next
  int64_t length;               ///< of a run
  int n_runs;
  int64_t *run_at;
  char *memory;  ///< of the workers
  size_t worker_bytes;
} conv_run;

typedef struct conv_worker {
  int64_t block;  ///< whose input was copied last, + 1
} conv_worker;

static bool is_single(const crn_window *w) { return w->size == 1; }
// Positions between windows in the copy: single elements are gathered without what lies between them.
static int64_t copied_stride(const crn_window *w) { return is_single(w) ? 1 : w->stride; }
static int64_t reach(const crn_window *w) { return (w->size - 1) * w->dilation; }

static void describe(conv_run *r) {
  const crn_fused_conv *f = r->f;
  int skip = CRN_CONV_SPATIAL - f->spatial;
  r->is_copied = r->x->dtype != CAIRN_F32 || (r->x->strides[1] != 1 && f->channels > 1);
  for (int d = 0; d < CRN_CONV_SPATIAL; d++) {
    r->in[d] = d < skip ? 1 : r->x->dims[d - skip + 2];
    r->in_step[d] = d < skip ? 0 : r->x->strides[d - skip + 2];
    r->count[d] = d < skip ? 1 : r->y->dims[d - skip + 2];
    r->is_copied |= f->window[d].before || f->window[d].after;
  }
  r->image_step = r->x->dims[0] == 1 ? 0 : r->x->strides[0];
  r->planes = r->y->dims[0] * r->count[0];
  r->pairs = f->depthwise ? 1 : (f->outputs + PAIR - 1) / PAIR;
}

// The taps of a window as runs, from the distances between taps. Those next to each other in memory are one run.
static void set_runs(conv_run *r, int64_t plane, int64_t line, int64_t element) {
  const crn_window *w = r->f->window;
  bool is_joined = !r->f->depthwise && (element == r->f->channels || w[2].size == 1);
  r->length = r->f->channels * (is_joined ? w[2].size : 1);
  for (int64_t z = 0; z < w[0].size; z++) {
    for (int64_t y = 0; y < w[1].size; y++) {
      for (int64_t x = 0; x < (is_joined ? 1 : w[2].size); x++) r->run_at[r->n_runs++] = z * plane + y * line + x * element;
    }
  }
}

static cairn_status set_copy(const crn_kernel_args *args, conv_run *r) {
  const crn_window *w = r->f->window;
  int64_t height = (r->block_lines - 1) * copied_stride(&w[1]) + reach(&w[1]) + 1;
  r->window_lines = height;
  r->window_width = (r->count[2] - 1) * copied_stride(&w[2]) + reach(&w[2]) + 1;
  if (!crn_mul_i64(r->window_width, r->f->channels, &r->window_line) || !crn_mul_i64(r->window_line, height, &r->window_plane) ||
      !crn_mul_i64(r->window_plane, w[0].size, &r->window_region))
    return CRN_FAIL(OUT_OF_RANGE, "%s: the operands are too large", crn_ref_name(args));
  return CAIRN_OK;
}

// Lines of a block whose copy fills the window of a worker; of few lines most would be copied twice.
static int64_t lines_that_fit(const conv_run *r, int64_t bytes) {
  const crn_window *w = r->f->window;
  int64_t line_bytes = bytes / r->window_lines, least = reach(&w[1]) + 1;
  int64_t lines = (WINDOW_BYTES / (line_bytes + 1) - reach(&w[1]) - 1) / copied_stride(&w[1]) + 1;
  return lines < least ? least : lines;
}

static void count_blocks(conv_run *r) {
  r->block_lines = (r->count[1] + r->parts - 1) / r->parts;
  r->parts = (r->count[1] + r->block_lines - 1) / r->block_lines;
  r->blocks = (r->planes + r->block_planes - 1) / r->block_planes * r->parts;
}

// Blocks fill the window of a worker, and there are some items for each thread.
static cairn_status set_blocks(const crn_kernel_args *args, conv_run *r) {
  int64_t threads = crn_pool_threads(args->pool), least = threads > 1 ? 3 * threads : 1, bytes;
  r->block_lines = r->count[1];
  r->block_planes = r->parts = 1;
  CRN_TRY(set_copy(args, r));
  if (!crn_mul_i64(r->window_region, (int64_t)sizeof(float), &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "%s: the operands are too large", crn_ref_name(args));
  if (bytes > WINDOW_BYTES) {
    int64_t lines = lines_that_fit(r, bytes);
    r->parts = (r->count[1] + lines - 1) / lines;
  } else {
    r->block_planes = WINDOW_BYTES / (bytes + 1) + 1;
    if (r->block_planes * least > r->planes * r->pairs) r->block_planes = r->planes * r->pairs / least;
    if (r->block_planes > r->planes) r->block_planes = r->planes;
    if (r->block_planes < 1) r->block_planes = 1;
  }
  count_blocks(r);
  if (r->blocks * r->pairs < least && r->block_planes == 1) {
    r->parts = (least + r->planes * r->pairs - 1) / (r->planes * r->pairs);
    if (r->parts > r->count[1]) r->parts = r->count[1];
    count_blocks(r);
  }
  r->groups = (least + r->blocks - 1) / r->blocks;
  if (r->groups > r->pairs) r->groups = r->pairs;
  return set_copy(args, r);
}

static void set_steps(conv_run *r) {
  const crn_window *w = r->f->window;
  if (r->is_copied) {
    r->row_step = copied_stride(&w[2]) * r->f->channels;
    r->line_step = copied_stride(&w[1]) * r->window_line;
    set_runs(r, r->window_plane, w[1].dilation * r->window_line, w[2].dilation * r->f->channels);
  } else {
    r->row_step = w[2].stride * r->in_step[2];
    r->line_step = w[1].stride * r->in_step[1];
    set_runs(r, w[0].dilation * r->in_step[0], w[1].dilation * r->in_step[1], w[2].dilation * r->in_step[2]);
  }
}

// --- copying --------------------------------------------------------------------------------------------------------------------

// The index in the operand of position `i` of the copy, whose first output is `first`.
static int64_t source_of(const crn_window *w, int64_t first, int64_t i) {
  return is_single(w) ? (first + i) * w->stride - w->before : first * w->stride - w->before + i;
}

static void copy_positions(const conv_run *r, int64_t from, int64_t step, int64_t n, float *to, float *buffer) {
  int64_t channels = r->f->channels;
  if (r->x->strides[1] == 1 || channels == 1) {
    if (r->x->dtype == CAIRN_F32 && step == channels) {
      memcpy(to, crn_tensor_at(r->x, from), (size_t)(n * channels) * sizeof *to);
      return;
    }
    for (int64_t i = 0; i < n; i++, to += channels) {
      const float *values = crn_elements_f32(r->x, from + i * step, 1, channels, to);
      if (values != to) memcpy(to, values, (size_t)channels * sizeof *to);
    }
    return;
  }
  for (int64_t c = 0; c < channels; c++) {
    const float *values = crn_elements_f32(r->x, from + c * r->x->strides[1], step, n, buffer);
    for (int64_t i = 0; i < n; i++) to[i * channels + c] = values[i];
  }
}

// One line of the window from the line of the operand that begins at `from`; what lies beside it is zero.
static void copy_line(const conv_run *r, int64_t from, float *to, float *buffer) {
  const crn_window *w = &r->f->window[2];
  int64_t begin = 0, end = r->window_width, channels = r->f->channels;
  while (begin < end && source_of(w, 0, begin) < 0) begin++;
  while (end > begin && source_of(w, 0, end - 1) >= r->in[2]) end--;
  memset(to, 0, (size_t)(begin * channels) * sizeof *to);
  memset(to + end * channels, 0, (size_t)((r->window_width - end) * channels) * sizeof *to);
  if (begin == end) return;
  int64_t step = (is_single(w) ? w->stride : 1) * r->in_step[2];
  copy_positions(r, from + source_of(w, 0, begin) * r->in_step[2], step, end - begin, to + begin * channels, buffer);
}

static void copy_plane(const conv_run *r, int64_t plane, int64_t line, int64_t n_lines, float *to, float *buffer) {
  const crn_window *w = r->f->window;
  int64_t image = plane / r->count[0], height = (n_lines - 1) * copied_stride(&w[1]) + reach(&w[1]) + 1;
  for (int64_t a = 0; a < w[0].size; a++) {
    int64_t z = plane % r->count[0] * w[0].stride - w[0].before + a * w[0].dilation;
    for (int64_t i = 0; i < height; i++) {
      float *target = to + a * r->window_plane + i * r->window_line;
      int64_t y = source_of(&w[1], line, i);
      if (z < 0 || z >= r->in[0] || y < 0 || y >= r->in[1]) {
        memset(target, 0, (size_t)r->window_line * sizeof *target);
      } else {
        copy_line(r, image * r->image_step + z * r->in_step[0] + y * r->in_step[1], target, buffer);
      }
    }
  }
}

// --- finishing ------------------------------------------------------------------------------------------------------------------

// Element offset of position (plane, line, column) of what is added.
static int64_t added_at(const conv_run *r, int64_t position) {
  const crn_tensor *t = r->added;
  int64_t offset = 0;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (d == 1) continue;
    if (t->dims[d] > 1) offset += position % r->y->dims[d] * t->strides[d];
    position /= r->y->dims[d];
  }
  return offset;
}

static bool is_added_alike(const conv_run *r) {
  if (!r->added || r->added->dtype != CAIRN_F32) return false;
  for (int d = 0; d < r->y->rank; d++) {
    if (r->added->dims[d] != r->y->dims[d] || (r->y->dims[d] > 1 && r->added->strides[d] != r->y->strides[d])) return false;
  }
  return true;
}

static void round_between(const conv_run *r, float *values, int64_t n) {
  if (!r->args->is_rounded) crn_round_f32(r->y->dtype, values, n);
}

// The same in any type and order, one position after the other; each op rounds where the separate one would.
static void finish_slowly(const conv_run *r, float *sums, int64_t ld, int64_t n_rows, int64_t n, int64_t position, int64_t column,
                          float *buffer) {
  const crn_fused_conv *f = r->f;
  for (int64_t i = 0; i < n_rows; i++, sums += ld) {
    if (f->bias) {
      round_between(r, sums, n);
      r->kernels->finish(sums, n, 1, n, f->bias + column, NULL, 0, 0, sums, n);
    }
    if (r->added) {
      int64_t step = r->added->dims[1] > 1 ? r->added->strides[1] : 0;
      const float *more = crn_elements_f32(r->added, added_at(r, position + i) + column * step, step, n, buffer);
      round_between(r, sums, n);
      r->kernels->finish(sums, n, 1, n, NULL, more, n, 0, sums, n);
    }
    if (f->activation) {
      round_between(r, sums, n);
      crn_activate(f->activation, sums, n);
    }
    crn_elements_put_f32(r->y, (position + i) * f->outputs + column, n, sums);
  }
}

// Stores the sums of n_rows positions from `position` on, for n outputs from `column` on.
static void finish(const conv_run *r, float *sums, int64_t ld, int64_t n_rows, int64_t n, int64_t position, int64_t column, float *buffer) {
  const crn_fused_conv *f = r->f;
  if (r->y->dtype != CAIRN_F32 || (r->added && !is_added_alike(r))) {
    finish_slowly(r, sums, ld, n_rows, n, position, column, buffer);
    return;
  }
  int64_t at = position * f->outputs + column;
  float *out = (float *)r->y->data + at;
  const float *added = r->added ? (const float *)r->added->data + at : NULL;
  r->kernels->finish(sums, ld, n_rows, n, f->bias ? f->bias + column : NULL, added, f->outputs, f->activation == CRN_ACTIVATION_RELU, out,
                     f->outputs);
  if (f->activation <= CRN_ACTIVATION_RELU) return;
  for (int64_t i = 0; i < n_rows; i++) crn_activate(f->activation, out + i * f->outputs, n);
}

// --- products -------------------------------------------------------------------------------------------------------------------

/// Positions next to each other in the result, `width` of them in each line.
typedef struct strip {
  const float *x;
  int64_t rows, width, position;
  bool is_first;  ///< of those that a pair of tiles serves
} strip;

static void run_channels(const conv_run *r, const strip *s, float *sums, float *buffer) {
  const crn_fused_conv *f = r->f;
  for (int64_t i = 0; i < s->rows; i++) {
    r->kernels->taps(s->x + i * r->row_step, r->run_at, r->n_runs, f->depthwise, f->channels, sums);
    finish(r, sums, f->channels, 1, f->channels, s->position + i, 0, buffer);
  }
}

static void run_pair(const conv_run *r, const strip *s, int64_t pair, bool is_last, float *sums, float *buffer) {
  const crn_linear_weights *w = &r->f->weights;
  int64_t column = pair * PAIR, n = w->n - column < PAIR ? w->n - column : PAIR;
  int64_t tile = (int64_t)w->bytes / (int64_t)sizeof(float) / crn_linear_tiles(w->n);
  const float *w0 = (const float *)w->data + 2 * pair * tile, *w1 = n > TILE ? w0 + tile : w0;
  const float *ahead = is_last ? NULL : w0 + 2 * tile;
  // Whole lines, two by two, where they are short.
  int64_t most = s->width < s->rows ? STRIP / (2 * s->width) * 2 * s->width : STRIP;
  for (int64_t at = 0; at < s->rows; at += most) {
    int64_t rows = s->rows - at < most ? s->rows - at : most;
    int64_t offset = s->width < s->rows ? at / s->width * r->line_step : at * r->row_step;
    crn_tile_rows t = {.x = s->x + offset, .step = r->row_step, .width = s->width, .line = r->line_step, .length = r->length};
    t.n_runs = r->n_runs;
    t.run_at = r->run_at;
    if (s->is_first && at == 0) t.ahead = ahead;
    r->kernels->pair(w0, w1, &t, rows, sums, PAIR);
    finish(r, sums, PAIR, rows, n, s->position + at, column, buffer);
  }
}

/// The lines of one plane that a block has.
typedef struct plane_part {
  const float *x;
  int64_t plane, line, lines;
  bool is_first, is_last;  ///< the first plane of a pair of tiles; the last pair of the item
} plane_part;

static void run_plane(const conv_run *r, const plane_part *p, int64_t pair, float *sums, float *buffer) {
  // Lines that follow one another at the distance of positions are one.
  bool is_joined = r->count[2] * r->row_step == r->line_step, is_short = !r->f->depthwise && r->count[2] <= LINES;
  int64_t together = is_joined || is_short ? p->lines : 1;
  for (int64_t i = 0; i < p->lines; i += together) {
    strip s = {.x = p->x + i * r->line_step, .rows = together * r->count[2], .is_first = p->is_first && i == 0};
    s.width = is_joined ? s.rows : r->count[2];
    s.position = (p->plane * r->count[1] + p->line + i) * r->count[2];
    if (r->f->depthwise) {
      run_channels(r, &s, sums, buffer);
    } else {
      run_pair(r, &s, pair, p->is_last, sums, buffer);
    }
  }
}

static void run_item(const conv_run *r, int64_t item, conv_worker *worker, float *sums, float *buffer, float *window) {
  int64_t block = item / r->groups, group = item % r->groups;
  int64_t first = block / r->parts * r->block_planes, line = block % r->parts * r->block_lines;
  int64_t end = first + r->block_planes < r->planes ? first + r->block_planes : r->planes;
  int64_t lines = r->count[1] - line < r->block_lines ? r->count[1] - line : r->block_lines;
  for (int64_t plane = first; r->is_copied && worker->block != block + 1 && plane < end; plane++)
    copy_plane(r, plane, line, lines, window + (plane - first) * r->window_region, buffer);
  worker->block = block + 1;
  const int64_t pair_end = r->pairs * (group + 1) / r->groups;
  for (int64_t pair = r->pairs * group / r->groups; pair < pair_end; pair++) {
    for (int64_t plane = first; plane < end; plane++) {
      plane_part p = {window + (plane - first) * r->window_region, plane, line, lines, plane == first, pair + 1 == pair_end};
      if (!r->is_copied) {
        p.x = (const float *)r->x->data + plane / r->count[0] * r->image_step +
              plane % r->count[0] * r->f->window[0].stride * r->in_step[0] + line * r->line_step;
      }
      run_plane(r, &p, pair, sums, buffer);
    }
  }
}

// A worker's memory: what it copied last, sums, a line of values or of the operand, the window.
static int64_t sums_floats(const conv_run *r) { return r->f->depthwise ? (r->f->channels + TILE - 1) / TILE * TILE : STRIP * PAIR; }
static int64_t buffer_floats(const conv_run *r) {
  int64_t n = r->in[2] > r->window_width ? r->in[2] : r->window_width;
  n = n > r->f->outputs ? n : r->f->outputs;
  return (n + TILE - 1) / TILE * TILE;
}

static void run_items(void *user, int64_t begin, int64_t end, int worker) {
  const conv_run *r = user;
  char *memory = r->memory + (size_t)worker * r->worker_bytes;
  float *sums = (float *)(void *)(memory + 64), *buffer = sums + sums_floats(r), *window = buffer + buffer_floats(r);
  for (int64_t item = begin; item < end; item++) run_item(r, item, (conv_worker *)(void *)memory, sums, buffer, window);
}

static cairn_status take_memory(const crn_kernel_args *args, conv_run *r) {
  size_t threads = (size_t)crn_pool_threads(args->pool), bytes = 0;
  const crn_window *w = r->f->window;
  int64_t regions = 0;
  if (r->is_copied && !crn_mul_i64(r->window_region, r->block_planes, &regions))
    return CRN_FAIL(OUT_OF_RANGE, "%s: the operands are too large", crn_ref_name(args));
  size_t floats = (size_t)(sums_floats(r) + buffer_floats(r)) + (size_t)regions;
  if (!crn_mul_size(floats, sizeof(float), &r->worker_bytes) || !crn_add_size(r->worker_bytes, 256, &r->worker_bytes) ||
      !crn_mul_size(r->worker_bytes / 64 * 64, threads, &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "%s: the operands are too large", crn_ref_name(args));
  r->worker_bytes = r->worker_bytes / 64 * 64;
  CRN_TRY(args->scratch->take(args->scratch, bytes, &r->memory));
  for (size_t i = 0; i < threads; i++) ((conv_worker *)(void *)(r->memory + i * r->worker_bytes))->block = 0;
  return args->scratch->take(args->scratch, (size_t)(w[0].size * w[1].size * w[2].size) * sizeof *r->run_at, &r->run_at);
}

cairn_status crn_fused_conv_run(const crn_kernel_args *args) {
  const crn_fused_conv *f = args->fused;
  conv_run r = {.f = f, .args = args, .x = &args->operands[0], .y = &args->results[0], .kernels = crn_tiles_select()};
  if (f->has_added) r.added = &args->operands[1];
  if (crn_tensor_count(r.y) == 0) return CAIRN_OK;
  describe(&r);
  CRN_TRY(set_blocks(args, &r));
  CRN_TRY(take_memory(args, &r));
  set_steps(&r);
  crn_pool_run(args->pool, r.blocks * r.groups, 1, run_items, &r);
  return CAIRN_OK;
}
