/// How fast memory can be read, for comparison with what programs reach.
#ifndef CRN_BASE_BANDWIDTH_H
#define CRN_BASE_BANDWIDTH_H

#include "base/pool.h"

/// Reads `bytes` (whole pieces of 512) once, as fast as a thread can, and does nothing with them.
void crn_memory_read(const void *memory, size_t bytes);

/// Bytes a second that all workers of the pool read together, each a slice of `memory` of its own, which it is the first to write: the best
/// of `tries`. Contents are overwritten. For memory and not caches to be measured, `bytes` must be several times those of the caches.
double crn_memory_read_speed(crn_pool *pool, char *memory, size_t bytes, int tries);

#endif
