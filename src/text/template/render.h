/// The state of one rendering and what the parts of the interpreter offer each other.
#ifndef CRN_TEXT_TEMPLATE_RENDER_H
#define CRN_TEXT_TEMPLATE_RENDER_H

#include <stdatomic.h>

#include "cairn/template.h"
#include "text/template/ast.h"

struct cairn_template {
  atomic_int references;
  cairn_context *context;
  crn_arena arena;
  tmpl_tree tree;
};

/// The variables of one call of a function. `captured` frames outlive their call because a macro refers to them.
typedef struct tmpl_frame tmpl_frame;
struct tmpl_frame {
  tmpl_frame *parent;
  tmpl_frame *next_free;
  int n_slots;
  bool captured;
  tmpl_value slots[];
};

typedef enum tmpl_flow { TMPL_FLOW_NEXT, TMPL_FLOW_BREAK, TMPL_FLOW_CONTINUE } tmpl_flow;

enum { TMPL_FREE_FRAMES = 16 };

struct tmpl_render {
  const tmpl_tree *tree;
  crn_arena arena;
  size_t max_memory, max_output;
  uint64_t steps_left;
  /// Two ways to be deep: statements and calls inside each other, which the caller limits, and the C stack, which is
  /// kept to a fixed multiple of that limit.
  int depth, max_depth;
  int stack, max_stack;
  int line;
  tmpl_buffer *out;
  tmpl_frame *frame;
  tmpl_frame *free_frames[TMPL_FREE_FRAMES];  ///< by number of slots
  const tmpl_dict *variables;
  tmpl_dict *exported;    ///< what the top level has set; blocks see it
  tmpl_value block_text;  ///< what the filter block being finished has printed
  tmpl_flow flow;
  uint64_t random;
};

struct tmpl_macro {
  const tmpl_function *function;
  tmpl_frame *frame;  ///< the one it was defined in
};

struct tmpl_loop {
  tmpl_iter iter;
  tmpl_value source;
  const tmpl_node *node;  ///< of a recursive loop, else NULL
  tmpl_frame *frame;      ///< the one a recursive loop was started in
  int64_t index0;
  int64_t depth0;
  bool has_length, has_after, has_changed;
  size_t length;
  tmpl_value after, current, before, changed;
};

/// Arguments of a call as they were given.
typedef struct tmpl_args {
  const tmpl_value *positional;
  size_t n_positional;
  const tmpl_str *const *names;
  const tmpl_value *keywords;
  size_t n_keywords;
} tmpl_args;

enum { TMPL_MAX_PARAMS = 8 };

typedef cairn_status (*tmpl_call_fn)(tmpl_render *r, const tmpl_args *args, tmpl_value *out);

struct tmpl_callable {
  const char *name, *printed;  ///< `printed`: what str() of it gives
  tmpl_call_fn call;
};

/// `argv` holds the bound arguments, MISSING where none was given; `all` is what the call gave.
typedef cairn_status (*tmpl_method_fn)(tmpl_render *r, tmpl_value self, const tmpl_value *argv, const tmpl_args *all, tmpl_value *out);

typedef struct tmpl_method_def {
  const char *name;
  tmpl_method_fn fn;
  const char *params;  ///< names separated by spaces; a leading "/" forbids to pass them by name; NULL: anything goes
  int n_required;
} tmpl_method_def;

struct tmpl_method {
  tmpl_value self;
  const tmpl_method_def *def;
};

// --- running ---------------------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_eval(tmpl_render *r, const tmpl_node *node, tmpl_value *out);
cairn_status crn_tmpl_exec_all(tmpl_render *r, const tmpl_nodes *nodes);
/// Assigns to a name, a tuple of names or an attribute of a namespace.
cairn_status crn_tmpl_assign(tmpl_render *r, const tmpl_node *target, tmpl_value v);
/// Runs `nodes` and gives what they print as a string.
cairn_status crn_tmpl_capture(tmpl_render *r, const tmpl_nodes *nodes, tmpl_value *out);
/// Runs a block of the template.
cairn_status crn_tmpl_run_block(tmpl_render *r, const tmpl_block *block);
/// Runs a recursive loop over `iterable` and gives its text.
cairn_status crn_tmpl_run_recursive_loop(tmpl_render *r, const tmpl_node *node, tmpl_frame *frame, tmpl_value iterable, int64_t depth0,
                                         tmpl_value *out);
