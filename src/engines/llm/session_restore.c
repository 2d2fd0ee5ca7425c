/// Reading a sequence from a file. Everything is checked before anything of the sequence changes.
#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/trace.h"
#include "cairn/session.h"
#include "engines/llm/session_file.h"
#include "engines/llm/vision.h"

typedef struct reader {
  cairn_llm *llm;
  const unsigned char *at;
  size_t left;
  crn_session_header header;
  int32_t *tokens;      ///< with the numbers of images of this model
  size_t tokens_bytes;  ///< of the allocation
  const unsigned char *note, *rows, *whole, *snapshots;
  size_t note_bytes;
} reader;

static cairn_status take(reader *r, size_t bytes, const unsigned char **out) {
  if (bytes > r->left) return CRN_FAIL(CORRUPT, "the file is cut off: %zu bytes are missing", bytes - r->left);
  *out = r->at;
  r->at += bytes;
  r->left -= bytes;
  return CAIRN_OK;
}

static cairn_status take_padded(reader *r, size_t bytes, const unsigned char **out) {
  size_t all;
  if (!crn_align_size(bytes, 8, &all)) return CRN_FAIL(CORRUPT, "a part of %zu bytes", bytes);
  return take(r, all, out);
}

// --- what it is ---------------------------------------------------------------------------------------------------------

// Gives where the sum begins.
static cairn_status check_sum(const reader *r, const crn_file_map *map, size_t *out_end) {
  unsigned char digest[CRN_SHA256_BYTES];
  uint64_t sum;
  const size_t n = r->header.version == 1 ? sizeof digest : CRN_SESSION_SUM_BYTES;
  if (map->bytes < sizeof r->header + n) return CRN_FAIL(CORRUPT, "the file is cut off: its checksum is missing");
  *out_end = map->bytes - n;
  if (r->header.version == 1) {
    CRN_TRY(crn_sha256(map->data, *out_end, digest));
  } else {
    CRN_TRY(crn_session_sum(r->llm->context, map->data, *out_end, &sum));
    memcpy(digest, &sum, sizeof sum);
  }
  if (memcmp(digest, map->data + *out_end, n) != 0) return CRN_FAIL(CORRUPT, "its checksum does not match: the file was damaged");
  return CAIRN_OK;
}

static cairn_status check_header(reader *r, const crn_file_map *map) {
  crn_session_header *h = &r->header;
  if (map->bytes < sizeof *h + CRN_SESSION_SUM_BYTES || memcmp(map->data, CRN_SESSION_MAGIC, sizeof h->magic) != 0)
    return CRN_FAIL(CORRUPT, "it is no saved session: the first 8 bytes should be '" CRN_SESSION_MAGIC "'");
  memcpy(h, map->data, sizeof *h);
  if (h->order != 0x01020304) return CRN_FAIL(INCOMPATIBLE, "it was saved by a machine with another order of bytes");
  if (h->version < 1 || h->version > CRN_SESSION_VERSION)
    return CRN_FAIL(INCOMPATIBLE, "its version is %u, this build reads 1 to %d", h->version, (int)CRN_SESSION_VERSION);
  if (h->file_bytes != map->bytes)
    return CRN_FAIL(CORRUPT, "it has %zu bytes, %llu were saved", map->bytes, (unsigned long long)h->file_bytes);
  size_t end;
  CRN_TRY(check_sum(r, map, &end));
  r->at = map->data + sizeof *h;
  r->left = end - sizeof *h;
  return CAIRN_OK;
}

static cairn_status check_key(reader *r) {
  const crn_str *key;
  const unsigned char *text;
  CRN_TRY(crn_llm_key(r->llm, &key));
  CRN_TRY(take_padded(r, r->header.key_bytes, &text));
  if (r->header.key_bytes == key->size && memcmp(text, key->data, key->size) == 0) return CAIRN_OK;
  char difference[320];
  crn_llm_key_difference(key, (const char *)text, r->header.key_bytes, difference, sizeof difference);
  return CRN_FAIL(INCOMPATIBLE, "it was saved with another model or other options: %s", difference);
}

