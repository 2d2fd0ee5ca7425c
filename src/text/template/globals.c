/// Global functions.
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "text/template/methods.h"
#include "text/template/render.h"

// --- range ---------------------------------------------------------------------------------------------------------------------

// Jinja's sandbox refuses longer ranges.
enum { MAX_RANGE = 100000 };

static cairn_status call_range(tmpl_render *r, const tmpl_args *args, tmpl_value *out) {
  tmpl_value argv[TMPL_MAX_PARAMS];
  int64_t a, b, step;
  CRN_TRY(crn_tmpl_bind(r, "range()", "/ start stop step", 1, args, argv));
  CRN_TRY(crn_tmpl_arg_int(r, argv[0], 0, &a));
  CRN_TRY(crn_tmpl_arg_int(r, argv[1], 0, &b));
  CRN_TRY(crn_tmpl_arg_int(r, argv[2], 1, &step));
  if (step == 0) return crn_tmpl_fail(r, "range() arg 3 must not be zero");
  bool one = argv[1].type == TMPL_MISSING;
  int64_t start = one ? 0 : a, stop = one ? a : b;
  uint64_t span = 0, stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  if (step > 0 && stop > start) span = (uint64_t)stop - (uint64_t)start;
  if (step < 0 && start > stop) span = (uint64_t)start - (uint64_t)stop;
  uint64_t size = span ? (span - 1) / stride + 1 : 0;
  if (size > MAX_RANGE) return crn_tmpl_limit(r, "range() of more than %d items", MAX_RANGE);
  tmpl_range *range;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *range, &range));
  *range = (tmpl_range){.start = start, .stop = stop, .step = step, .size = (size_t)size};
  *out = (tmpl_value){.type = TMPL_RANGE, .range = range};
  return CAIRN_OK;
}

// --- dict and namespace ------------------------------------------------------------------------------------------------------------

static cairn_status add_pair(tmpl_render *r, tmpl_dict *d, tmpl_value pair, size_t at) {
  tmpl_items parts = {0};
  CRN_TRY(crn_tmpl_collect(r, pair, &parts));
  if (parts.used != 2) return crn_tmpl_fail(r, "dictionary update sequence element #%zu has length %zu; 2 is required", at, parts.used);
  return crn_tmpl_dict_set(r, d, parts.base[0], parts.base[1]);
}

// dict(mapping or pairs, **names)
static cairn_status fill_dict(tmpl_render *r, const char *what, const tmpl_args *args, tmpl_dict *d) {
  if (args->n_positional > 1) return crn_tmpl_fail(r, "%s expected at most 1 argument, got %zu", what, args->n_positional);
  if (args->n_positional) {
    tmpl_value from = args->positional[0];
    if (from.type == TMPL_UNDEFINED) return crn_tmpl_undefined_fail(r, from);
    if (from.type == TMPL_DICT) {
      for (size_t i = 0; i < from.dict->size; i++) CRN_TRY(crn_tmpl_dict_set(r, d, from.dict->items[i].key, from.dict->items[i].value));
    } else {
      tmpl_items pairs = {0};
      CRN_TRY(crn_tmpl_collect(r, from, &pairs));
      for (size_t i = 0; i < pairs.used; i++) CRN_TRY(add_pair(r, d, pairs.base[i], i));
    }
  }
  for (size_t i = 0; i < args->n_keywords; i++) CRN_TRY(crn_tmpl_dict_set(r, d, tmpl_string(args->names[i]), args->keywords[i]));
  return CAIRN_OK;
}

static cairn_status call_dict(tmpl_render *r, const tmpl_args *args, tmpl_value *out) {
  tmpl_dict *d;
  CRN_TRY(crn_tmpl_dict_make(r, &d));
  *out = (tmpl_value){.type = TMPL_DICT, .dict = d};
  return fill_dict(r, "dict", args, d);
}

static cairn_status call_namespace(tmpl_render *r, const tmpl_args *args, tmpl_value *out) {
  tmpl_dict *d;
  CRN_TRY(crn_tmpl_dict_make(r, &d));
  *out = (tmpl_value){.type = TMPL_NAMESPACE, .ns = d};
  return fill_dict(r, "namespace", args, d);
}

// --- helpers for output ---------------------------------------------------------------------------------------------------------------

static cairn_status call_cycler(tmpl_render *r, const tmpl_args *args, tmpl_value *out) {
  tmpl_cycler *cycler;
  tmpl_value items;
  if (args->n_keywords) return crn_tmpl_fail(r, "cycler() takes no keyword arguments");
  if (!args->n_positional) return crn_tmpl_fail(r, "at least one item has to be provided");
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *cycler, &cycler));
  CRN_TRY(crn_tmpl_list_copy(r, args->positional, args->n_positional, TMPL_TUPLE, &items));
  cycler->items = items.list;
  *out = (tmpl_value){.type = TMPL_CYCLER, .cycler = cycler};
  return CAIRN_OK;
}

