#include "engines/llm/ladder.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

// What the exporters use, for functions whose shapes are left open.
enum { FIRST_CONTEXT = 256 };
static const int64_t kQueries[] = {8, 16, 64};

// --- names ----------------------------------------------------------------------------------------------------------

// The number behind an underscore at `*end` (exclusive); `*end` is then where the underscore is.
static int64_t take_number(const char *name, size_t *end) {
  size_t at = *end;
  int64_t n = 0, scale = 1;
  while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9' && *end - at < 9) {
    n += (name[--at] - '0') * scale;
    scale *= 10;
  }
  if (at == *end || at == 0 || name[at - 1] != '_') return 0;
  *end = at - 1;
  return n;
}

static bool is_name(const char *name, size_t n, const char *word) { return strlen(word) == n && memcmp(name, word, n) == 0; }

bool crn_ladder_parse(const char *function, crn_ladder_rung *out_rung) {
  size_t end = strlen(function);
  *out_rung = (crn_ladder_rung){.function = function};
  int64_t query = take_number(function, &end), context = query ? take_number(function, &end) : 0;
  out_rung->is_prompt = is_name(function, end, "prompt_opt") || is_name(function, end, "prompt");
  if (!out_rung->is_prompt && !is_name(function, end, "extend")) return false;
  out_rung->query = query;
  out_rung->context = context;
  return true;
}

// --- reading --------------------------------------------------------------------------------------------------------

static const cairn_descriptor *find(const cairn_descriptor *d, int n, const char *name) {
  for (int i = 0; i < n; i++) {
    if (strcmp(d[i].name, name) == 0) return &d[i];
  }
  return NULL;
}

// The shapes are what a run checks; so they count, and a name that says otherwise is a defect of the model.
static cairn_status take_number_of_shape(const char *function, const char *what, const cairn_descriptor *d, int axis, int64_t *number) {
  if (!d || axis >= d->rank || d->shape[axis] < 1) return CAIRN_OK;
  if (*number && *number != d->shape[axis]) {
    return CRN_FAIL(UNSUPPORTED, "function '%s' is named for %lld %s, but its '%s' has %lld", function, (long long)*number, what, d->name,
                    (long long)d->shape[axis]);
  }
  *number = d->shape[axis];
  return CAIRN_OK;
}

static cairn_status read_shapes(const cairn_function_info *f, crn_ladder_rung *rung) {
  const cairn_descriptor *x = find(f->inputs, f->n_inputs, "transformer_input"), *mask = find(f->inputs, f->n_inputs, "causal_mask");
  CRN_TRY(take_number_of_shape(f->name, "tokens", x, 1, &rung->query));
  return take_number_of_shape(f->name, "cache rows", mask, 1, &rung->context);
}

static void measure(crn_ladder *ladder, const crn_ladder_rung *rung) {
  if (rung->is_prompt) return;
  int64_t reach = crn_ladder_block(rung, rung->context);
  if (rung->query > ladder->max_query) ladder->max_query = rung->query;
  if (rung->context > ladder->max_context) ladder->max_context = rung->context;
  if (reach > ladder->reach) ladder->reach = reach;
}

static cairn_status add(const cairn_allocator *allocator, crn_ladder *ladder, const crn_ladder_rung *rung) {
  measure(ladder, rung);
  return crn_vec_push(allocator, &ladder->rungs, *rung);
}

// One rung, or for open shapes all that the exporters would have made.
static cairn_status add_all(const cairn_allocator *allocator, crn_ladder *ladder, crn_ladder_rung rung, int64_t max_context) {
  const int64_t open_query = rung.query, open_context = rung.context, block = kQueries[sizeof kQueries / sizeof *kQueries - 1];
  max_context = (max_context + block - 1) / block * block;  // the last block has to be whole
  for (size_t i = 0; i < sizeof kQueries / sizeof *kQueries; i++) {
    rung.query = open_query ? open_query : kQueries[i];
    for (int64_t context = FIRST_CONTEXT;; context *= 2) {
      rung.context = open_context ? open_context : context < max_context ? context : max_context;
      CRN_TRY(add(allocator, ladder, &rung));
      if (open_context || context >= max_context) break;
    }
    if (open_query) break;
  }
  return CAIRN_OK;
}

