// A model that is no language model, as a session: it predicts the next move of a game from features of each position.
//
// With states, a step gives one new position and the session object remembers the rest. Without states, every step gives
// all positions again. Both must predict the same; the time a step takes tells why states exist.
//
//   moves WITH_STATES.aimodel WITHOUT_STATES.aimodel
#include <math.h>
#include <stdio.h>
#include <time.h>

#include <cairn/cairn.h>

enum { FEATURES = 12, MOVES = 20, LENGTH = 40, CAPACITY = 64, CACHE_RANK = 5 };

typedef struct player {
  cairn_context *context;
  cairn_model *model;
  cairn_function *function;
  cairn_state *states;  // NULL for a model without
} player;

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// What the game looks like at a position: made up, as there is no board here.
static float feature(int position, int i) { return sinf((float)(position * 7 + i * 3)); }

static cairn_status open_player(cairn_context *context, const char *path, player *p) {
  p->context = context;
  cairn_status status = cairn_model_load(context, path, NULL, &p->model);
  if (status == CAIRN_OK) status = cairn_model_function(p->model, "main", &p->function);
  if (status != CAIRN_OK || cairn_function_describe(p->function)->n_states == 0) return status;
  // The caches have a dynamic dim: the longest game there can be.
  cairn_state_shape shapes[4];
  int64_t dims[4][CAIRN_MAX_RANK];
  const cairn_function_info *info = cairn_function_describe(p->function);
  for (int i = 0; i < info->n_states && i < 4; i++) {
    for (int d = 0; d < info->states[i].rank; d++) dims[i][d] = info->states[i].shape[d] < 0 ? CAPACITY : info->states[i].shape[d];
    shapes[i] = (cairn_state_shape){info->states[i].name, dims[i], info->states[i].rank};
  }
  return cairn_state_create(p->function, shapes, info->n_states, &p->states);
}

static void close_player(player *p) {
  cairn_state_destroy(p->states);
  cairn_function_release(p->function);
  cairn_model_release(p->model);
}

static cairn_status make_arrays(const player *p, int first, int end, cairn_ndarray **out_features, cairn_ndarray **out_positions) {
  cairn_status status = cairn_ndarray_create(p->context, CAIRN_F32, (const int64_t[]){1, end - first, FEATURES}, 3, out_features);
  if (status == CAIRN_OK) status = cairn_ndarray_create(p->context, CAIRN_SI32, (const int64_t[]){1, end}, 2, out_positions);
  if (status != CAIRN_OK) return status;
  float *f = cairn_ndarray_mutable_data(*out_features);
  for (int i = 0; i < (end - first) * FEATURES; i++) f[i] = feature(first + i / FEATURES, i % FEATURES);
  int *at = cairn_ndarray_mutable_data(*out_positions);
  for (int i = 0; i < end; i++) at[i] = i;
  return CAIRN_OK;
}

// Gives the positions [first, end) and stores the scores of the moves after the last one.
static cairn_status predict(player *p, int first, int end, float *out_scores) {
  cairn_ndarray *features = NULL, *positions = NULL, *moves = NULL;
  cairn_outputs *outputs = NULL;
  cairn_status status = make_arrays(p, first, end, &features, &positions);
  if (status == CAIRN_OK) {
    const cairn_named_array inputs[] = {{"features", features}, {"positions", positions}};
    cairn_run_args args = {.inputs = inputs, .n_inputs = 2, .last_rows = 1};
    if (p->states) args.states = cairn_state_arrays(p->states, &args.n_states);
    status = cairn_function_run(p->function, &args, &outputs);
  }
  if (status == CAIRN_OK) status = cairn_outputs_take(outputs, "moves", &moves);
  if (status == CAIRN_OK) status = cairn_ndarray_read(moves, out_scores, MOVES * sizeof *out_scores);
  cairn_ndarray_release(moves);
  cairn_outputs_destroy(outputs);
  cairn_ndarray_release(features);
  cairn_ndarray_release(positions);
  return status;
}

static int best(const float *scores) {
  int at = 0;
  for (int i = 1; i < MOVES; i++) at = scores[i] > scores[at] ? i : at;
  return at;
}

// One game with both; stores the largest difference between their scores and the time each took.
static cairn_status play(player *with, player *without, float *out_difference, double seconds[2]) {
  float a[MOVES], b[MOVES];
  for (int i = 0; i < LENGTH; i++) {
    double start = now();
    cairn_status status = predict(with, i, i + 1, a);
    double middle = now();
    if (status == CAIRN_OK) status = predict(without, 0, i + 1, b);
    if (status != CAIRN_OK) return status;
    seconds[0] += middle - start;
    seconds[1] += now() - middle;
    for (int k = 0; k < MOVES; k++) *out_difference = fmaxf(*out_difference, fabsf(a[k] - b[k]));
    if (i % 8 == 0) printf("position %2d: move %2d (without states: %2d)\n", i, best(a), best(b));
  }
  return CAIRN_OK;
}

int main(int argc, char **argv) {
  cairn_context *context = NULL;
  player with = {0}, without = {0};
  float difference = 0;
  double seconds[2] = {0};
  if (argc < 3) {
    fprintf(stderr, "usage: %s WITH_STATES.aimodel WITHOUT_STATES.aimodel\n", argv[0]);
    return 64;
  }
  cairn_status status = cairn_context_create(NULL, &context);
  if (status == CAIRN_OK) status = open_player(context, argv[1], &with);
  if (status == CAIRN_OK) status = open_player(context, argv[2], &without);
  // A second game begins with fresh states: one that forgot to reset them would see the first.
  for (int game = 0; game < 2 && status == CAIRN_OK; game++) {
    if (with.states) status = cairn_state_reset(with.states);
    if (status == CAIRN_OK) status = play(&with, &without, &difference, seconds);
  }
  if (status == CAIRN_OK) {
    printf("largest difference %g; %.3f ms a step with states, %.3f ms without\n", (double)difference, seconds[0] * 1e3 / (2 * LENGTH),
           seconds[1] * 1e3 / (2 * LENGTH));
  } else {
    fprintf(stderr, "%s\n", cairn_last_error()->message);
  }
  close_player(&with);
  close_player(&without);
  cairn_context_release(context);
  return status == CAIRN_OK && difference < 1e-4f ? 0 : 1;
}
