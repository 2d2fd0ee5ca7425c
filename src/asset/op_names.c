#include "asset/op_names.h"

#include <stdlib.h>
#include <string.h>

static const crn_op_name k_rows[] = {
#define OP_NAME(stored, memory) {stored, memory, false},
#define OP_NAME_BODY(stored, memory) {stored, memory, true},
#include "asset/op_names.def"
#undef OP_NAME
#undef OP_NAME_BODY
};

enum { N_ROWS = sizeof k_rows / sizeof *k_rows };

static int compare(const void *key, const void *row) { return strcmp(key, ((const crn_op_name *)row)->stored); }

const crn_op_name *crn_find_op_name(const char *stored) { return bsearch(stored, k_rows, N_ROWS, sizeof *k_rows, compare); }

int crn_op_name_count(void) { return N_ROWS; }

const crn_op_name *crn_op_name_at(int i) { return i >= 0 && i < N_ROWS ? &k_rows[i] : NULL; }
