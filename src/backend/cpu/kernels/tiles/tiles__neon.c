#include <arm_neon.h>

#define TILES_NAME(name) crn_tiles_##name##__neon
enum { LANES = 4 };
#define ROWS 3
typedef float32x4_t VEC;
#define ZERO vdupq_n_f32(0)
#define SPLAT(x) vdupq_n_f32(x)
#define LOAD(p) vld1q_f32(p)
#define LOAD_ALIGNED(p) vld1q_f32(p)
#define STORE(p, v) vst1q_f32(p, v)
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define FMA_ONE(a, b, c) __builtin_fmaf(a, b, c)
#define ADD(a, b) vaddq_f32(a, b)
// Zero where v <= 0, which NaN is not.
#define POSITIVE(v) vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcleq_f32(v, ZERO)))
#include "backend/cpu/kernels/tiles/tiles_template.h"
