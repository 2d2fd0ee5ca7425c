#include "backend/cpu/kernels/linear/linear_table.h"

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/kernels/linear/linear_layout.h"
#include "base/cpu.h"

// Which of these functions the table names depends on the architecture.
#define SCRATCH __attribute__((unused)) static size_t

// --- scratch --------------------------------------------------------------------------------------------------------------

SCRATCH scratch_none(int64_t k) {
  (void)k;
  return 64;
}

// One block of one tile as f32.
SCRATCH scratch_block(int64_t k) {
  (void)k;
  return LINEAR_BLOCK * LINEAR_LANES * sizeof(float);
}

// A block of INT8 rows: quants, and per group a scale, a correction and a share of the minimum.
SCRATCH scratch_int8(int64_t k) {
  size_t inputs = (size_t)LINEAR_BLOCKS(k) * LINEAR_BLOCK;
  return LINEAR_INTERLEAVED * (inputs + inputs / CRN_LINEAR_GROUP * 12) + 64;
}

// What up to 16 INT8 rows tell of their groups, and two stages of sums and of weights.
SCRATCH scratch_few(int64_t k) {
  size_t groups = (size_t)LINEAR_BLOCKS(k) * LINEAR_BLOCK / CRN_LINEAR_GROUP;
  return groups * LINEAR_TILE_ROWS * 12 + LINEAR_FEW_BLOCKS * 4 * (LINEAR_TILE_ROWS * LINEAR_LANES * 4 + CRN_LINEAR_GROUP * LINEAR_LANES);
}

// The values of a block of BF16 rows.
SCRATCH scratch_pairs(int64_t k) { return LINEAR_INTERLEAVED * (size_t)LINEAR_BLOCKS(k) * LINEAR_BLOCK * sizeof(uint16_t); }

// Tiles as bf16, as much as is widened at a time, twice.
SCRATCH scratch_bf16(int64_t k) {
  (void)k;
  return (size_t)2 * LINEAR_WIDE_TILES * LINEAR_LANES * sizeof(uint16_t) * LINEAR_WIDE_BLOCKS * LINEAR_BLOCK;
}

// A quarter of a megabyte of weights, twice, with scales for their outputs; and the sums of two tiles.
SCRATCH scratch_int16(int64_t k) {
  (void)k;
  return (size_t)2 * LINEAR_WIDE_TILES * LINEAR_LANES * (sizeof(uint16_t) * LINEAR_WIDE_BLOCKS * LINEAR_BLOCK + sizeof(float)) +
         (size_t)2 * 4 * LINEAR_TILE_ROWS * LINEAR_LANES * sizeof(int32_t);
}

// The quants of up to LINEAR_WIDE_TILES tiles over a piece, a byte each.
SCRATCH scratch_unpacked(int64_t k) {
  (void)k;
  return (size_t)LINEAR_WIDE_TILES * LINEAR_WIDE_BLOCKS * (LINEAR_BLOCK / CRN_LINEAR_GROUP) * LINEAR_UNPACKED_GROUP;
}

// A pair of tiles as f32.
SCRATCH scratch_f32(int64_t k) { return (size_t)2 * LINEAR_LANES * sizeof(float) * (size_t)LINEAR_BLOCKS(k) * LINEAR_BLOCK; }

// --- the table ------------------------------------------------------------------------------------------------------------

static const crn_linear_kernel g_kernels[] = {
#define LINEAR(format, mode, rows, least, lhs, rhs, tile, isa, bits, prepare, scratch) \
  {"crn_linear_" #lhs "_" #rhs "_f32_" #tile "__" #isa,                                \
   #isa,                                                                               \
   CRN_LINEAR_##format,                                                                \
   CRN_LINEAR_##mode,                                                                  \
   CRN_LINEAR_##rows,                                                                  \
   bits,                                                                               \
   least,                                                                              \
   (bits) != 0,                                                                        \
   crn_linear_prepare_##prepare,                                                       \
   crn_linear_##lhs##_##rhs##_f32_##tile##__##isa,                                     \
   scratch_##scratch},
#include "backend/cpu/kernels/linear/linear.def"
#undef LINEAR
};

const crn_linear_kernel *crn_linear_list(int *out_n) {
  *out_n = (int)(sizeof g_kernels / sizeof *g_kernels);
  return g_kernels;
}

crn_linear_parts_fn crn_linear_parts_of(const crn_linear_kernel *kernel) {
#if defined(__x86_64__)
#define PART(rhs) {crn_linear_bf16_##rhs##_f32_32x32__amx, crn_linear_parts_##rhs##__amx},
#define PART_INT16(rhs, isa) {crn_linear_int16_##rhs##_f32_32x16__##isa, crn_linear_int16_parts_##rhs##__amx},
#define PART_VNNI(rhs) {crn_linear_int16_##rhs##_f32_16x16__avx512vnni, crn_linear_int16_parts_##rhs##__avx512vnni},
  static const struct {
    crn_linear_fn run;
    crn_linear_parts_fn parts;
  } all[] = {LINEAR_AMX_PARTS(PART) LINEAR_AMX_INT16_PARTS(PART_INT16) LINEAR_VNNI_PARTS(PART_VNNI)};
#undef PART
#undef PART_INT16
#undef PART_VNNI
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i].run == kernel->run) return all[i].parts;
  }
#endif
  (void)kernel;
  return NULL;
}

int64_t crn_linear_row_block(const crn_linear_kernel *kernel) {
#if defined(__x86_64__)
  if (kernel->rows_mode == CRN_LINEAR_ROWS_INT16 || kernel->prepare == crn_linear_prepare_bf16__amx) return CRN_LINEAR_ROW_BLOCK;
#endif
  (void)kernel;
  return 1;
}

size_t crn_linear_row_offset(const crn_linear_kernel *kernel, size_t row_bytes, int64_t row) {
  int64_t block = crn_linear_row_block(kernel);
  return (size_t)(row / block * block) * row_bytes + (size_t)(row % block) * CRN_LINEAR_ROW_LINE;
}

const crn_linear_kernel *crn_linear_select(crn_linear_format format, crn_linear_mode mode, int64_t n_rows) {
  uint64_t bits = crn_cpu_bits();
  const crn_linear_kernel *kernel = g_kernels;
  // The scalar rows at the end of each format and mode need nothing and serve one row, so the search always ends.
  while (kernel->format != format || kernel->mode != mode || (kernel->cpu_bits & ~bits) || (n_rows > 1 ? n_rows : 1) < kernel->min_rows) {
    kernel++;
  }
  return kernel;
}
