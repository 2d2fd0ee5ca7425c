#include "text/tokenizer/regex_set.h"

#include <string.h>

static const char SPACES[] = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
// Letters that are no letters by category but count as alphabetic: circled and squared ones.
static const char ALPHABETIC_SYMBOLS[] = "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
static const char LATIN_NUMBERS[] = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

void crn_regex_set_initialize(crn_regex_set *set, const cairn_allocator *allocator) {
  crn_str_initialize(&set->simple, allocator);
  crn_str_initialize(&set->others, allocator);
}

void crn_regex_set_deinitialize(crn_regex_set *set) {
  crn_str_deinitialize(&set->simple);
  crn_str_deinitialize(&set->others);
}

cairn_status crn_regex_put_code(crn_str *out, uint32_t code) {
  bool plain = (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
  return plain ? crn_str_putc(out, (char)code) : crn_str_printf(out, "\\x{%x}", (unsigned)code);
}

cairn_status crn_regex_set_range(crn_regex_set *set, uint32_t first, uint32_t last) {
  CRN_TRY(crn_regex_put_code(&set->simple, first));
  if (first == last) return CAIRN_OK;
  CRN_TRY(crn_str_putc(&set->simple, '-'));
  return crn_regex_put_code(&set->simple, last);
}

cairn_status crn_regex_set_other(crn_regex_set *set, const char *expression, size_t bytes) {
  CRN_TRY(crn_str_putc(&set->others, '|'));
  return crn_str_append(&set->others, expression, bytes);
}

cairn_status crn_regex_set_write(const crn_regex_set *set, bool negated, crn_str *out) {
  if (!set->others.size) return crn_str_printf(out, "[%s%s]", negated ? "^" : "", set->simple.data);
  CRN_TRY(crn_str_puts(out, negated ? "(?:(?!" : "(?:"));
  if (set->simple.size) {
    CRN_TRY(crn_str_printf(out, "[%s]%s", set->simple.data, set->others.data));
  } else {
    CRN_TRY(crn_str_puts(out, set->others.data + 1));
  }
  return crn_str_puts(out, negated ? ")(?s:.))" : ")");
}

// --- general categories --------------------------------------------------------------------------------------------------

/// Adds the additions of every category that starts with `category`.
static cairn_status put_additions(crn_str *out, const char *category) {
  for (size_t i = 0; i < crn_regex_n_additions; i++) {
    const crn_regex_addition *a = &crn_regex_additions[i];
    if (strncmp(a->category, category, strlen(category))) continue;
    CRN_TRY(crn_str_printf(out, a->first == a->last ? "\\x{%x}" : "\\x{%x}-\\x{%x}", (unsigned)a->first, (unsigned)a->last));
  }
  return CAIRN_OK;
}

static cairn_status put_growth(crn_str *out, const char *name) {
  for (size_t i = 0; i < crn_regex_n_growths; i++) {
    if (!strcmp(crn_regex_growths[i].name, name)) return crn_str_puts(out, crn_regex_growths[i].inside);
  }
  return CAIRN_OK;
}

/// Adds a set given as the inside of a class without what `minus` holds, or the opposite of that.
static cairn_status add_set(crn_regex_set *set, const crn_str *inside, const crn_str *minus, bool negated) {
  if (!negated && !minus->size) return crn_str_puts(&set->simple, inside->data);
  if (!negated) return crn_str_printf(&set->others, "|(?![%s])[%s]", minus->data, inside->data);
  if (minus->size) CRN_TRY(crn_str_puts(&set->simple, minus->data));
  return crn_str_printf(&set->others, "|[^%s]", inside->data);
}

static cairn_status add_category(crn_regex_set *set, const char *category, bool negated) {
  crn_str inside, minus;
  cairn_status status;
  crn_str_initialize(&inside, set->simple.allocator);
  crn_str_initialize(&minus, set->simple.allocator);
  CRN_TRY_GOTO(crn_str_printf(&inside, "\\p{%s}", category));
  if (!strcmp(category, "Cn")) {
    CRN_TRY_GOTO(put_additions(&minus, ""));
  } else if (!strcmp(category, "C")) {
    // A new control character stays in C; only the other additions leave it.
    for (const char *p = "LMNPSZ"; *p; p++) CRN_TRY_GOTO(put_additions(&minus, (char[2]){*p, 0}));
  } else {
    CRN_TRY_GOTO(put_additions(&inside, category));
  }
  // The one character whose category changed.
  if (!strcmp(category, "Mn")) CRN_TRY_GOTO(crn_str_puts(&minus, "\\x{1171e}"));
  CRN_TRY_GOTO(add_set(set, &inside, &minus, negated));
done:
  crn_str_deinitialize(&inside);
  crn_str_deinitialize(&minus);
  return status;
}

// --- named sets --------------------------------------------------------------------------------------------------------------

typedef enum named {
  N_SPACE,
  N_WORD,
  N_DIGIT,
  N_HEX,
  N_ALPHA,
  N_ALNUM,
  N_UPPER,
  N_LOWER,
  N_PUNCT,
  N_BLANK,
  N_CNTRL,
  N_GRAPH,
  N_PRINT,
  N_ASCII,
  N_ANY,
  N_ASSIGNED
} named;

/// Writes the inside of a class; graph and print are written as what they are not.
static cairn_status put_named(crn_str *out, named n, bool latin_numbers) {
  switch (n) {
    case N_SPACE:
      return crn_str_puts(out, SPACES);
    case N_WORD:
      CRN_TRY(crn_str_printf(out, "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}%s%s", ALPHABETIC_SYMBOLS, latin_numbers ? LATIN_NUMBERS : ""));
      CRN_TRY(put_additions(out, "L"));
      CRN_TRY(put_additions(out, "M"));
      return put_additions(out, "Nd");
    case N_DIGIT:
      CRN_TRY(crn_str_puts(out, "\\p{Nd}"));
      return put_additions(out, "Nd");
    case N_HEX:
      return crn_str_puts(out, "0-9A-Fa-f");
    case N_ALPHA:
    case N_ALNUM:
      CRN_TRY(crn_str_puts(out, "\\p{Alphabetic}"));
      CRN_TRY(put_additions(out, "L"));
      CRN_TRY(put_growth(out, "alphabetic"));
      return n == N_ALPHA ? CAIRN_OK : put_named(out, N_DIGIT, false);
    case N_UPPER:
      CRN_TRY(crn_str_puts(out, "\\p{Uppercase}"));
      return put_additions(out, "Lu");
    case N_LOWER:
      CRN_TRY(crn_str_puts(out, "\\p{Lowercase}"));
      CRN_TRY(put_growth(out, "lowercase"));
      return put_additions(out, "Ll");
    case N_PUNCT:
      CRN_TRY(crn_str_puts(out, "\\p{P}\\p{S}"));
      CRN_TRY(put_additions(out, "P"));
      return put_additions(out, "S");
    case N_BLANK:
      return crn_str_puts(out, "\\x{9}\\p{Zs}");
    case N_CNTRL:
      return crn_str_puts(out, "\\p{Cc}");
    case N_GRAPH:
      return crn_str_printf(out, "%s\\p{Cc}\\p{Cn}", SPACES);
    case N_PRINT:
      return crn_str_puts(out, "\\x{2028}\\x{2029}\\p{Cc}\\p{Cn}");
    case N_ASCII:
      return crn_str_puts(out, "\\x{0}-\\x{7f}");
    case N_ANY:
      return crn_str_puts(out, "\\x{0}-\\x{10ffff}");
    default:
      return crn_str_puts(out, "\\p{Cn}");
  }
}

static cairn_status add_named(crn_regex_set *set, named n, bool negated, bool latin_numbers) {
  bool inverse = n == N_GRAPH || n == N_PRINT || n == N_ASSIGNED;
  crn_str inside, minus;
  cairn_status status;
  crn_str_initialize(&inside, set->simple.allocator);
  crn_str_initialize(&minus, set->simple.allocator);
  CRN_TRY_GOTO(put_named(&inside, n, latin_numbers));
  if (inverse) CRN_TRY_GOTO(put_additions(&minus, ""));
  CRN_TRY_GOTO(add_set(set, &inside, &minus, negated != inverse));
done:
  crn_str_deinitialize(&inside);
  crn_str_deinitialize(&minus);
  return status;
}

cairn_status crn_regex_set_letter(crn_regex_set *set, char letter, bool in_brackets) {
  bool negated = letter < 'a';
  switch (letter | 0x20) {
    case 's':
      return add_named(set, N_SPACE, negated, false);
    case 'w':
      return add_named(set, N_WORD, negated, !in_brackets);
    case 'd':
      return add_named(set, N_DIGIT, negated, false);
    default:
      return add_named(set, N_HEX, negated, false);
  }
}

// Names are compared without case, blanks, underscores and hyphens.
static bool fold_name(const char *name, size_t bytes, char out[64]) {
  size_t n = 0;
  for (size_t i = 0; i < bytes; i++) {
    char c = name[i];
    if (c == ' ' || c == '_' || c == '-') continue;
    if (c >= 'A' && c <= 'Z') c = (char)(c + 32);
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) || n == 63) return false;
    out[n++] = c;
  }
  out[n] = 0;
  return n > 0;
}

