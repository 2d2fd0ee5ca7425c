#include "backend/cpu/kernels/tiles/tiles.h"
#include "base/cpu.h"

static const crn_tile_kernels g_sets[] = {
#define TILES(isa, bit) {#isa, bit, crn_tiles_pair__##isa, crn_tiles_taps__##isa, crn_tiles_finish__##isa, crn_tiles_maximum__##isa},
#include "backend/cpu/kernels/tiles/tiles.def"
#undef TILES
};

const crn_tile_kernels *crn_tiles_list(int *out_n) {
  *out_n = (int)(sizeof g_sets / sizeof *g_sets);
  return g_sets;
}

const crn_tile_kernels *crn_tiles_select(void) {
  uint64_t bits = crn_cpu_bits();
  const crn_tile_kernels *set = g_sets;
  while (set->isa & ~bits) set++;
  return set;
}
