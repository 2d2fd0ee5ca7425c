/// Values of a template: the part of Python's data model that a chat template can see.
///
/// All values of one rendering live in its arena; nothing is freed piecemeal and, apart from namespaces, loops, cyclers
/// and joiners, nothing is changed once made. Constants of a compiled template live in the template's arena and are
/// shared by all threads, so code must never write through a string, list or dict it did not just make.
#ifndef CRN_TEXT_TEMPLATE_VALUE_H
#define CRN_TEXT_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

typedef enum tmpl_type {
  TMPL_MISSING,    ///< no value at all: an unset slot or an argument that was not given; never seen by a template
  TMPL_UNDEFINED,  ///< Jinja's Undefined
  TMPL_NONE,
  TMPL_BOOL,
  TMPL_INT,
  TMPL_FLOAT,
  TMPL_STRING,
  TMPL_LIST,
  TMPL_TUPLE,
  TMPL_DICT,
  TMPL_RANGE,
  TMPL_VIEW,      ///< dict.keys(), dict.values(), dict.items()
  TMPL_ITERATOR,  ///< a generator: consumed by the first who iterates
  TMPL_NAMESPACE,
  TMPL_MACRO,
  TMPL_LOOP,
  TMPL_CYCLER,
  TMPL_JOINER,
  TMPL_METHOD,    ///< a method bound to its object
  TMPL_FUNCTION,  ///< a global function
  TMPL_BLOCK,     ///< self.name of a {% block name %}
} tmpl_type;

typedef struct tmpl_render tmpl_render;
typedef struct tmpl_str tmpl_str;
typedef struct tmpl_list tmpl_list;
typedef struct tmpl_dict tmpl_dict;
typedef struct tmpl_undef tmpl_undef;
typedef struct tmpl_range tmpl_range;
typedef struct tmpl_view tmpl_view;
typedef struct tmpl_iter tmpl_iter;
typedef struct tmpl_macro tmpl_macro;
typedef struct tmpl_loop tmpl_loop;
typedef struct tmpl_cycler tmpl_cycler;
typedef struct tmpl_joiner tmpl_joiner;
typedef struct tmpl_method tmpl_method;
typedef struct tmpl_callable tmpl_callable;

typedef struct tmpl_value {
  tmpl_type type;
  union {
    bool b;
    int64_t i;
    double d;
    const tmpl_str *s;
    const tmpl_list *list;  ///< list and tuple
    const tmpl_dict *dict;
    const tmpl_undef *undef;
    const tmpl_range *range;
    const tmpl_view *view;
    tmpl_iter *iter;
    tmpl_dict *ns;
    const tmpl_macro *macro;
    tmpl_loop *loop;
    tmpl_cycler *cycler;
    tmpl_joiner *joiner;
    const tmpl_method *method;
    const tmpl_callable *function;
    const void *block;
  };
} tmpl_value;

/// Text under construction, in the arena. A finished string may keep its buffer: appending to the string that ends
/// where the buffer ends extends the buffer in place, which makes building a text piece by piece linear.
typedef struct tmpl_buffer {
  char *base;
  size_t used, capacity;
} tmpl_buffer;

#define TMPL_CHARS_UNKNOWN SIZE_MAX

struct tmpl_str {
  const char *data;  ///< UTF-8, not NUL-terminated
  size_t size;
  size_t chars;         ///< code points; TMPL_CHARS_UNKNOWN until somebody asks
  tmpl_buffer *buffer;  ///< may be NULL
  bool markup;          ///< marked as safe HTML (markupsafe.Markup)
};

typedef struct tmpl_items {
  tmpl_value *base;
  size_t used, capacity;
} tmpl_items;

struct tmpl_list {
  const tmpl_value *items;
  size_t size;
  tmpl_items *buffer;  ///< as for strings; may be NULL
  bool group;          ///< a tuple made by the groupby filter: has .grouper and .list
};

typedef struct tmpl_pair {
  tmpl_value key, value;
  uint64_t hash;
} tmpl_pair;

/// Keeps the order of insertion. Small dicts are searched; larger ones have an index.
struct tmpl_dict {
  tmpl_pair *items;
  size_t size, capacity;
  uint32_t *index;  ///< position + 1, or 0; NULL while small
  size_t n_index;
};

struct tmpl_undef {
  const char *hint;  ///< the whole message, or NULL: made from object and name
  tmpl_value object, name;
  bool has_object;
};

struct tmpl_range {
  int64_t start, stop, step;
  size_t size;
};

typedef enum tmpl_view_kind { TMPL_VIEW_KEYS, TMPL_VIEW_VALUES, TMPL_VIEW_ITEMS } tmpl_view_kind;

struct tmpl_view {
  const tmpl_dict *dict;
  tmpl_view_kind kind;
};

/// One step of an iteration. At the end `*out_done` becomes true and `*out` is left alone.
typedef cairn_status (*tmpl_next_fn)(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done);