cairn_status crn_tmpl_enter_scope(tmpl_render *r, const tmpl_scope *scope);
void crn_tmpl_leave_scope(tmpl_render *r, const tmpl_scope *scope);
cairn_status crn_tmpl_frame_push(tmpl_render *r, tmpl_frame *parent, int n_slots, tmpl_frame **out_previous);
void crn_tmpl_frame_pop(tmpl_render *r, tmpl_frame *previous);
tmpl_value *crn_tmpl_slot(tmpl_render *r, tmpl_ref ref);
/// One level of statements or calls deeper; undone with `r->depth--`. Errors: OUT_OF_RANGE.
cairn_status crn_tmpl_deeper(tmpl_render *r);

// --- calls -------------------------------------------------------------------------------------------------------------------

cairn_status crn_tmpl_eval_args(tmpl_render *r, const tmpl_call_args *args, tmpl_args *out);
cairn_status crn_tmpl_call(tmpl_render *r, tmpl_value callee, const tmpl_args *args, tmpl_value *out);
cairn_status crn_tmpl_call_macro(tmpl_render *r, const tmpl_macro *macro, const tmpl_args *args, tmpl_value *out);
/// Matches arguments with parameter names; `argv` has TMPL_MAX_PARAMS values.
cairn_status crn_tmpl_bind(tmpl_render *r, const char *what, const char *params, int n_required, const tmpl_args *args, tmpl_value *argv);
/// The keyword argument `name`; NULL when it was not given.
const tmpl_value *crn_tmpl_keyword(const tmpl_args *args, const char *name);

// --- members and operators -----------------------------------------------------------------------------------------------------

/// object.name
cairn_status crn_tmpl_attribute(tmpl_render *r, tmpl_value object, const tmpl_str *name, tmpl_value *out);
/// object.name without falling back to items; `*out_found` false when there is no such attribute.
cairn_status crn_tmpl_attribute_only(tmpl_render *r, tmpl_value object, const tmpl_str *name, tmpl_value *out, bool *out_found);
/// object[key]
cairn_status crn_tmpl_item(tmpl_render *r, tmpl_value object, tmpl_value key, tmpl_value *out);
/// object[start:stop:step]; NONE for parts left out.
cairn_status crn_tmpl_slice(tmpl_render *r, tmpl_value object, tmpl_value start, tmpl_value stop, tmpl_value step, tmpl_value *out);
cairn_status crn_tmpl_binary(tmpl_render *r, tmpl_op op, tmpl_value a, tmpl_value b, tmpl_value *out);
cairn_status crn_tmpl_negate(tmpl_render *r, tmpl_value v, bool minus, tmpl_value *out);
cairn_status crn_tmpl_compare(tmpl_render *r, tmpl_op op, tmpl_value a, tmpl_value b, bool *out);

/// The attribute of a value that is a method or a property; `*out_found` false when the type has none of that name.
cairn_status crn_tmpl_method_find(tmpl_render *r, tmpl_value object, const tmpl_str *name, tmpl_value *out, bool *out_found);
cairn_status crn_tmpl_loop_attribute(tmpl_render *r, tmpl_loop *loop, const tmpl_str *name, tmpl_value *out, bool *out_found);
cairn_status crn_tmpl_loop_length(tmpl_render *r, tmpl_loop *loop, size_t *out);
cairn_status crn_tmpl_loop_next(tmpl_render *r, tmpl_loop *loop, tmpl_value *out, bool *out_done);

/// The global function of that name; NULL when there is none.
const tmpl_callable *crn_tmpl_global_find(const tmpl_str *name);

// --- formatting -----------------------------------------------------------------------------------------------------------------

/// text % values
cairn_status crn_tmpl_format_percent(tmpl_render *r, const tmpl_str *format, tmpl_value values, tmpl_value *out);
/// format.format(*args, **kwargs); `mapping` (format_map) takes the place of the keyword arguments unless MISSING.
cairn_status crn_tmpl_format_braces(tmpl_render *r, const tmpl_str *format, const tmpl_args *args, tmpl_value mapping, tmpl_value *out);

typedef struct tmpl_json_options {
  bool ascii, sort_keys;
  const tmpl_str *indent;  ///< NULL: everything on one line
  const char *item_separator, *key_separator;
  size_t item_separator_size, key_separator_size;
} tmpl_json_options;

/// Appends json.dumps(v).
cairn_status crn_tmpl_put_json(tmpl_render *r, tmpl_buffer *b, tmpl_value v, const tmpl_json_options *options);
/// Reads the variables of a rendering.
cairn_status crn_tmpl_read_variables(tmpl_render *r, const char *json, size_t size, tmpl_dict **out);

#endif
