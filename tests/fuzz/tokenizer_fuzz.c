// A damaged or hostile tokenizer.json must give a status, and a tokenizer that loads must survive any text and any ids.
//
// Input: the text of a tokenizer.json up to the first byte 0xff (which no UTF-8 holds), then the text to encode. Without
// such a byte the last quarter is the text.
#include "tests/fuzz/use_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  cairn_tokenizer *t;
  const uint8_t *mark = size ? memchr(data, 0xff, size) : NULL;
  size_t json_bytes = mark ? (size_t)(mark - data) : size - size / 4;
  size_t skip = mark ? 1 : 0;
  if (cairn_tokenizer_create_from_json(fuzz_context(), (const char *)data, json_bytes, "fuzz", &t) != CAIRN_OK) return 0;
  use_tokenizer(t, (const char *)data + json_bytes + skip, size - json_bytes - skip);
  cairn_tokenizer_release(t);
  return 0;
}
