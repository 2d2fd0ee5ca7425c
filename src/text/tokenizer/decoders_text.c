// Plain replacing and cleaning of decoded text.
#include <string.h>

#include "text/tokenizer/decoders.h"

static cairn_status insert_everywhere(crn_str *out, const char *text, size_t bytes, const char *to, size_t to_bytes) {
  for (size_t at = 0; at < bytes;) {
    size_t n = (size_t)crn_code_bytes((unsigned char)text[at]);
    CRN_TRY(crn_str_append(out, to, to_bytes));
    CRN_TRY(crn_str_append(out, text + at, n));
    CRN_TRY(crn_text_check_size(out->size));
    at += n;
  }
  return crn_str_append(out, to, to_bytes);
}

cairn_status crn_replace_all(crn_str *out, const char *text, size_t bytes, crn_view from, const char *to, size_t to_bytes) {
  if (!from.bytes) return insert_everywhere(out, text, bytes, to, to_bytes);
  const char *end = text + bytes;
  for (const char *p; (p = memmem(text, (size_t)(end - text), from.text, from.bytes)) != NULL; text = p + from.bytes) {
    CRN_TRY(crn_str_append(out, text, (size_t)(p - text)));
    CRN_TRY(crn_str_append(out, to, to_bytes));
    CRN_TRY(crn_text_check_size(out->size));
  }
  return crn_str_append(out, text, (size_t)(end - text));
}

cairn_status crn_replace_within(crn_str *in_out, crn_view from, const char *to, size_t to_bytes) {
  if (from.bytes && !memmem(in_out->data, in_out->size, from.text, from.bytes)) return CAIRN_OK;
  crn_str out;
  crn_str_initialize(&out, in_out->allocator);
  cairn_status status = crn_replace_all(&out, in_out->data, in_out->size, from, to, to_bytes);
  crn_str_deinitialize(in_out);
  *in_out = out;
  return status;
}

cairn_status crn_cleanup(crn_str *in_out) {
  static const char *const pairs[][2] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    crn_view from = {pairs[i][0], strlen(pairs[i][0])};
    CRN_TRY(crn_replace_within(in_out, from, pairs[i][1], strlen(pairs[i][1])));
  }
  return CAIRN_OK;
}