struct tmpl_iter {
  tmpl_next_fn next;
  const char *type_name;  ///< Python's name of the type, for messages and printing
  const char *name;       ///< of the function a generator belongs to; NULL for other iterators
  tmpl_value source;
  size_t at;
  void *state;  ///< of generators
  bool done;
};

struct tmpl_cycler {
  const tmpl_list *items;
  size_t at;
};

struct tmpl_joiner {
  tmpl_value separator;
  bool used;
};

static inline tmpl_value tmpl_none(void) { return (tmpl_value){.type = TMPL_NONE}; }
static inline tmpl_value tmpl_missing(void) { return (tmpl_value){.type = TMPL_MISSING}; }
static inline tmpl_value tmpl_bool(bool b) { return (tmpl_value){.type = TMPL_BOOL, .b = b}; }
static inline tmpl_value tmpl_int(int64_t i) { return (tmpl_value){.type = TMPL_INT, .i = i}; }
static inline tmpl_value tmpl_float(double d) { return (tmpl_value){.type = TMPL_FLOAT, .d = d}; }
static inline tmpl_value tmpl_string(const tmpl_str *s) { return (tmpl_value){.type = TMPL_STRING, .s = s}; }
static inline bool tmpl_is_number(tmpl_value v) { return v.type == TMPL_BOOL || v.type == TMPL_INT || v.type == TMPL_FLOAT; }
static inline bool tmpl_is_integral(tmpl_value v) { return v.type == TMPL_BOOL || v.type == TMPL_INT; }
static inline int64_t tmpl_as_int(tmpl_value v) { return v.type == TMPL_BOOL ? v.b : v.i; }
static inline double tmpl_as_double(tmpl_value v) { return v.type == TMPL_FLOAT ? v.d : (double)tmpl_as_int(v); }
static inline bool tmpl_is_sequence(tmpl_value v) { return v.type == TMPL_LIST || v.type == TMPL_TUPLE; }

/// Python's name of the type: "str", "dict", "NoneType", …
const char *crn_tmpl_type_name(tmpl_value v);

// --- memory and budget -------------------------------------------------------------------------------------------------

