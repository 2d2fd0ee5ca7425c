/// What the two ways of byte pair encoding share.
#ifndef CRN_TEXT_TOKENIZER_MODELS_BPE_H
#define CRN_TEXT_TOKENIZER_MODELS_BPE_H

#include "text/tokenizer/internal.h"

static inline uint64_t crn_bpe_pair_key(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

/// The place of a pair, or the free one where it would be (id -1).
static inline crn_pair_slot *crn_bpe_find_pair(const crn_model *m, int32_t left, int32_t right) {
  uint64_t pair = crn_bpe_pair_key(left, right);
  size_t mask = m->n_pairs - 1;
  for (size_t i = (size_t)(pair * 0x9e3779b97f4a7c15u >> 32) & mask;; i = (i + 1) & mask) {
    if (m->pairs[i].id < 0 || m->pairs[i].pair == pair) return &m->pairs[i];
  }
}

/// Encodes a word of any length whose bytes are its first symbols.
cairn_status crn_bpe_encode_bytes(crn_run *run, const char *text, size_t bytes);

#endif
