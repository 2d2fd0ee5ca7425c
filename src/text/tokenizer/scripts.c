// The UnicodeScripts step: a text is cut where the script changes.
#include "text/tokenizer/pretokenizers.h"
#include "text/tokenizer/script_tables.h"

/// -1 = none: spaces and characters no script has.
static int script_of(uint32_t code) {
  size_t low = 0, high = crn_n_script_ranges;
  if (code == ' ') return -1;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (crn_script_ranges[mid].last < code) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low < crn_n_script_ranges && crn_script_ranges[low].first <= code ? crn_script_ranges[low].script : -1;
}

static cairn_status add_match(crn_run *run, size_t begin, size_t end, bool dropped) {
  return begin < end ? crn_vec_push(run->allocator, &run->matches, ((crn_match){begin, end, dropped})) : CAIRN_OK;
}

// Characters without a script stay with what stands before them; at the very front they are dropped, as the reference does.
cairn_status crn_match_scripts(crn_run *run, crn_piece piece) {
  const char *text = run->text.bytes.data;
  size_t begin = piece.begin;
  int last = -1;
  run->matches.size = 0;
  for (size_t at = piece.begin; at < piece.end;) {
    uint32_t code;
    int n = crn_code_at(text + at, &code), script = script_of(code);
    if (script >= 0 && script != last) {
      CRN_TRY(add_match(run, begin, at, last < 0));
      begin = at;
      last = script;
    }
    at += (size_t)n;
  }
  return add_match(run, begin, piece.end, last < 0);
}