static cairn_status call_joiner(tmpl_render *r, const tmpl_args *args, tmpl_value *out) {
  tmpl_value argv[TMPL_MAX_PARAMS];
  tmpl_joiner *joiner;
  CRN_TRY(crn_tmpl_bind(r, "joiner()", "sep", 0, args, argv));
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *joiner, &joiner));
  joiner->separator = argv[0];
  if (argv[0].type == TMPL_MISSING) CRN_TRY(crn_tmpl_str_borrow(r, ", ", 2, &joiner->separator));
  *out = (tmpl_value){.type = TMPL_JOINER, .joiner = joiner};
  return CAIRN_OK;
}

static cairn_status call_lipsum(tmpl_render *r, const tmpl_args *args, tmpl_value *out) {
  (void)args;
  (void)out;
  return crn_tmpl_fail(r, "lipsum() makes random text and is not supported");
}

static cairn_status call_raise(tmpl_render *r, const tmpl_args *args, tmpl_value *out) {
  tmpl_value argv[TMPL_MAX_PARAMS], text;
  (void)out;
  CRN_TRY(crn_tmpl_bind(r, "raise_exception()", "message", 1, args, argv));
  CRN_TRY(crn_tmpl_to_str(r, argv[0], &text));
  // The record holds about this much; a character is not cut in half.
  size_t n = text.s->size < 1000 ? text.s->size : 1000 - crn_utf8_incomplete_tail(text.s->data, 1000);
  return CRN_FAIL(INVALID_ARGUMENT, "%.*s", (int)n, text.s->data);
}

// --- time -----------------------------------------------------------------------------------------------------------------------------

// One directive of strftime, which starts at `format` with '%'. Returns its length.
static size_t directive_length(const char *format, size_t n) {
  size_t at = 1;
  while (at < n && strchr("-_0^#", format[at])) at++;
  while (at < n && format[at] >= '0' && format[at] <= '9') at++;
  if (at < n && (format[at] == 'E' || format[at] == 'O')) at++;
  return at < n ? at + 1 : n;
}

static cairn_status put_directive(tmpl_render *r, tmpl_buffer *b, const char *format, size_t n, const struct tm *tm, long microseconds) {
  char spec[16], text[256];
  char last = format[n - 1];
  // A longer one could only ask for a field so wide that it does not fit.
  if (n > 8) return crn_tmpl_fail(r, "invalid format in strftime_now()");
  // Python fills in the microseconds, and a time without a zone has no zone to print.
  if (n == 2 && last == 'f') {
    for (long unit = 100000; unit; unit /= 10) CRN_TRY(crn_tmpl_putc(r, b, (char)('0' + microseconds / unit % 10)));
    return CAIRN_OK;
  }
  if (n == 2 && (last == 'z' || last == 'Z')) return CAIRN_OK;
  memcpy(spec, format, n);
  spec[n] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  size_t size = strftime(text, sizeof text, spec, tm);
#pragma GCC diagnostic pop
  return crn_tmpl_put(r, b, text, size);
}

static cairn_status call_strftime(tmpl_render *r, const tmpl_args *args, tmpl_value *out) {
  tmpl_value argv[TMPL_MAX_PARAMS];
  const tmpl_str *format;
  struct timespec now;
  struct tm tm;
  tmpl_buffer b = {0};
  CRN_TRY(crn_tmpl_bind(r, "strftime_now()", "format", 1, args, argv));
  CRN_TRY(crn_tmpl_need_str(r, argv[0], &format));
  if (clock_gettime(CLOCK_REALTIME, &now) || !localtime_r(&now.tv_sec, &tm)) return crn_tmpl_fail(r, "the time is not known");
  for (size_t at = 0; at < format->size;) {
    const char *percent = memchr(format->data + at, '%', format->size - at);
    size_t plain = percent ? (size_t)(percent - format->data) : format->size;
    CRN_TRY(crn_tmpl_put(r, &b, format->data + at, plain - at));
    at = plain;
    if (!percent) break;
    size_t n = directive_length(percent, format->size - at);
    CRN_TRY(crn_tmpl_steps(r, 1));
    CRN_TRY(n == 1 ? crn_tmpl_putc(r, &b, '%') : put_directive(r, &b, percent, n, &tm, now.tv_nsec / 1000));
    at += n;
  }
  return crn_tmpl_str_finish(r, &b, out);
}

// --- table -----------------------------------------------------------------------------------------------------------------------------

static const tmpl_callable g_globals[] = {
    {"range", "<function safe_range at 0x7f0000000000>", call_range},
    {"dict", "<class 'dict'>", call_dict},
    {"namespace", "<class 'jinja2.utils.Namespace'>", call_namespace},
    {"cycler", "<class 'jinja2.utils.Cycler'>", call_cycler},
    {"joiner", "<class 'jinja2.utils.Joiner'>", call_joiner},
    {"lipsum", "<function generate_lorem_ipsum at 0x7f0000000000>", call_lipsum},
    {"raise_exception", "<function raise_exception at 0x7f0000000000>", call_raise},
    {"strftime_now", "<function strftime_now at 0x7f0000000000>", call_strftime},
};

const tmpl_callable *crn_tmpl_global_find(const tmpl_str *name) {
  for (size_t i = 0; i < sizeof g_globals / sizeof *g_globals; i++) {
    if (crn_tmpl_str_is(name, g_globals[i].name)) return &g_globals[i];
  }
  return NULL;
}
