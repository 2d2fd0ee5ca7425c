// A damaged or hostile tokenizer.model must give a status, and one that loads must survive any text and any ids.
//
// Input: two bytes with the length of the text, the text to encode, then the model.
#include "tests/fuzz/use_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  cairn_tokenizer *t;
  if (size < 2) return 0;
  size_t n = (size_t)data[0] | (size_t)data[1] << 8;
  data += 2;
  size -= 2;
  if (n > size) n = size;
  if (cairn_tokenizer_create_from_sentencepiece(fuzz_context(), data + n, size - n, "fuzz", &t) != CAIRN_OK) return 0;
  use_tokenizer(t, (const char *)data, n);
  cairn_tokenizer_release(t);
  return 0;
}
