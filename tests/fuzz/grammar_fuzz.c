// A hostile grammar must give a status, within limits of time and memory, and whatever is compiled must be walked without a mask and
// a token that disagree.
//
// Input: a byte for the kind (and for white space), then the grammar.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cairn/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TOKENS = 256 };

static cairn_context *g_context;
static cairn_grammar_compiler *g_compiler;

static void check(int condition) {
  if (!condition) abort();
}

// A tokenizer of the 256 bytes, as <0xNN>.
static cairn_tokenizer *byte_tokenizer(void) {
  cairn_tokenizer *tokenizer;
  crn_str json;
  crn_str_initialize(&json, NULL);
  check(
      crn_str_puts(
          &json, "{\"decoder\":{\"type\":\"ByteFallback\"},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"merges\":[],\"vocab\":{") ==
      CAIRN_OK);
  for (int i = 0; i < TOKENS; i++) check(crn_str_printf(&json, "%s\"<0x%02X>\":%d", i ? "," : "", i, i) == CAIRN_OK);
  check(crn_str_puts(&json, "}}}") == CAIRN_OK);
  check(cairn_tokenizer_create_from_json(g_context, json.data, json.size, "fuzz", &tokenizer) == CAIRN_OK);
  crn_str_deinitialize(&json);
  return tokenizer;
}

static void open_all(void) {
  cairn_context_options options;
  cairn_context_options_initialize(&options);
  options.n_threads = 1;
  options.log_level = CAIRN_LOG_OFF;
  check(cairn_context_create(&options, &g_context) == CAIRN_OK);
  if (!cairn_grammar_is_available()) return;
  cairn_tokenizer *tokenizer = byte_tokenizer();
  check(cairn_grammar_compiler_create(g_context, tokenizer, 0, &g_compiler) == CAIRN_OK);
  cairn_tokenizer_release(tokenizer);
}

// Takes the `which`-th allowed token, again and again.
static void walk(cairn_grammar *grammar, size_t which) {
  uint32_t words[TOKENS / 32];
  int64_t allowed;
  cairn_matcher *m;
  check(cairn_matcher_create(grammar, NULL, 0, &m) == CAIRN_OK);
  for (int step = 0; step < 24; step++) {
    char forced[16];
    size_t n;
    bool accepted;
    check(cairn_matcher_mask(m, words, TOKENS / 32, &allowed) == CAIRN_OK);
    check(cairn_matcher_forced(m, forced, sizeof forced, &n) == CAIRN_OK);
    if (!allowed) {
      check(cairn_matcher_is_complete(m));  // nothing leads into a place without a way on
      break;
    }
    int32_t id = 0;
    for (int64_t left = (int64_t)((which + (size_t)step) % (size_t)allowed);; id++) {
      if (words[id / 32] >> id % 32 & 1 && left-- == 0) break;
    }
    if (n) check(allowed == 1 && (unsigned char)forced[0] == id);
    check(cairn_matcher_accept(m, id, &accepted) == CAIRN_OK && accepted);
  }
  cairn_matcher_destroy(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!g_context) open_all();
  if (size < 1 || size > 1 << 14) return 0;
  const cairn_grammar_source source = {
      .kind = 1 + data[0] % 4, .text = (const char *)data + 1, .text_bytes = size - 1, .compact = data[0] >> 7};
  cairn_grammar *grammar;
  if (!g_compiler) {
    cairn_grammar_check(g_context, &source);
    return 0;
  }
  const cairn_status status = cairn_grammar_compile(g_compiler, &source, &grammar);
  check(status == CAIRN_OK || cairn_last_error()->code == status);
  check(status != CAIRN_INTERNAL);  // the library refuses nothing that was read
  if (status != CAIRN_OK) return 0;
  for (size_t i = 0; i < 3; i++) walk(grammar, data[size - 1] + i);
  cairn_grammar_release(grammar);
  return 0;
}
