/// Inside of the post-processors.
#ifndef CRN_TEXT_TOKENIZER_POSTPROCESS_H
#define CRN_TEXT_TOKENIZER_POSTPROCESS_H

#include "text/tokenizer/internal.h"

typedef enum crn_processor_kind {
  CRN_PROCESSOR_TEMPLATE,
  CRN_PROCESSOR_BERT,
  CRN_PROCESSOR_ROBERTA,
  CRN_PROCESSOR_BYTE_LEVEL,  ///< trims offsets only, so ids pass through
} crn_processor_kind;

/// One part of a template: a text (0 or 1) or special tokens (sequence -1).
typedef struct crn_template_part {
  int sequence;
  int32_t type;
  const int32_t *ids;
  size_t n_ids;
} crn_template_part;

struct crn_processor {
  crn_processor_kind kind;
  int32_t cls, sep;               ///< BERT, RoBERTa
  bool trim_offsets, add_prefix;  ///< RoBERTa, byte-level: white space is not part of a token's place
  crn_template_part *single, *pair;
  size_t n_single, n_pair, single_added, pair_added;
};

#endif
