/// Writing a sequence to a file.
#include <string.h>

#include "base/file.h"
#include "base/trace.h"
#include "cairn/session.h"
#include "engines/llm/session_file.h"
#include "engines/llm/vision.h"

typedef CRN_VEC(crn_vision_image) image_list;

typedef struct saver {
  cairn_llm *llm;
  crn_file_writer file;
  unsigned char *piece;  ///< of CRN_SESSION_PIECE bytes: what was put and not yet written
  size_t filled, n_put;  ///< of it, and of all
  CRN_VEC(uint64_t) sums;
  image_list images;
  const void *note;
  size_t note_bytes;
} saver;

static cairn_status write_piece(saver *s) {
  const uint64_t sum = crn_session_piece_sum(s->piece, s->filled, s->sums.size);
  CRN_TRY(crn_vec_push(&s->llm->context->allocator, &s->sums, sum));
  CRN_TRY(crn_file_write(&s->file, s->piece, s->filled));
  s->filled = 0;
  return CAIRN_OK;
}

static cairn_status put(saver *s, const void *data, size_t bytes) {
  s->n_put += bytes;
  for (const unsigned char *at = data; bytes;) {
    const size_t room = CRN_SESSION_PIECE - s->filled, n = bytes < room ? bytes : room;
    memcpy(s->piece + s->filled, at, n);
    s->filled += n;
    at += n;
    bytes -= n;
    if (s->filled == CRN_SESSION_PIECE) CRN_TRY(write_piece(s));
  }
  return CAIRN_OK;
}

static cairn_status put_sum(saver *s) {
  if (s->filled) CRN_TRY(write_piece(s));
  const uint64_t sum = crn_session_sum_of(s->sums.items, s->sums.size, s->n_put);
  return crn_file_write(&s->file, &sum, sizeof sum);
}

static size_t padding(size_t bytes) { return -bytes & 7; }

static cairn_status put_padded(saver *s, const void *data, size_t bytes) {
  static const char kZeros[8] = {0};
  CRN_TRY(put(s, data, bytes));
  return put(s, kZeros, padding(bytes));
}

// --- images -------------------------------------------------------------------------------------------------------------

static size_t image_bytes(const crn_vision_image *image) {
  const size_t data = (size_t)cairn_ndarray_count(image->features) * cairn_dtype_bytes(cairn_ndarray_dtype(image->features));
  return 16 + 8 * (size_t)cairn_ndarray_rank(image->features) + CRN_SHA256_BYTES + data + padding(data);
}

// The images the tokens of the history are of, each once.
static cairn_status collect_images(saver *s) {
  crn_vision *v = s->llm->model->vision;
  for (int64_t i = 0; v && i < s->llm->history.n; i++) {
    const int32_t token = s->llm->history.tokens[i];
    int64_t row;
    bool is_known = token >= 0;
    const int32_t number = is_known ? 0 : crn_vision_number(v, token, &row);
    for (size_t k = 0; !is_known && k < s->images.size; k++) is_known = s->images.items[k].number == number;
    if (is_known) continue;
    crn_vision_image image;
    CRN_TRY(crn_vision_get(v, number, &image));
    cairn_status status = crn_vec_push(&s->llm->context->allocator, &s->images, image);
    if (status != CAIRN_OK) {
      cairn_ndarray_release(image.features);
      return status;
    }
  }
  return CAIRN_OK;
}

static cairn_status put_image(saver *s, const crn_vision_image *image) {
  const cairn_ndarray *f = image->features;
  const int rank = cairn_ndarray_rank(f);
  const uint32_t head[2] = {(uint32_t)image->number, (uint32_t)cairn_ndarray_dtype(f)};
  uint64_t dims[1 + CAIRN_MAX_RANK] = {(uint64_t)rank};
  for (int i = 0; i < rank; i++) dims[1 + i] = (uint64_t)cairn_ndarray_shape(f)[i];
  CRN_TRY(put(s, head, sizeof head));
  CRN_TRY(put(s, dims, (1 + (size_t)rank) * sizeof *dims));
  CRN_TRY(put(s, image->digest, sizeof image->digest));
  return put_padded(s, cairn_ndarray_data(f), (size_t)cairn_ndarray_count(f) * cairn_dtype_bytes(cairn_ndarray_dtype(f)));
}

