#include "tools/logits.h"

#include <string.h>

#include "base/arena.h"
#include "import/safetensors.h"

void crn_logits_release(crn_logits *logits) {
  crn_vec_free(crn_default_allocator(), &logits->values);
  crn_vec_free(crn_default_allocator(), &logits->positions);
}

cairn_status crn_logits_take(crn_logits *logits, int64_t position, const float *row, int64_t vocab_size) {
  const cairn_allocator *a = crn_default_allocator();
  if (logits->positions.size && vocab_size != logits->vocab_size)
    return CRN_FAIL(INTERNAL, "rows of %lld and %lld logits", (long long)logits->vocab_size, (long long)vocab_size);
  logits->vocab_size = vocab_size;
  CRN_TRY(crn_vec_reserve(a, &logits->positions, 1));
  CRN_TRY(crn_vec_reserve(a, &logits->values, (size_t)vocab_size));
  memcpy(logits->values.items + logits->values.size, row, (size_t)vocab_size * sizeof *row);
  logits->values.size += (size_t)vocab_size;
  logits->positions.items[logits->positions.size++] = position;
  return CAIRN_OK;
}

// From the end: when a prompt was computed twice, the later row is the one that was used.
const float *crn_logits_at(const crn_logits *logits, int64_t position) {
  for (size_t i = logits->positions.size; i-- > 0;)
    if (logits->positions.items[i] == position) return logits->values.items + i * (size_t)logits->vocab_size;
  return NULL;
}

// Gathers the rows for positions first .. first+n-1.
static cairn_status gather(const crn_logits *logits, int64_t first, int64_t n, crn_arena *arena, const char *name,
                           crn_safetensors_entry *out) {
  float *data = NULL;
  size_t row = (size_t)logits->vocab_size;
  CRN_TRY(crn_arena_array(arena, (size_t)n * row, sizeof *data, &data));
  for (int64_t i = 0; i < n; i++) {
    const float *from = crn_logits_at(logits, first + i);
    if (!from) return CRN_FAIL(INTERNAL, "no logits after token %lld", (long long)(first + i));
    memcpy(data + (size_t)i * row, from, row * sizeof *data);
  }
  int64_t shape[2] = {n, logits->vocab_size};
  *out = (crn_safetensors_entry){name, crn_tensor_make(CAIRN_F32, shape, 2, data)};
  return CAIRN_OK;
}

cairn_status crn_logits_write(const crn_logits *logits, int64_t n_prompt, const char *path) {
  crn_safetensors_entry entries[2];
  crn_arena arena;
  int64_t last = n_prompt - 1;
  for (size_t i = 0; i < logits->positions.size; i++) last = logits->positions.items[i] > last ? logits->positions.items[i] : last;
  crn_arena_initialize(&arena, NULL);
  cairn_status status = gather(logits, 0, n_prompt, &arena, "prefill", &entries[0]);
  if (status == CAIRN_OK) status = gather(logits, n_prompt, last - n_prompt + 1, &arena, "decode", &entries[1]);
  if (status == CAIRN_OK) status = crn_safetensors_write(NULL, path, entries, 2, NULL, 0);
  crn_arena_deinitialize(&arena);
  return status;
}
