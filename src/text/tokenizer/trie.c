#include "text/tokenizer/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/// Keys are put in order by their first bytes as a number, which mostly decides without a look at the texts all over the memory.
typedef struct ordered_key {
  uint64_t first;
  crn_trie_key key;
} ordered_key;

static uint64_t first_bytes(const crn_trie_key *key) {
  uint64_t first = 0;
  for (uint32_t i = 0; i < 8; i++) first = first << 8 | (i < key->bytes ? (unsigned char)key->text[i] : 0);
  return first;
}

static int compare_keys(const void *a, const void *b) {
  const ordered_key *p = a, *q = b;
  if (p->first != q->first) return p->first < q->first ? -1 : 1;
  const crn_trie_key *x = &p->key, *y = &q->key;
  size_t n = x->bytes < y->bytes ? x->bytes : y->bytes;
  int c = n > 8 ? memcmp(x->text + 8, y->text + 8, n - 8) : 0;
  if (c) return c;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return x->value < y->value ? -1 : x->value > y->value;
}

static cairn_status sort_keys(const cairn_allocator *a, crn_trie_key *keys, size_t n_keys) {
  ordered_key *ordered;
  CRN_TRY(crn_alloc_array(a, n_keys, sizeof *ordered, &ordered));
  for (size_t i = 0; i < n_keys; i++) ordered[i] = (ordered_key){first_bytes(&keys[i]), keys[i]};
  qsort(ordered, n_keys, sizeof *ordered, compare_keys);
  for (size_t i = 0; i < n_keys; i++) keys[i] = ordered[i].key;
  crn_free(a, ordered, n_keys * sizeof *ordered);
  return CAIRN_OK;
}

/// A node whose children are still to be made: the keys [begin, end) share its path of `depth` bytes.
typedef struct task {
  uint32_t node;
  size_t begin, end;
} task;

typedef CRN_VEC(crn_trie_node) node_vec;
typedef CRN_VEC(task) task_vec;

static cairn_status expand(const cairn_allocator *a, node_vec *nodes, task_vec *next, const crn_trie_key *keys, task t, size_t depth) {
  size_t i = t.begin;
  while (i < t.end && keys[i].bytes == depth) nodes->items[t.node].value = keys[i++].value;
  nodes->items[t.node].first_child = (uint32_t)nodes->size;
  while (i < t.end) {
    unsigned char byte = (unsigned char)keys[i].text[depth];
    size_t begin = i;
    while (i < t.end && (unsigned char)keys[i].text[depth] == byte) i++;
    if (nodes->size >= UINT32_MAX) return CRN_FAIL(UNSUPPORTED, "too many tokens for a trie");
    task child = {(uint32_t)nodes->size, begin, i};
    CRN_TRY(crn_vec_push(a, nodes, ((crn_trie_node){.byte = byte, .value = -1})));
    CRN_TRY(crn_vec_push(a, next, child));
    nodes->items[t.node].n_children++;
  }
  return CAIRN_OK;
}

// Level by level, so that the children of a node are neighbours and no recursion is needed.
static cairn_status build_levels(const cairn_allocator *a, node_vec *nodes, const crn_trie_key *keys, size_t n_keys) {
  task_vec level = {0}, next = {0};
  cairn_status status;
  CRN_TRY_GOTO(crn_vec_push(a, nodes, ((crn_trie_node){.value = -1})));
  CRN_TRY_GOTO(crn_vec_push(a, &level, ((task){0, 0, n_keys})));
  for (size_t depth = 0; level.size; depth++) {
    for (size_t i = 0; i < level.size; i++) CRN_TRY_GOTO(expand(a, nodes, &next, keys, level.items[i], depth));
    task_vec swap = level;
    level = next;
    next = swap;
    next.size = 0;
  }
done:
  crn_vec_free(a, &level);
  crn_vec_free(a, &next);
  return status;
}

cairn_status crn_trie_build(crn_trie *trie, crn_arena *arena, crn_trie_key *keys, size_t n_keys) {
  const cairn_allocator *a = arena->allocator;
  node_vec nodes = {0};
  *trie = (crn_trie){0};
  if (n_keys) CRN_TRY(sort_keys(a, keys, n_keys));
  while (n_keys && keys->bytes == 0) keys++, n_keys--;
  if (!n_keys) return CAIRN_OK;
  cairn_status status;
  CRN_TRY_GOTO(build_levels(a, &nodes, keys, n_keys));
  CRN_TRY_GOTO(crn_arena_array(arena, nodes.size, sizeof *nodes.items, &trie->nodes));
  memcpy(trie->nodes, nodes.items, nodes.size * sizeof *nodes.items);
  trie->n_nodes = nodes.size;
  for (uint32_t i = 0; i < trie->nodes[0].n_children; i++) {
    uint32_t child = trie->nodes[0].first_child + i;
    trie->roots[trie->nodes[child].byte] = child;
  }
done:
  crn_vec_free(a, &nodes);
  return status;
}

uint32_t crn_trie_step(const crn_trie *trie, uint32_t node, unsigned char byte) {
  if (node == 0) return trie->nodes ? trie->roots[byte] : 0;
  const crn_trie_node *n = &trie->nodes[node];
  uint32_t low = n->first_child, high = low + n->n_children;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    if (trie->nodes[mid].byte < byte) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low < n->first_child + n->n_children && trie->nodes[low].byte == byte ? low : 0;
}

size_t crn_trie_longest(const crn_trie *trie, const char *text, size_t bytes, int32_t *out_value) {
  size_t longest = 0;
  uint32_t node = 0;
  for (size_t i = 0; i < bytes; i++) {
    node = crn_trie_step(trie, node, (unsigned char)text[i]);
    if (!node) break;
    if (trie->nodes[node].value >= 0) {
      longest = i + 1;
      *out_value = trie->nodes[node].value;
    }
  }
  return longest;
}