static cairn_status take_note(reader *r) {
  r->note_bytes = r->header.version > CRN_SESSION_VERSION_PLAIN ? r->header.note_bytes : 0;
  if (r->note_bytes > CAIRN_SESSION_NOTE_BYTES) return CRN_FAIL(CORRUPT, "it has a note of %zu bytes", r->note_bytes);
  return take_padded(r, r->note_bytes, &r->note);
}

static cairn_status take_tokens(reader *r) {
  const unsigned char *data;
  const int64_t vocab = r->llm->model->contract.vocab_size;
  if (r->header.n_tokens > (uint64_t)r->llm->max_context) {
    return CRN_FAIL(CONTEXT_FULL, "it has %llu tokens, a sequence of this engine can have %lld", (unsigned long long)r->header.n_tokens,
                    (long long)r->llm->max_context);
  }
  const size_t n = (size_t)r->header.n_tokens;
  CRN_TRY(take_padded(r, n * sizeof *r->tokens, &data));
  CRN_TRY(crn_alloc(&r->llm->context->allocator, n * sizeof *r->tokens, &r->tokens));
  r->tokens_bytes = n * sizeof *r->tokens;
  if (n) memcpy(r->tokens, data, r->tokens_bytes);
  for (size_t i = 0; i < n; i++) {
    if (r->tokens[i] >= vocab || (r->tokens[i] < 0 && !r->llm->model->vision))
      return CRN_FAIL(CORRUPT, "token %zu is %d; the vocabulary has the ids 0 to %lld", i, r->tokens[i], (long long)vocab - 1);
  }
  return CAIRN_OK;
}

static cairn_status take_states(reader *r) {
  const crn_llm_states *states = &r->llm->states;
  const size_t whole = crn_llm_whole_bytes(states);
  size_t all;
  CRN_TRY(take(r, crn_llm_all_rows_bytes(states, (int64_t)r->header.n_tokens), &r->rows));
  CRN_TRY(take(r, whole, &r->whole));
  if (!crn_mul_size(r->header.n_snapshots, 8 + whole, &all)) return CRN_FAIL(CORRUPT, "%u snapshots", r->header.n_snapshots);
  CRN_TRY(take(r, all, &r->snapshots));
  uint64_t before = 0;
  for (uint32_t i = 0; i < r->header.n_snapshots; i++) {
    uint64_t n;
    memcpy(&n, r->snapshots + i * (8 + whole), sizeof n);
    if (n <= before || n > r->header.n_tokens || !whole)
      return CRN_FAIL(CORRUPT, "snapshot %u stands at token %llu", i, (unsigned long long)n);
    before = n;
  }
  return CAIRN_OK;
}

// --- images -------------------------------------------------------------------------------------------------------------

typedef struct saved_image {
  int32_t number;
  cairn_dtype dtype;
  int rank;
  int64_t shape[CAIRN_MAX_RANK];
  const unsigned char *digest, *data;
  size_t bytes;
} saved_image;

static cairn_status take_image(reader *r, uint32_t i, saved_image *out) {
  const unsigned char *p;
  uint32_t head[2];
  uint64_t rank, dim;
  CRN_TRY(take(r, 16, &p));
  memcpy(head, p, sizeof head);
  memcpy(&rank, p + 8, sizeof rank);
  out->number = (int32_t)head[0];
  out->dtype = (cairn_dtype)head[1];
  out->bytes = head[1] < CAIRN_DTYPE_COUNT ? cairn_dtype_bytes(out->dtype) : 0;
  if (rank < 1 || rank > CAIRN_MAX_RANK || !out->bytes)
    return CRN_FAIL(CORRUPT, "image %u has rank %llu and type %u", i, (unsigned long long)rank, head[1]);
  out->rank = (int)rank;
  CRN_TRY(take(r, 8 * (size_t)rank, &p));
  for (int k = 0; k < out->rank; k++) {
    memcpy(&dim, p + 8 * k, sizeof dim);
    if (dim < 1 || dim > INT32_MAX || !crn_mul_size(out->bytes, (size_t)dim, &out->bytes))
      return CRN_FAIL(CORRUPT, "image %u has a dim of %llu", i, (unsigned long long)dim);
    out->shape[k] = (int64_t)dim;
  }
  CRN_TRY(take(r, CRN_SHA256_BYTES, &out->digest));
  return take_padded(r, out->bytes, &out->data);
}

