/// A read-only byte trie over a set of strings, each with a value.
#ifndef CRN_TEXT_TOKENIZER_TRIE_H
#define CRN_TEXT_TOKENIZER_TRIE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct crn_trie_key {
  const char *text;
  uint32_t bytes;
  int32_t value;
} crn_trie_key;

typedef struct crn_trie_node {
  uint32_t first_child;  ///< index of the first child; children are neighbours in rising order of their byte
  uint16_t n_children;
  uint8_t byte;
  int32_t value;  ///< -1 = no key ends here
} crn_trie_node;

typedef struct crn_trie {
  crn_trie_node *nodes;  ///< nodes[0] is the root; NULL = empty set
  size_t n_nodes;
  uint32_t roots[256];  ///< child of the root by byte, 0 = none
} crn_trie;

/// Builds from keys, which are put in order in place. Of equal keys the one that came last counts. Values are >= 0.
/// Empty keys are left out. The nodes live in `arena`.
cairn_status crn_trie_build(crn_trie *trie, crn_arena *arena, crn_trie_key *keys, size_t n_keys);

/// The child of `node` by `byte`, 0 when there is none.
uint32_t crn_trie_step(const crn_trie *trie, uint32_t node, unsigned char byte);

/// Longest key that is a prefix of the text: its size, 0 when there is none.
size_t crn_trie_longest(const crn_trie *trie, const char *text, size_t bytes, int32_t *out_value);

#endif