static bool find_named(const char *name, bool posix, named *out) {
  static const char *const names[] = {"space", "word",  "digit", "xdigit", "alpha", "alnum", "upper", "lower",
                                      "punct", "blank", "cntrl", "graph",  "print", "ascii", "any",   "assigned"};
  size_t n = posix ? N_ANY : sizeof names / sizeof *names;
  for (size_t i = 0; i < n; i++) {
    if (!strcmp(name, names[i])) return *out = (named)i, true;
  }
  return false;
}

static const char *find_category(const char *name) {
  static const char *const names[][2] = {
      {"letter", "L"},
      {"uppercaseletter", "Lu"},
      {"lowercaseletter", "Ll"},
      {"titlecaseletter", "Lt"},
      {"modifierletter", "Lm"},
      {"otherletter", "Lo"},
      {"mark", "M"},
      {"combiningmark", "M"},
      {"nonspacingmark", "Mn"},
      {"spacingmark", "Mc"},
      {"enclosingmark", "Me"},
      {"number", "N"},
      {"decimalnumber", "Nd"},
      {"letternumber", "Nl"},
      {"othernumber", "No"},
      {"punctuation", "P"},
      {"connectorpunctuation", "Pc"},
      {"dashpunctuation", "Pd"},
      {"openpunctuation", "Ps"},
      {"closepunctuation", "Pe"},
      {"initialpunctuation", "Pi"},
      {"finalpunctuation", "Pf"},
      {"otherpunctuation", "Po"},
      {"punct", "P"},
      {"symbol", "S"},
      {"mathsymbol", "Sm"},
      {"currencysymbol", "Sc"},
      {"modifiersymbol", "Sk"},
      {"othersymbol", "So"},
      {"separator", "Z"},
      {"spaceseparator", "Zs"},
      {"lineseparator", "Zl"},
      {"paragraphseparator", "Zp"},
      {"other", "C"},
      {"control", "Cc"},
      {"format", "Cf"},
      {"unassigned", "Cn"},
      {"privateuse", "Co"},
      {"surrogate", "Cs"},
  };
  static const char *const shorts =
      " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Cn Co Cs ";
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!strcmp(name, names[i][0])) return names[i][1];
  }
  size_t n = strlen(name);
  for (const char *p = shorts; n <= 2 && *p; p++) {
    if (p[-(p > shorts)] == ' ' && (p[0] | 0x20) == name[0] && (n == 1 ? p[1] == ' ' : p[1] == name[1])) return p;
  }
  return NULL;
}