static cairn_status keep_image(const reader *r, const saved_image *image, int32_t *out_number) {
  crn_vision *v = r->llm->model->vision;
  const int64_t rows = image->rank >= 2 ? image->shape[image->rank - 2] : 0;
  cairn_ndarray *features;
  if (rows != v->config.image_token_count || (image->rank == 3 && image->shape[0] != 1) || image->rank > 3)
    return CRN_FAIL(CORRUPT, "an image has %lld rows of features, the model takes %lld", (long long)rows,
                    (long long)v->config.image_token_count);
  CRN_TRY(cairn_ndarray_create(r->llm->context, image->dtype, image->shape, image->rank, &features));
  cairn_status status = cairn_ndarray_write(features, image->data, image->bytes);
  if (status == CAIRN_OK) status = crn_vision_put(v, image->digest, features, out_number);
  cairn_ndarray_release(features);
  return status;
}

// Tokens of image `from` become those of image `to`. Done ones are marked, since numbers of both sides may be the same.
static void renumber(const reader *r, const int32_t *saved, int32_t from, int32_t to) {
  const crn_vision *v = r->llm->model->vision;
  for (uint64_t i = 0; i < r->header.n_tokens; i++) {
    int64_t row;
    if (saved[i] < 0 && crn_vision_number(v, saved[i], &row) == from) r->tokens[i] = crn_vision_token_of(v, to, row);
  }
}

static cairn_status take_images(reader *r, const int32_t *saved) {
  if (r->header.n_images && !r->llm->model->vision) return CRN_FAIL(CORRUPT, "it has images, the model takes none");
  int64_t n_found = 0, n_wanted = 0;
  for (uint64_t i = 0; i < r->header.n_tokens; i++) n_wanted += saved[i] < 0;
  for (uint32_t i = 0; i < r->header.n_images; i++) {
    saved_image image;
    int32_t number;
    CRN_TRY(take_image(r, i, &image));
    CRN_TRY(keep_image(r, &image, &number));
    for (uint64_t k = 0; k < r->header.n_tokens; k++) {
      int64_t row;
      n_found += saved[k] < 0 && crn_vision_number(r->llm->model->vision, saved[k], &row) == image.number;
    }
    renumber(r, saved, image.number, number);
  }
  if (n_found != n_wanted) return CRN_FAIL(CORRUPT, "%lld tokens are of images that it does not have", (long long)(n_wanted - n_found));
  return CAIRN_OK;
}

// --- taking it over -----------------------------------------------------------------------------------------------------

/// Rows that are written by several threads at once, in parts of CRN_SESSION_ROWS: these never share a page.
typedef struct row_writer {
  crn_llm_states *states;
  const unsigned char *rows;
  int64_t n;
  atomic_int n_failed;
} row_writer;

static cairn_status write_part(const row_writer *w, int64_t i) {
  const int64_t at = i * CRN_SESSION_ROWS, end = w->n - at < CRN_SESSION_ROWS ? w->n : at + CRN_SESSION_ROWS;
  return crn_llm_all_rows_write(w->states, at, end, w->rows + (size_t)i * crn_llm_all_rows_bytes(w->states, CRN_SESSION_ROWS));
}

static void write_parts(void *user, int64_t begin, int64_t end, int worker) {
  row_writer *w = user;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    if (write_part(w, i) != CAIRN_OK) atomic_fetch_add(&w->n_failed, 1);
  }
}

static cairn_status write_rows(reader *r) {
  row_writer w = {.states = &r->llm->states, .rows = r->rows, .n = (int64_t)r->header.n_tokens};
  const int64_t n_parts = (w.n + CRN_SESSION_ROWS - 1) / CRN_SESSION_ROWS;
  crn_pool_run(r->llm->context->pool, n_parts, 1, write_parts, &w);
  // The records of failures are those of other threads: what is missing is written again here, and fails here, if it still does.
  for (int64_t i = 0; i < n_parts && w.n_failed; i++) CRN_TRY(write_part(&w, i));
  return CAIRN_OK;
}

