#include "backend/cpu/ref/move.h"

#include <string.h>

#include "tensor/pages.h"

enum { TILE = 32, BLOCK = 1 << 14 };

typedef struct element16 {
  uint64_t half[2];
} element16;

// A copy after dimensions of size 1 are gone and neighbours that run on into each other are one.
typedef struct move {
  int rank;
  size_t bytes;
  int64_t dims[CRN_MOVE_MAX_RANK], from[CRN_MOVE_MAX_RANK], to[CRN_MOVE_MAX_RANK];
  const char *source;
  char *target;
  int row;           // the dimension in which the source runs when its last one does not, -1 = none
  int64_t n_blocks;  // pieces of the last dimension, or of the row dimension when there is one
  int64_t block;     // size of such a piece
} move;

static void copy_line(size_t bytes, int64_t n, const char *source, int64_t from, char *target, int64_t to) {
  if (from == 1 && to == 1) {
    memcpy(target, source, (size_t)n * bytes);
    return;
  }
#define LINE(type)                                                                             \
  for (int64_t i = 0; i < n; i++) ((type *)target)[i * to] = ((const type *)source)[i * from]; \
  break
#define FILL(type)                                               \
  {                                                              \
    type value = *(const type *)source;                          \
    for (int64_t i = 0; i < n; i++) ((type *)target)[i] = value; \
    break;                                                       \
  }
  if (from == 0 && to == 1) {
    switch (bytes) {
      case 1:
        memset(target, *(const unsigned char *)source, (size_t)n);
        break;
      case 2:
        FILL(uint16_t)
      case 4:
        FILL(uint32_t)
      case 8:
        FILL(uint64_t)
      default:
        FILL(element16)
    }
    return;
  }
  switch (bytes) {
    case 1:
      LINE(uint8_t);
    case 2:
      LINE(uint16_t);
    case 4:
      LINE(uint32_t);
    case 8:
      LINE(uint64_t);
    default:
      LINE(element16);
  }
#undef LINE
#undef FILL
}

// Rows [r0, r1) of a matrix whose source runs down the rows and whose target runs along the columns. Square tiles go
// through a buffer: source lines are read and target lines written whole, which matters when a step between them is a
// power of two and they would push each other out of the cache.
static void copy_tiles(const move *m, const char *source, char *target, int64_t r0, int64_t r1) {
  int last = m->rank - 1;
  int64_t n = m->dims[last], fr = m->from[m->row], fc = m->from[last], tr = m->to[m->row], tc = m->to[last];
#define TILES(type)                                                               \
  {                                                                               \
    type tile[TILE][TILE];                                                        \
    for (int64_t c0 = 0; c0 < n; c0 += TILE) {                                    \
      int64_t columns = c0 + TILE < n ? TILE : n - c0;                            \
      const type *from = (const type *)source + r0 * fr + c0 * fc;                \
      type *to = (type *)target + r0 * tr + c0 * tc;                              \
      for (int64_t c = 0; c < columns; c++)                                       \
        for (int64_t r = 0; r < r1 - r0; r++) tile[r][c] = from[r * fr + c * fc]; \
      for (int64_t r = 0; r < r1 - r0; r++)                                       \
        for (int64_t c = 0; c < columns; c++) to[r * tr + c * tc] = tile[r][c];   \
    }                                                                             \
    break;                                                                        \
  }
  switch (m->bytes) {
    case 1:
      TILES(uint8_t)
    case 2:
      TILES(uint16_t)
    case 4:
      TILES(uint32_t)
    case 8:
      TILES(uint64_t)
    default:
      TILES(element16)
  }
#undef TILES
}

// One block of the innermost work at the given offsets.
static void copy_block(const move *m, int64_t block, int64_t from, int64_t to) {
  int last = m->rank - 1;
  int64_t n = m->dims[m->row >= 0 ? m->row : last], b0 = block * m->block, b1 = b0 + m->block < n ? b0 + m->block : n;
  const char *source = m->source + from * (int64_t)m->bytes;
  char *target = m->target + to * (int64_t)m->bytes;
  if (m->row >= 0) {
    copy_tiles(m, source, target, b0, b1);
  } else {
    copy_line(m->bytes, b1 - b0, source + b0 * m->from[last] * (int64_t)m->bytes, m->from[last],
              target + b0 * m->to[last] * (int64_t)m->bytes, m->to[last]);
  }
}

