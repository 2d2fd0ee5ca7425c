/// The use of the cache of packed weights by models.
#ifndef CRN_EXECUTE_PACKED_CACHE_H
#define CRN_EXECUTE_PACKED_CACHE_H

#include "execute/internal.h"

/// Takes in what the cache holds for the model. Nothing there, or nothing usable, is no error.
void crn_packed_cache_read(cairn_model *model);
/// Saves the model's packed weights when there are new ones worth it. Failing to is a warning.
void crn_packed_cache_write(cairn_model *model);

#endif
