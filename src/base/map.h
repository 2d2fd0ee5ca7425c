/// A hash map from byte strings to 64-bit values. Keys are copied. Insertion only. Thread: reads may run at once.
#ifndef CRN_BASE_MAP_H
#define CRN_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct crn_map_slot {
  const char *key;  ///< NULL = free; lives in the map's arena
  uint32_t key_bytes, hash;
  uint64_t value;
} crn_map_slot;

typedef struct crn_map {
  crn_arena keys;
  crn_map_slot *slots;
  size_t n_slots, size;
} crn_map;

void crn_map_initialize(crn_map *map, const cairn_allocator *allocator);
void crn_map_deinitialize(crn_map *map);
/// Adds or replaces. Errors: OUT_OF_MEMORY.
cairn_status crn_map_set(crn_map *map, const char *key, size_t key_bytes, uint64_t value);
/// Returns false when the key is absent; `out_value` may be NULL.
bool crn_map_get(const crn_map *map, const char *key, size_t key_bytes, uint64_t *out_value);

#endif
