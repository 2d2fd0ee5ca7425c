/// The parts of cairn inspect.
#ifndef CRN_TOOLS_INSPECT_H
#define CRN_TOOLS_INSPECT_H

#include "tools/contract.h"
#include "tools/describe.h"
#include "tools/json_writer.h"
#include "tools/source.h"

typedef struct crn_inspect_options {
  bool json, ops, weights, ir, bodies, locations, large_data, plan;
  const char *component, *precision, *save_contract, *expect;
} crn_inspect_options;

/// An asset, or a bundle with its assets. Prints and returns an exit code.
int crn_inspect_assets(crn_tool *t, const crn_source *source, const crn_inspect_options *o);
/// A file an importer reads.
int crn_inspect_import(crn_tool *t, const crn_source *source, const crn_inspect_options *o);

/// --plan. Prints and returns an exit code.
int crn_inspect_plan(crn_tool *t, const crn_source *source, const crn_inspect_options *o);

/// --save-contract and --expect. Returns TOOL_CONTINUE when neither was asked for, else an exit code; with --json the
/// result is the document {"contract":{"matches","differences"}}.
int crn_inspect_contract(crn_tool *t, const crn_inspect_options *o, const crn_contract_part *parts, int n_parts);

#endif
