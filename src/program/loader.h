/// Shared inside of the bytecode-to-program reader.
#ifndef CRN_PROGRAM_LOADER_H
#define CRN_PROGRAM_LOADER_H

#include "asset/mlirbc/module.h"
#include "base/map.h"
#include "program/ir.h"

typedef struct crn_loader {
  crn_bc_module *module;
  crn_program *program;
  crn_arena *arena;  ///< the program's
  const cairn_allocator *allocator;
  crn_map types;                    ///< crn_bc_type pointer -> crn_type pointer
  crn_map graphs;                   ///< name -> crn_graph pointer
  crn_graph *graph;                 ///< being read
  CRN_VEC(crn_bc_value *) touched;  ///< values whose `user` was set: cleared at the end
  int depth;
} crn_loader;

cairn_status crn_load_type(crn_loader *l, const crn_bc_type *t, const crn_type **out_type);
cairn_status crn_load_constant(crn_loader *l, const crn_bc_attr *value, const crn_bc_type *type, const crn_constant **out_constant);
cairn_status crn_load_attr(crn_loader *l, const crn_bc_attr *a, const char *key, int depth, crn_attr *out);
cairn_status crn_load_composite(crn_loader *l, const crn_bc_attr *decl, const crn_composite_decl **out_decl);
cairn_status crn_load_text(crn_loader *l, const crn_bc_attr *a, const char *what, const char **out_text);
/// "file.py:12" of a location, "" when there is none.
cairn_status crn_load_location(crn_loader *l, const crn_bc_attr *location, const char **out_text);

/// Reads a block with its nested regions into the graph being read.
cairn_status crn_loader_block(crn_loader *l, const crn_bc_block *source, crn_block **out_block);

/// Rewrites an op that was stored in an older form. `*out_result_op` is the op that stands for it.
cairn_status crn_load_old_form(crn_loader *l, const char *stored_name, crn_block *block, crn_op *op, bool *out_handled);

#endif