static cairn_status write_all(reader *r) {
  cairn_llm *llm = r->llm;
  const int64_t n = (int64_t)r->header.n_tokens;
  const size_t whole = crn_llm_whole_bytes(&llm->states);
  CRN_TRY(crn_llm_go_back(llm, 0));
  CRN_TRY(crn_llm_states_extend(&llm->states, n, 0));
  CRN_TRY(crn_history_reserve(&llm->history, llm->states.capacity));
  CRN_TRY(write_rows(r));
  // Each snapshot goes through the states, whose last values are those of the end.
  for (uint32_t i = 0; i < r->header.n_snapshots; i++) {
    uint64_t at;
    memcpy(&at, r->snapshots + i * (8 + whole), sizeof at);
    CRN_TRY(crn_llm_whole_write(&llm->states, r->snapshots + i * (8 + whole) + 8));
    CRN_TRY(crn_llm_snapshots_take(&llm->snapshots, &llm->states, (int64_t)at, &llm->model->settings.snapshots));
  }
  CRN_TRY(crn_llm_whole_write(&llm->states, r->whole));
  return crn_history_append(&llm->history, r->tokens, n);
}

static cairn_status read_all(reader *r, const crn_file_map *map) {
  CRN_TRY(check_header(r, map));
  CRN_TRY(check_key(r));
  CRN_TRY(take_note(r));
  CRN_TRY(take_tokens(r));
  const int32_t *saved = (const int32_t *)(const void *)(r->at - (r->tokens_bytes + (-r->tokens_bytes & 7)));
  CRN_TRY(take_states(r));
  CRN_TRY(take_images(r, saved));
  if (r->left) return CRN_FAIL(CORRUPT, "%zu bytes follow the last part", r->left);
  cairn_status status = write_all(r);
  if (status == CAIRN_OK) return CAIRN_OK;
  // Only memory can be missing here: rather nothing than half of it.
  if (crn_llm_go_back(r->llm, 0) != CAIRN_OK) r->llm->is_dirty = true;
  return status;
}

static cairn_status restore(cairn_llm *llm, const char *path, void *out_note, size_t *out_note_bytes) {
  reader r = {.llm = llm};
  crn_file_map map = {0};
  CRN_TRY_NOTE(crn_file_map_open(path, &map), "restoring the session '%s'", path);
  cairn_status status = read_all(&r, &map);
  // What is wrong with it is said of "it": of which file stands in front.
  if (status != CAIRN_OK) crn_fail(status, __FILE__, __LINE__, "the session '%s': %s", path, cairn_last_error()->message);
  if (status == CAIRN_OK && out_note) {
    if (r.note_bytes) memcpy(out_note, r.note, r.note_bytes);
    *out_note_bytes = r.note_bytes;
  }
  if (r.tokens) crn_free(&llm->context->allocator, r.tokens, r.tokens_bytes);
  crn_file_map_close(&map);
  return status;
}

static cairn_status restore_into(cairn_llm *llm, const char *path, void *out_note, size_t *out_note_bytes) {
  if (!llm) return CRN_FAIL(INVALID_ARGUMENT, "a session is restored into a sequence: none was given");
  if (!path || !*path) return CRN_FAIL(INVALID_ARGUMENT, "the name of the session to restore is empty");
  CRN_TRY(crn_llm_acquire(llm));
  const int64_t start = crn_trace_begin(llm->context);
  cairn_status status = restore(llm, path, out_note, out_note_bytes);
  CRN_TRACE_END(llm->context, start, "engine", path, "Restore session %lld", (long long)llm->history.n);
  crn_llm_yield(llm);
  return status;
}

cairn_status cairn_llm_restore(cairn_llm *llm, const char *path) { return restore_into(llm, path, NULL, NULL); }

cairn_status cairn_llm_restore_with_note(cairn_llm *llm, const char *path, void *out_note, size_t *out_note_bytes) {
  CRN_REQUIRE(out_note);
  CRN_REQUIRE(out_note_bytes);
  *out_note_bytes = 0;
  return restore_into(llm, path, out_note, out_note_bytes);
}
