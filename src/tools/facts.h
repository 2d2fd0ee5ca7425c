/// What cairn inspect tells about one asset, gathered once and shown as text or JSON.
#ifndef CRN_TOOLS_FACTS_H
#define CRN_TOOLS_FACTS_H

#include "base/vec.h"
#include "cairn/asset.h"
#include "tools/contract.h"
#include "tools/json_writer.h"
#include "tools/tool.h"

typedef struct crn_op_count {
  const char *name;
  int64_t count;
} crn_op_count;

typedef struct crn_weight_group {
  int64_t n_arrays, n_elements;
  uint64_t stored_bytes;
} crn_weight_group;

typedef struct crn_asset_facts {
  cairn_asset *asset;
  const char *role;  ///< in a bundle, else NULL
  const char *path;
  CRN_VEC(crn_op_count) ops;
  CRN_VEC(cairn_weight_info) weights;
  const cairn_function_info **functions;
  int n_functions;
  crn_weight_group groups[CAIRN_DTYPE_COUNT], total;
} crn_asset_facts;

/// Opens the asset at `path` and gathers. Texts that do not belong to the asset are kept in the tool's arena.
cairn_status crn_facts_open(crn_tool *t, const char *path, const char *role, crn_asset_facts *out_facts);
void crn_facts_close(crn_asset_facts *facts);

typedef struct crn_facts_style {
  bool all_ops;      ///< every kind of operation instead of the most frequent ones
  bool all_weights;  ///< every stored array
} crn_facts_style;

/// Readable lines on stdout.
cairn_status crn_facts_print(const crn_asset_facts *facts, crn_facts_style style);

/// Members of the open object: functions, metadata, ops, weights, hash, version_stamp, warnings.
void crn_facts_write(crn_json_writer *w, const crn_asset_facts *facts, crn_facts_style style);
/// {"coreai.add":3,…} and the metadata as JSON, alone.
void crn_facts_write_ops(crn_json_writer *w, const crn_asset_facts *facts);
/// `text` as a JSON value on one line; null when it is no JSON.
void crn_write_json_text(crn_json_writer *w, const char *text);

/// The asset as a part of a contract; borrowed from `facts`.
crn_contract_part crn_facts_contract(const crn_asset_facts *facts);

#endif