/// Cleared memory of the rendering. Errors: OUT_OF_RANGE when the rendering's memory is used up, OUT_OF_MEMORY.
cairn_status crn_tmpl_alloc(tmpl_render *r, size_t count, size_t size, void *out_pointer);
/// Counts work of `bytes` bytes against the step limit. Errors: OUT_OF_RANGE.
cairn_status crn_tmpl_work(tmpl_render *r, size_t bytes);
/// Counts `n` steps. Errors: OUT_OF_RANGE.
cairn_status crn_tmpl_steps(tmpl_render *r, uint64_t n);
/// An operation the values do not allow: FAILED_PRECONDITION with template name and line.
cairn_status crn_tmpl_fail(tmpl_render *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/// A limit was reached: OUT_OF_RANGE with template name and line.
cairn_status crn_tmpl_limit(tmpl_render *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// --- text ----------------------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_put(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n);
cairn_status crn_tmpl_puts(tmpl_render *r, tmpl_buffer *b, const char *text);
cairn_status crn_tmpl_putc(tmpl_render *r, tmpl_buffer *b, char c);
cairn_status crn_tmpl_put_code(tmpl_render *r, tmpl_buffer *b, uint32_t code);
cairn_status crn_tmpl_put_repeated(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n, size_t count);

/// A string that owns what the buffer holds.
cairn_status crn_tmpl_str_finish(tmpl_render *r, tmpl_buffer *b, tmpl_value *out);
cairn_status crn_tmpl_str_copy(tmpl_render *r, const char *text, size_t n, tmpl_value *out);
/// A string on text that outlives the rendering (a literal) or already lives in its arena.
cairn_status crn_tmpl_str_borrow(tmpl_render *r, const char *text, size_t n, tmpl_value *out);
/// Bytes [from, to) of `s`, sharing its text and keeping its markup flag.
cairn_status crn_tmpl_str_part(tmpl_render *r, const tmpl_str *s, size_t from, size_t to, tmpl_value *out);
/// `s` with the markup flag set as asked.
cairn_status crn_tmpl_str_mark(tmpl_render *r, const tmpl_str *s, bool markup, tmpl_value *out);
cairn_status crn_tmpl_str_concat(tmpl_render *r, const tmpl_str *a, const tmpl_str *b, tmpl_value *out);

/// Number of code points.
size_t crn_tmpl_str_chars(const tmpl_str *s);
/// Byte offset of code point `at` (at most chars).
size_t crn_tmpl_str_offset(const tmpl_str *s, size_t at);
bool crn_tmpl_str_is(const tmpl_str *s, const char *text);
bool crn_tmpl_str_equal(const tmpl_str *a, const tmpl_str *b);
/// Position of `needle` in [from, size), or SIZE_MAX.
size_t crn_tmpl_find(const char *text, size_t size, size_t from, const char *needle, size_t n);

// --- containers ------------------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_items_push(tmpl_render *r, tmpl_items *items, tmpl_value v);
/// A list or tuple of what `items` holds.
cairn_status crn_tmpl_list_finish(tmpl_render *r, tmpl_items *items, tmpl_type type, tmpl_value *out);
cairn_status crn_tmpl_list_copy(tmpl_render *r, const tmpl_value *values, size_t n, tmpl_type type, tmpl_value *out);
cairn_status crn_tmpl_list_concat(tmpl_render *r, tmpl_value a, tmpl_value b, tmpl_value *out);
cairn_status crn_tmpl_pair_tuple(tmpl_render *r, tmpl_value a, tmpl_value b, tmpl_value *out);

cairn_status crn_tmpl_dict_make(tmpl_render *r, tmpl_dict **out);
/// Adds or replaces. Errors: FAILED_PRECONDITION for a key that cannot be hashed.
cairn_status crn_tmpl_dict_set(tmpl_render *r, tmpl_dict *d, tmpl_value key, tmpl_value value);
/// NULL when absent or when the key cannot be hashed.
const tmpl_pair *crn_tmpl_dict_find(const tmpl_dict *d, tmpl_value key);
const tmpl_pair *crn_tmpl_dict_find_str(const tmpl_dict *d, const tmpl_str *key);
/// False for values Python cannot hash.
bool crn_tmpl_hash(tmpl_value v, uint64_t *out_hash);

cairn_status crn_tmpl_undefined(tmpl_render *r, const char *hint, tmpl_value *out);
/// Undefined because variable `name` has no value.
cairn_status crn_tmpl_undefined_name(tmpl_render *r, const tmpl_str *name, tmpl_value *out);
/// Undefined because `object` has no `name`.
cairn_status crn_tmpl_undefined_member(tmpl_render *r, tmpl_value object, tmpl_value name, tmpl_value *out);
/// Fails with the message of an undefined value that is used where none is allowed.
cairn_status crn_tmpl_undefined_fail(tmpl_render *r, tmpl_value v);

// --- Python's protocols -------------------------------------------------------------------------------------------------------

bool crn_tmpl_truth(tmpl_value v);
/// True for values that have a length.
bool crn_tmpl_is_sized(tmpl_value v);
/// len(). Errors: FAILED_PRECONDITION when the value has none.
cairn_status crn_tmpl_length(tmpl_render *r, tmpl_value v, size_t *out_length);
cairn_status crn_tmpl_equal(tmpl_render *r, tmpl_value a, tmpl_value b, bool *out_equal);
/// a < b. Errors: FAILED_PRECONDITION when the types have no order.
cairn_status crn_tmpl_less(tmpl_render *r, tmpl_value a, tmpl_value b, const char *op, bool *out_less);
cairn_status crn_tmpl_contains(tmpl_render *r, tmpl_value container, tmpl_value item, bool *out_found);
bool crn_tmpl_same(tmpl_value a, tmpl_value b);

/// Appends str(v) or repr(v).
cairn_status crn_tmpl_put_str(tmpl_render *r, tmpl_buffer *b, tmpl_value v);
cairn_status crn_tmpl_put_repr(tmpl_render *r, tmpl_buffer *b, tmpl_value v);
/// Appends the repr of a text.
cairn_status crn_tmpl_put_quoted(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n, bool ascii);
/// str(v): the value itself when it is a plain string already.
cairn_status crn_tmpl_to_str(tmpl_render *r, tmpl_value v, tmpl_value *out);
/// As crn_tmpl_to_str, keeping markup (markupsafe.soft_str).
cairn_status crn_tmpl_soft_str(tmpl_render *r, tmpl_value v, tmpl_value *out);

/// Starts an iteration over `v` in caller-provided memory. Errors: FAILED_PRECONDITION when it cannot be iterated.
cairn_status crn_tmpl_iter_start(tmpl_render *r, tmpl_value v, tmpl_iter *out);
bool crn_tmpl_is_iterable(tmpl_value v);
/// One step, counted.
cairn_status crn_tmpl_iter_next(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done);
/// Everything an iteration over `v` gives, appended to `items`.
cairn_status crn_tmpl_collect(tmpl_render *r, tmpl_value v, tmpl_items *items);
/// An iterator value.
cairn_status crn_tmpl_iter_make(tmpl_render *r, tmpl_next_fn next, const char *type_name, tmpl_value source, void *state, tmpl_value *out);
/// A generator value; `name` is what Python calls the function.
cairn_status crn_tmpl_generator_make(tmpl_render *r, tmpl_next_fn next, const char *name, tmpl_value source, void *state, tmpl_value *out);
/// reversed(v); `*out_ok` false when the type has no reverse order.
cairn_status crn_tmpl_reversed(tmpl_render *r, tmpl_value v, tmpl_value *out, bool *out_ok);
/// Item `at` (below the length) of a list, tuple, string or range.
cairn_status crn_tmpl_item_at(tmpl_render *r, tmpl_value v, size_t at, tmpl_value *out);

#endif
