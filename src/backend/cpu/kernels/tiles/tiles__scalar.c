#define TILES_NAME(name) crn_tiles_##name##__scalar
enum { LANES = 1 };
#define ROWS 1
typedef float VEC;
#define ZERO 0.0f
#define SPLAT(x) (x)
#define LOAD(p) (*(p))
#define LOAD_ALIGNED(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define FMA(a, b, c) ((a) * (b) + (c))
#define FMA_ONE(a, b, c) ((a) * (b) + (c))
#define ADD(a, b) ((a) + (b))
// Zero where v <= 0, which NaN is not.
#define POSITIVE(v) ((v) <= 0 ? 0.0f : (v))
#include "backend/cpu/kernels/tiles/tiles_template.h"