// --- the parts ----------------------------------------------------------------------------------------------------------

static cairn_status put_rows(saver *s) {
  const crn_llm_states *states = &s->llm->states;
  const int64_t n = s->llm->history.n;
  const size_t most = crn_llm_all_rows_bytes(states, n < CRN_SESSION_ROWS ? n : CRN_SESSION_ROWS);
  const cairn_allocator *a = &s->llm->context->allocator;
  void *room;
  CRN_TRY(crn_alloc(a, most, &room));
  cairn_status status = CAIRN_OK;
  for (int64_t at = 0; at < n && status == CAIRN_OK; at += CRN_SESSION_ROWS) {
    const int64_t end = n - at < CRN_SESSION_ROWS ? n : at + CRN_SESSION_ROWS;
    status = crn_llm_all_rows_read(states, at, end, room);
    if (status == CAIRN_OK) status = put(s, room, crn_llm_all_rows_bytes(states, end - at));
  }
  crn_free(a, room, most);
  return status;
}

static cairn_status put_array(saver *s, const cairn_ndarray *array, size_t bytes) {
  const cairn_allocator *a = &s->llm->context->allocator;
  void *room;
  CRN_TRY(crn_alloc(a, bytes, &room));
  cairn_status status = cairn_ndarray_read(array, room, bytes);
  if (status == CAIRN_OK) status = put(s, room, bytes);
  crn_free(a, room, bytes);
  return status;
}

static cairn_status put_whole_states(saver *s, const crn_llm_snapshot *snapshot) {
  const crn_llm_states *states = &s->llm->states;
  for (int i = 0; i < states->contract->n_states; i++) {
    if (!crn_llm_state_is_whole(&states->contract->states[i])) continue;
    CRN_TRY(put_array(s, snapshot ? snapshot->arrays[i] : states->arrays[i].array, crn_llm_rows_bytes(states, i, 0)));
  }
  return CAIRN_OK;
}

static cairn_status put_snapshots(saver *s) {
  for (size_t i = 0; i < s->llm->snapshots.items.size; i++) {
    const crn_llm_snapshot *snapshot = &s->llm->snapshots.items.items[i];
    const uint64_t n = (uint64_t)snapshot->n;
    CRN_TRY(put(s, &n, sizeof n));
    CRN_TRY(put_whole_states(s, snapshot));
  }
  return CAIRN_OK;
}

static size_t total_bytes(const saver *s, const crn_str *key) {
  const cairn_llm *llm = s->llm;
  const size_t tokens = (size_t)llm->history.n * sizeof(int32_t), whole = crn_llm_whole_bytes(&llm->states);
  size_t bytes = CRN_SESSION_HEADER_BYTES + key->size + padding(key->size) + tokens + padding(tokens);
  bytes += s->note_bytes + padding(s->note_bytes);
  bytes += crn_llm_all_rows_bytes(&llm->states, llm->history.n) + whole + llm->snapshots.items.size * (8 + whole);
  for (size_t i = 0; i < s->images.size; i++) bytes += image_bytes(&s->images.items[i]);
  return bytes + CRN_SESSION_SUM_BYTES;
}

