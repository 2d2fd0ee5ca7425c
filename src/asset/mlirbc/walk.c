#include "asset/mlirbc/module.h"

// The nesting of regions is bounded by the reader, and so is this recursion.
cairn_status crn_bc_walk(crn_bc_module *m, const crn_bc_op *op, bool bodies, cairn_status (*visit)(void *user, const crn_bc_op *op),
                         void *user) {
  if (!bodies && crn_bc_op_has_decomposition_body(op)) return CAIRN_OK;
  const crn_bc_region *regions;
  CRN_TRY(crn_bc_op_regions(m, op, &regions));
  for (uint32_t i = 0; i < op->n_regions; i++) {
    for (uint32_t k = 0; k < regions[i].n_blocks; k++) {
      const crn_bc_block *block = regions[i].blocks[k];
      for (uint32_t j = 0; j < block->n_ops; j++) {
        CRN_TRY(visit(user, block->ops[j]));
        CRN_TRY(crn_bc_walk(m, block->ops[j], bodies, visit, user));
      }
    }
  }
  return CAIRN_OK;
}
