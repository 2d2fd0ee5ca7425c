/// Printing the stored program: output in pieces, and the text form of attributes and types.
#ifndef CRN_ASSET_PRINT_PRINTER_H
#define CRN_ASSET_PRINT_PRINTER_H

#include "asset/mlirbc/module.h"
#include "cairn/asset.h"

/// Collects text and hands it on in pieces. The first failure is kept in `status`; from then on nothing is written.
typedef struct crn_printer {
  crn_bc_module *module;
  const cairn_print_options *options;
  cairn_status (*write)(void *user, const char *text, size_t bytes);
  void *user;
  cairn_status status;
  uint64_t n_values;  ///< values numbered so far
  uint64_t budget;    ///< records that may still be written out
  size_t used;
  char buffer[8192];
} crn_printer;

void crn_print_bytes(crn_printer *p, const void *text, size_t n);
void crn_print_text(crn_printer *p, const char *text);
void crn_print_flush(crn_printer *p);
void crn_print_unsigned(crn_printer *p, uint64_t v);
void crn_print_signed(crn_printer *p, int64_t v);

// numbers.c
/// An integer of `width` bits given as 64-bit words, lowest first.
void crn_print_wide(crn_printer *p, const uint64_t *words, uint32_t n_words, uint64_t width, bool is_unsigned);
/// A float in the shortest of three forms that gives the same bits again: six digits, more digits, hexadecimal bits.
void crn_print_float(crn_printer *p, uint64_t bits, uint64_t width);
void crn_print_base64(crn_printer *p, const unsigned char *data, size_t bytes);

// text.c
/// Records may share parts, so their text can be far larger than the file; a printer refuses more than its budget.
void crn_print_attr(crn_printer *p, const crn_bc_attr *a);
void crn_print_type(crn_printer *p, const crn_bc_type *t);

#endif
