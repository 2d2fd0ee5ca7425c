/// safetensors files: the reader, and every byte of the tensors of the files it accepts.
#include <stddef.h>
#include <stdint.h>

#include "import/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static volatile uint8_t sum;
  crn_safetensors *file;
  if (crn_safetensors_open_memory(NULL, data, size, "fuzz", &file) != CAIRN_OK) return 0;
  for (size_t i = 0; i < crn_safetensors_count(file); i++) {
    const crn_tensor *t = &crn_safetensors_at(file, i)->tensor;
    size_t bytes = (size_t)crn_tensor_count(t) * (size_t)crn_dtype_bits(t->dtype) / 8;
    for (size_t k = 0; k < bytes; k++) sum = (uint8_t)(sum ^ ((const uint8_t *)t->data)[k]);
  }
  crn_safetensors_close(file);
  return 0;
}