static cairn_status put_all(saver *s, const crn_str *key) {
  const cairn_llm *llm = s->llm;
  const crn_session_header header = {.magic = CRN_SESSION_MAGIC,
                                     .version = s->note_bytes ? CRN_SESSION_VERSION : CRN_SESSION_VERSION_PLAIN,
                                     .order = 0x01020304,
                                     .file_bytes = total_bytes(s, key),
                                     .n_tokens = (uint64_t)llm->history.n,
                                     .key_bytes = (uint32_t)key->size,
                                     .n_images = (uint32_t)s->images.size,
                                     .n_snapshots = (uint32_t)llm->snapshots.items.size,
                                     .note_bytes = (uint32_t)s->note_bytes};
  CRN_TRY(put(s, &header, sizeof header));
  CRN_TRY(put_padded(s, key->data, key->size));
  if (s->note_bytes) CRN_TRY(put_padded(s, s->note, s->note_bytes));
  CRN_TRY(put_padded(s, llm->history.tokens, (size_t)llm->history.n * sizeof *llm->history.tokens));
  CRN_TRY(put_rows(s));
  CRN_TRY(put_whole_states(s, NULL));
  CRN_TRY(put_snapshots(s));
  for (size_t i = 0; i < s->images.size; i++) CRN_TRY(put_image(s, &s->images.items[i]));
  return put_sum(s);
}

static cairn_status write_file(saver *s, const char *path, const crn_str *key) {
  CRN_TRY(crn_file_create(path, &s->file));
  const cairn_allocator *a = &s->llm->context->allocator;
  cairn_status status = crn_alloc(a, CRN_SESSION_PIECE, &s->piece);
  if (status == CAIRN_OK) status = put_all(s, key);
  crn_free(a, s->piece, CRN_SESSION_PIECE);
  crn_vec_free(a, &s->sums);
  if (status == CAIRN_OK) return crn_file_commit(&s->file);
  crn_file_discard(&s->file);
  return status;
}

static cairn_status save(cairn_llm *llm, const char *path, const void *note, size_t note_bytes) {
  saver s = {.llm = llm, .note = note, .note_bytes = note_bytes};
  const crn_str *key;
  if (llm->is_dirty) return CRN_FAIL(FAILED_PRECONDITION, "a run failed before, so the states hold no known tokens to save");
  if (crn_llm_rows_were_dropped(&llm->states))
    return CRN_FAIL(UNSUPPORTED, "the window of the cache has dropped rows: what is left cannot be saved");
  CRN_TRY(crn_llm_key(llm, &key));
  cairn_status status = collect_images(&s);
  if (status == CAIRN_OK) status = write_file(&s, path, key);
  for (size_t i = 0; i < s.images.size; i++) cairn_ndarray_release(s.images.items[i].features);
  crn_vec_free(&llm->context->allocator, &s.images);
  return status;
}

cairn_status cairn_llm_save(cairn_llm *llm, const char *path) { return cairn_llm_save_with_note(llm, path, NULL, 0); }

cairn_status cairn_llm_save_with_note(cairn_llm *llm, const char *path, const void *note, size_t note_bytes) {
  if (!llm) return CRN_FAIL(INVALID_ARGUMENT, "the session of a sequence is saved: none was given");
  if (!path || !*path) return CRN_FAIL(INVALID_ARGUMENT, "the name of the session to save is empty");
  CRN_REQUIRE_SOME(note, note_bytes);
  if (note_bytes > CAIRN_SESSION_NOTE_BYTES)
    return CRN_FAIL(OUT_OF_RANGE, "the note of a session has %zu bytes, at most %d are kept", note_bytes, (int)CAIRN_SESSION_NOTE_BYTES);
  CRN_TRY(crn_llm_acquire(llm));
  const int64_t start = crn_trace_begin(llm->context);
  cairn_status status = save(llm, path, note, note_bytes);
  if (status != CAIRN_OK) crn_fail(status, __FILE__, __LINE__, "the session '%s' is not saved: %s", path, cairn_last_error()->message);
  CRN_TRACE_END(llm->context, start, "engine", path, "Save session %lld", (long long)llm->history.n);
  crn_llm_yield(llm);
  return status;
}
