#include <immintrin.h>

#define TILES_NAME(name) crn_tiles_##name##__avx2
enum { LANES = 8 };
#define ROWS 3
typedef __m256 VEC;
#define ZERO _mm256_setzero_ps()
#define SPLAT(x) _mm256_set1_ps(x)
#define LOAD(p) _mm256_loadu_ps(p)
#define LOAD_ALIGNED(p) _mm256_load_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FMA_ONE(a, b, c) __builtin_fmaf(a, b, c)
#define ADD(a, b) _mm256_add_ps(a, b)
// Zero where v <= 0, which NaN is not.
#define POSITIVE(v) _mm256_and_ps(_mm256_cmp_ps(v, ZERO, _CMP_NLE_UQ), v)
#include "backend/cpu/kernels/tiles/tiles_template.h"