static cairn_status read_all(const cairn_allocator *allocator, const cairn_function_info *const *functions, int n, int64_t max_context,
                             crn_ladder *ladder) {
  for (int i = 0; i < n; i++) {
    crn_ladder_rung rung;
    if (!crn_ladder_parse(functions[i]->name, &rung)) continue;
    CRN_TRY(read_shapes(functions[i], &rung));
    CRN_TRY(add_all(allocator, ladder, rung, max_context));
  }
  if (ladder->max_query) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "No extend functions found in static-shape engine: expected extend_<context>_<query>");
}

cairn_status crn_ladder_read(const cairn_allocator *allocator, const cairn_function_info *const *functions, int n, int64_t max_context,
                             crn_ladder *out_ladder) {
  *out_ladder = (crn_ladder){0};
  cairn_status status = read_all(allocator, functions, n, max_context < 1 ? FIRST_CONTEXT : max_context, out_ladder);
  if (status != CAIRN_OK) crn_ladder_free(allocator, out_ladder);
  return status;
}

void crn_ladder_limit(crn_ladder *ladder, int64_t rows) {
  size_t kept = 0;
  ladder->max_query = ladder->max_context = ladder->reach = 0;
  for (size_t i = 0; i < ladder->rungs.size; i++) {
    if (ladder->rungs.items[i].context > rows) continue;
    measure(ladder, &ladder->rungs.items[i]);
    ladder->rungs.items[kept++] = ladder->rungs.items[i];
  }
  ladder->rungs.size = kept;
}

void crn_ladder_free(const cairn_allocator *allocator, crn_ladder *ladder) { crn_vec_free(allocator, &ladder->rungs); }

// --- choosing -------------------------------------------------------------------------------------------------------

static int64_t choose_query(const crn_ladder *ladder, int64_t remaining, bool is_prompt) {
  int64_t fitting = 0, most = 0;
  for (size_t i = 0; i < ladder->rungs.size; i++) {
    const crn_ladder_rung *r = &ladder->rungs.items[i];
    if (r->is_prompt != is_prompt) continue;
    if (r->query >= remaining && (!fitting || r->query < fitting)) fitting = r->query;
    if (r->query > most) most = r->query;
  }
  return fitting ? fitting : most;
}

static const crn_ladder_rung *choose(const crn_ladder *ladder, int64_t remaining, int64_t position, bool is_prompt) {
  const crn_ladder_rung *best = NULL;
  int64_t query = choose_query(ladder, remaining, is_prompt);
  for (size_t i = 0; i < ladder->rungs.size; i++) {
    const crn_ladder_rung *r = &ladder->rungs.items[i];
    if (r->is_prompt != is_prompt || r->query != query || crn_ladder_block(r, position) + query > r->context) continue;
    if (!best || r->context < best->context) best = r;
  }
  return best;
}

// The largest rung whose block still lies in its cache, for ladders whose contexts are no multiples of their queries.
static const crn_ladder_rung *choose_any(const crn_ladder *ladder, int64_t position) {
  const crn_ladder_rung *best = NULL;
  for (size_t i = 0; i < ladder->rungs.size; i++) {
    const crn_ladder_rung *r = &ladder->rungs.items[i];
    if (r->is_prompt || crn_ladder_block(r, position) + r->query > r->context) continue;
    if (!best || r->query > best->query || (r->query == best->query && r->context < best->context)) best = r;
  }
  return best;
}

const crn_ladder_rung *crn_ladder_select(const crn_ladder *ladder, int64_t remaining, int64_t position, bool needs_logits) {
  const crn_ladder_rung *rung = NULL;
  if (!needs_logits && remaining > ladder->max_query) rung = choose(ladder, remaining, position, true);
  if (!rung) rung = choose(ladder, remaining, position, false);
  return rung ? rung : choose_any(ladder, position);
}