// Item = one block of one outer index tuple. The outer dims are all but the last one and the row dimension; the walk counts
// them like an odometer, because a division per dimension and item would cost more than a short line.
static void run_items(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const move *m = user;
  int64_t at[CRN_MOVE_MAX_RANK], block = begin % m->n_blocks, rest = begin / m->n_blocks, from = 0, to = 0;
  for (int i = m->rank - 2; i >= 0; i--) {
    if (i == m->row) continue;
    at[i] = rest % m->dims[i];
    rest /= m->dims[i];
    from += at[i] * m->from[i];
    to += at[i] * m->to[i];
  }
  for (int64_t item = begin; item < end; item++) {
    copy_block(m, block, from, to);
    if (++block < m->n_blocks) continue;
    block = 0;
    for (int i = m->rank - 2; i >= 0; i--) {
      if (i == m->row) continue;
      from += m->from[i];
      to += m->to[i];
      if (++at[i] < m->dims[i]) break;
      from -= m->from[i] * m->dims[i];
      to -= m->to[i] * m->dims[i];
      at[i] = 0;
    }
  }
}

// Fills in the dims without those of size 1 and with neighbours joined. False when there is nothing to copy.
static bool simplify(move *m, int rank, const int64_t *dims, const int64_t *from, const int64_t *to) {
  m->rank = 0;
  for (int i = 0; i < rank; i++) {
    if (dims[i] <= 0) return false;
    if (dims[i] == 1) continue;
    int k = m->rank;
    if (k > 0 && m->from[k - 1] == from[i] * dims[i] && m->to[k - 1] == to[i] * dims[i]) {
      m->dims[k - 1] *= dims[i];
      m->from[k - 1] = from[i];
      m->to[k - 1] = to[i];
      continue;
    }
    m->dims[k] = dims[i];
    m->from[k] = from[i];
    m->to[k] = to[i];
    m->rank++;
  }
  if (m->rank == 0) {
    m->rank = 1;
    m->dims[0] = m->from[0] = m->to[0] = 1;
  }
  return true;
}

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

static void choose_blocks(move *m) {
  int last = m->rank - 1;
  m->row = -1;
  m->block = BLOCK;
  // A source that takes large steps along the last dimension and small ones along another is walked in tiles.
  for (int i = last - 1; i >= 0 && magnitude(m->from[last]) > 1; i--) {
    int64_t step = magnitude(m->from[i]);
    if (step == 0 || step >= magnitude(m->from[last])) continue;
    if (m->row < 0 || step < magnitude(m->from[m->row])) m->row = i;
  }
  if (m->row >= 0) m->block = TILE;
  int64_t n = m->dims[m->row >= 0 ? m->row : last];
  m->n_blocks = (n + m->block - 1) / m->block;
}

void crn_move(crn_pool *pool, size_t element_bytes, int rank, const int64_t *dims, const void *source, const int64_t *source_strides,
              void *target, const int64_t *target_strides) {
  move m = {.bytes = element_bytes, .source = source, .target = target};
  if (!simplify(&m, rank, dims, source_strides, target_strides)) return;
  choose_blocks(&m);
  int64_t items = m.n_blocks, total = 1;
  for (int i = 0; i < m.rank; i++) {
    total *= m.dims[i];
    if (i < m.rank - 1 && i != m.row) items *= m.dims[i];
  }
  // The row dimension is cut into blocks in place of the last one, which then counts as part of each block.
  crn_pool_run(pool, items, crn_move_grain(total / items), run_items, &m);
}

void crn_move_tensor(crn_pool *pool, const crn_tensor *source, const crn_tensor *target) {
  if (source->pages || target->pages) {
    crn_paged_copy(source, target);
    return;
  }
  crn_move(pool, cairn_dtype_bytes(source->dtype), source->rank, source->dims, source->data, source->strides, target->data,
           target->strides);
}

void crn_move_contiguous(crn_pool *pool, const crn_tensor *source, void *target) {
  crn_tensor flat = crn_tensor_make(source->dtype, source->dims, source->rank, target);
  crn_move_tensor(pool, source, &flat);
}

void crn_move_fill(crn_pool *pool, size_t element_bytes, const void *value, void *target, int64_t n) {
  int64_t from = 0, to = 1;
  crn_move(pool, element_bytes, 1, &n, value, &from, target, &to);
}