static bool is_binary_property(const char *name) {
  static const char *const names[] = {
      "whitespace",     "ideographic", "emoji",         "emojipresentation", "emojimodifier",         "emojimodifierbase",
      "emojicomponent", "math",        "dash",          "quotationmark",     "variationselector",     "extendedpictographic",
      "cased",          "radical",     "joincontrol",   "softdotted",        "noncharactercodepoint", "defaultignorablecodepoint",
      "patternsyntax",  "hexdigit",    "asciihexdigit", "regionalindicator", "patternwhitespace",     "unifiedideograph",
      "bidicontrol",
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!strcmp(name, names[i])) return true;
  }
  return false;
}

// A name that is no property either is taken for a script; PCRE2 refuses it when it is none.
static cairn_status add_foreign(crn_regex_set *set, const char *name, bool negated) {
  crn_str inside, minus;
  cairn_status status;
  crn_str_initialize(&inside, set->simple.allocator);
  crn_str_initialize(&minus, set->simple.allocator);
  CRN_TRY_GOTO(crn_str_printf(&inside, is_binary_property(name) ? "\\p{%s}" : "\\p{sc:%s}", name));
  CRN_TRY_GOTO(put_growth(&inside, name));
  CRN_TRY_GOTO(add_set(set, &inside, &minus, negated));
done:
  crn_str_deinitialize(&inside);
  crn_str_deinitialize(&minus);
  return status;
}

cairn_status crn_regex_set_property(crn_regex_set *set, const char *name, size_t bytes, bool negated, bool posix, bool in_brackets,
                                    const char *what) {
  char folded[64];
  named n;
  if (bytes && name[0] == '^') return crn_regex_set_property(set, name + 1, bytes - 1, !negated, posix, in_brackets, what);
  if (!fold_name(name, bytes, folded)) return CRN_FAIL(UNSUPPORTED, "%s: character property '%.*s' is not known", what, (int)bytes, name);
  if (!posix && !strcmp(folded, "alphabetic")) return add_named(set, N_ALPHA, negated, false);
  if (!posix && !strcmp(folded, "uppercase")) return add_named(set, N_UPPER, negated, false);
  if (!posix && !strcmp(folded, "lowercase")) return add_named(set, N_LOWER, negated, false);
  if ((posix || strcmp(folded, "punct")) && find_named(folded, posix, &n)) {
    return add_named(set, n, negated, n == N_WORD && !posix && !in_brackets);
  }
  if (posix) return CRN_FAIL(CORRUPT, "%s: '[:%s:]' is no POSIX class", what, folded);
  const char *category = find_category(folded);
  if (category) return add_category(set, (char[3]){category[0], category[1] == ' ' ? '\0' : category[1], 0}, negated);
  return add_foreign(set, folded, negated);
}
