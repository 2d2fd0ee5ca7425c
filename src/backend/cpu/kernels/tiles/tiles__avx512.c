#include <immintrin.h>

#define TILES_NAME(name) crn_tiles_##name##__avx512
enum { LANES = 16 };
#define ROWS 14
typedef __m512 VEC;
#define ZERO _mm512_setzero_ps()
#define SPLAT(x) _mm512_set1_ps(x)
#define LOAD(p) _mm512_loadu_ps(p)
#define LOAD_ALIGNED(p) _mm512_load_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FMA_ONE(a, b, c) __builtin_fmaf(a, b, c)
#define ADD(a, b) _mm512_add_ps(a, b)
// Zero where v <= 0, which NaN is not.
#define POSITIVE(v) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, ZERO, _CMP_NLE_UQ), v)
#include "backend/cpu/kernels/tiles/tiles_template.h"
