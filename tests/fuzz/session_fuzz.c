// Saved sequences: the input is a list of edits of one that is right, or the parts of a file; the checksum is put right, so that what
// is behind it is reached. A file that is taken must leave a sequence that runs.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cairn/session.h"
#include "engines/llm/session_file.h"

static cairn_context *g_context;
static cairn_llm *g_llm;
static char g_file[64];
static unsigned char *g_saved;
static size_t g_saved_bytes;

static void close_all(void) {
  unlink(g_file);
  free(g_saved);
  cairn_llm_close(g_llm);
  cairn_context_release(g_context);
}

static void need(int ok) {
  if (!ok) abort();
}

static void open_all(void) {
  static const int32_t kTokens[] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const cairn_forward_options o = {.tokens = kTokens, .n_tokens = 12};
  snprintf(g_file, sizeof g_file, "/tmp/cairn-session-fuzz-%d", (int)getpid());
  need(cairn_context_create(&(cairn_context_options){.n_threads = 1}, &g_context) == CAIRN_OK);
  need(cairn_llm_open(g_context, CAIRN_TEST_DATA "/llm-forms/lm_hybrid", NULL, &g_llm) == CAIRN_OK);
  need(cairn_llm_forward(g_llm, &o) == CAIRN_OK && cairn_llm_save_with_note(g_llm, g_file, "a note", 6) == CAIRN_OK);
  FILE *f = fopen(g_file, "rb");
  need(f && fseek(f, 0, SEEK_END) == 0);
  g_saved_bytes = (size_t)ftell(f);
  rewind(f);
  g_saved = malloc(g_saved_bytes);
  need(g_saved && fread(g_saved, 1, g_saved_bytes, f) == g_saved_bytes);
  fclose(f);
  atexit(close_all);
}

// Three bytes an edit: where, and what.
static size_t edit(const uint8_t *data, size_t size, unsigned char *out) {
  memcpy(out, g_saved, g_saved_bytes);
  for (size_t i = 0; i + 3 <= size; i += 3) out[(data[i] * 256u + data[i + 1]) % g_saved_bytes] = data[i + 2];
  return g_saved_bytes;
}

// The header of the saved one, with the numbers behind the size taken from the input.
static size_t compose(const uint8_t *data, size_t size, unsigned char *out) {
  memcpy(out, g_saved, 24);
  memcpy(out + 24, data, size);
  size_t bytes = 24 + size + CRN_SESSION_SUM_BYTES;
  const uint64_t told = bytes;
  memcpy(out + 16, &told, sizeof told);
  return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!g_llm) open_all();
  if (size < 1) return 0;
  unsigned char *file = malloc(g_saved_bytes + size + 128);
  need(file != NULL);
  size_t bytes = data[0] & 1 ? edit(data + 1, size - 1, file) : compose(data + 1, size - 1, file);
  uint64_t sum;
  need(crn_session_sum(g_context, file, bytes - sizeof sum, &sum) == CAIRN_OK);
  memcpy(file + bytes - sizeof sum, &sum, sizeof sum);
  FILE *f = fopen(g_file, "wb");
  need(f && fwrite(file, 1, bytes, f) == bytes && fclose(f) == 0);
  free(file);
  if (cairn_llm_restore(g_llm, g_file) == CAIRN_OK) {
    static const int32_t kToken = 3;
    const cairn_forward_options o = {.tokens = &kToken, .n_tokens = 1};
    int64_t kept;
    cairn_status status = cairn_llm_forward(g_llm, &o);
    need(status == CAIRN_OK || status == CAIRN_CONTEXT_FULL);
    need(cairn_llm_trim(g_llm, 5, &kept) == CAIRN_OK && kept <= 5);
  }
  return 0;
}
