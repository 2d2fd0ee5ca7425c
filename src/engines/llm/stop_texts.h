/// Stop texts in a stream: found across tokens, and never half given out.
#ifndef CRN_ENGINES_LLM_STOP_TEXTS_H
#define CRN_ENGINES_LLM_STOP_TEXTS_H

#include "base/str.h"

typedef struct crn_stop_texts {
  const char *const *texts;  ///< borrowed
  int n;
  crn_str pending;  ///< given in, not yet given out
} crn_stop_texts;

/// `texts` must outlive the object. Errors: INVALID_ARGUMENT (an empty stop text).
cairn_status crn_stop_texts_initialize(crn_stop_texts *s, const cairn_allocator *allocator, const char *const *texts, int n);
void crn_stop_texts_deinitialize(crn_stop_texts *s);

/// Takes more text and appends to `out` what is certain not to begin a stop text. `*out_match` is the stop text that was
/// met (the one complete first, the longest of several that end at one place), or -1. After a match nothing more may be pushed.
cairn_status crn_stop_texts_push(crn_stop_texts *s, const char *text, size_t bytes, crn_str *out, int *out_match);
/// Appends to `out` what was held back.
cairn_status crn_stop_texts_flush(crn_stop_texts *s, crn_str *out);

#endif
