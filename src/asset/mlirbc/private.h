/// Inside of a crn_bc_module, shared by the files of this folder only.
#ifndef CRN_ASSET_MLIRBC_PRIVATE_H
#define CRN_ASSET_MLIRBC_PRIVATE_H

#include "asset/mlirbc/cursor.h"
#include "asset/mlirbc/module.h"

enum {
  CRN_BC_N_SECTIONS = 9,
  CRN_BC_MAX_HEIGHT = 100,         ///< nesting of attributes and types in each other
  CRN_BC_MAX_DEPTH = 128,          ///< nesting of regions in each other
  CRN_BC_MAX_INTEGER_BITS = 8192,  ///< of one integer attribute
  CRN_BC_MAX_PROPERTIES = 9,       ///< of one operation
};

enum {
  CRN_BC_SECTION_STRINGS = 0,
  CRN_BC_SECTION_DIALECTS = 1,
  CRN_BC_SECTION_RECORDS = 2,
  CRN_BC_SECTION_RECORD_OFFSETS = 3,
  CRN_BC_SECTION_IR = 4,
  CRN_BC_SECTION_RESOURCES = 5,
  CRN_BC_SECTION_RESOURCE_OFFSETS = 6,
  CRN_BC_SECTION_DIALECT_VERSION = 7,
  CRN_BC_SECTION_PROPERTIES = 8,
};

typedef enum crn_bc_dialect_kind { CRN_BC_DIALECT_OTHER, CRN_BC_DIALECT_AICODE, CRN_BC_DIALECT_BUILTIN } crn_bc_dialect_kind;

typedef struct crn_bc_dialect {
  const char *name;
  crn_bc_dialect_kind kind;
} crn_bc_dialect;

/// The property record of an operation, a row of op_properties.def.
typedef struct crn_bc_property_layout {
  const char *op;
  struct {
    const char *name;  ///< NULL behind the last
    bool optional;
  } fields[CRN_BC_MAX_PROPERTIES + 1];
} crn_bc_property_layout;

typedef struct crn_bc_op_name {
  const char *dialect, *name;
  const crn_bc_property_layout *layout;  ///< NULL: the operation has no properties
  bool known, has_body;                  ///< listed in op_names.def; OP_NAME_BODY
} crn_bc_op_name;

/// An attribute or type of the file. `decoded` is a crn_bc_attr or a crn_bc_type: both have the same members.
typedef struct crn_bc_entry {
  size_t offset, bytes;
  const crn_bc_attr *decoded;
  uint32_t weight;  ///< nodes of the record written out as a tree, saturating
  uint16_t height;  ///< longest chain of records below, itself included
  uint8_t dialect;
  bool custom, in_progress;
} crn_bc_entry;

typedef struct crn_bc_span {
  size_t offset, bytes;
} crn_bc_span;

/// An operation with what only the reader needs.
typedef struct crn_bc_op_record {
  crn_bc_op op;
  const crn_bc_op_name *name;
  uint32_t depth;  ///< of the block it stands in
  bool decoded;    ///< its regions are there
} crn_bc_op_record;

struct crn_bc_module {
  crn_arena arena;
  const unsigned char *data;
  size_t bytes;
  int version;
  const char *producer;
  crn_bc_cursor sections[CRN_BC_N_SECTIONS];
  bool present[CRN_BC_N_SECTIONS];
  uint32_t n_strings, n_dialects, n_op_names, n_attrs, n_types, n_resources, n_properties;
  crn_bc_text *strings;
  crn_bc_dialect *dialects;
  crn_bc_op_name *op_names;
  crn_bc_entry *attrs, *types;
  crn_bc_resource *resources;
  crn_bc_span *properties;
  const crn_bc_op *top;
};

// tables.c
cairn_status crn_bc_read_tables(crn_bc_module *m);
cairn_status crn_bc_read_resources(crn_bc_module *m);
cairn_status crn_bc_read_string(crn_bc_module *m, crn_bc_cursor *c, crn_bc_text *out_text);

// records.c
cairn_status crn_bc_decode_attr(crn_bc_module *m, uint32_t index, const crn_bc_attr **out_attr);
cairn_status crn_bc_decode_type(crn_bc_module *m, uint32_t index, const crn_bc_type **out_type);
cairn_status crn_bc_read_attr(crn_bc_module *m, crn_bc_cursor *c, const crn_bc_attr **out_attr);
cairn_status crn_bc_read_type(crn_bc_module *m, crn_bc_cursor *c, const crn_bc_type **out_type);

// properties.c
const crn_bc_property_layout *crn_bc_find_layout(const char *op_name);
cairn_status crn_bc_decode_properties(crn_bc_module *m, const crn_bc_op_name *name, uint32_t index, crn_bc_op *op);
cairn_status crn_bc_append_dictionary(crn_bc_module *m, const crn_bc_attr *dictionary, crn_bc_op *op);

// ir.c
cairn_status crn_bc_read_top(crn_bc_module *m);

#endif
