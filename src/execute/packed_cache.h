/// The use of the cache of packed weights by models.
#ifndef CRN_EXECUTE_PACKED_CACHE_H
#define CRN_EXECUTE_PACKED_CACHE_H

#include "execute/internal.h"

/// Takes in what the cache holds for the model. Nothing there, or nothing usable, is no error; but the weights of a compiled asset must
/// be there (CORRUPT).
cairn_status crn_packed_cache_read(cairn_model *model);
/// Finds out what the file of an imported program is called in the cache. Not finding out is no error: it is packed anew each time.
void crn_packed_cache_identify(cairn_model *model);
/// Writes the packed weights of a model into the folder of a compiled asset.
cairn_status crn_packed_cache_export(cairn_model *model, const char *folder);

/// compile.c: the precision a compiled asset runs with. Errors: INCOMPATIBLE when another one was asked for.
cairn_status crn_compiled_check_options(const cairn_model *model, cairn_precision *in_out_precision);
/// Whether a compiled asset holds all constants that the plan reads. Errors: INCOMPATIBLE.
cairn_status crn_compiled_check_plan(const cairn_model *model, const crn_plan *plan);
/// Saves the model's packed weights when there are new ones worth it. Failing to is a warning.
void crn_packed_cache_write(cairn_model *model);

#endif
