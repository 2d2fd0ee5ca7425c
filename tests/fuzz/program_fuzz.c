/// Random programs, made with the builder from the bytes:
///  - as they are, with inputs turned into constants that are folded, with broadcasting ops taken apart, by bodies instead of direct
///    kernels and with another number of threads they give the same results (bit for bit; composites within a tolerance) or fail alike;
///  - broken in a way that cannot be valid, the verifier refuses them;
///  - broken anyhow, they are refused or run without harm.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "execute/model.h"
#include "program/print.h"
#include "program/verify.h"
#include "program_fuzz_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

fuzz_counts g_fuzz_counts;

static void die(const char *what, const char *where) {
  char text[512];
  cairn_last_error_text(text, sizeof text);
  fprintf(stderr, "program_fuzz: %s (%s): %s\n", what, where, text);
  abort();
}

static cairn_context *context_of(int n_threads) {
  static cairn_context *contexts[3];
  if (contexts[n_threads]) return contexts[n_threads];
  cairn_context_options options;
  cairn_context_options_initialize(&options);
  options.n_threads = n_threads;
  if (cairn_context_create(&options, &contexts[n_threads]) != CAIRN_OK) abort();
  return contexts[n_threads];
}

// --- running -----------------------------------------------------------------------------------------------------------------

typedef struct outcome {
  cairn_status status;
  int n;
  cairn_ndarray *arrays[FUZZ_MAX_OUTPUTS];
} outcome;

static cairn_status make_inputs(cairn_context *context, const fuzz_program *p, cairn_named_array *inputs, int *out_n) {
  for (int i = 0; i < p->n_inputs; i++) {
    const fuzz_input *in = &p->inputs[i];
    if (!p->is_given[i]) continue;
    cairn_ndarray *a;
    cairn_status status = cairn_ndarray_create(context, in->dtype, in->dims, in->rank, &a);
    if (status != CAIRN_OK) return status;
    inputs[*out_n] = (cairn_named_array){in->name, a};
    ++*out_n;
    crn_tensor t = crn_tensor_make(in->dtype, in->dims, in->rank, NULL);
    status = cairn_ndarray_write(a, in->data, (size_t)crn_tensor_count(&t) * cairn_dtype_bytes(in->dtype));
    if (status != CAIRN_OK) return status;
  }
  return CAIRN_OK;
}

static cairn_status run_model(cairn_context *context, cairn_model *model, const fuzz_program *p, outcome *out) {
  cairn_function *f = NULL;
  cairn_outputs *bag = NULL;
  cairn_named_array inputs[FUZZ_MAX_INPUTS];
  int n = 0;
  cairn_status status = cairn_model_function(model, "main", &f);
  if (status == CAIRN_OK) status = make_inputs(context, p, inputs, &n);
  if (status == CAIRN_OK) status = cairn_function_run(f, &(cairn_run_args){.inputs = inputs, .n_inputs = n}, &bag);
  for (int i = 0; i < p->n_outputs && status == CAIRN_OK; i++) {
    status = cairn_outputs_take(bag, p->output_names[i], &out->arrays[i]);
    if (status == CAIRN_OK) out->n++;
  }
  cairn_outputs_destroy(bag);
  for (int i = 0; i < n; i++) cairn_ndarray_release(inputs[i].array);
  cairn_function_release(f);
  return status;
}

// Takes the program over.
static outcome run(fuzz_program *p, cairn_composites composites, int n_threads) {
  cairn_model *model = NULL;
  cairn_context *context = context_of(n_threads);
  outcome out = {0};
  cairn_model_options options = {.composites = composites};
  out.status = crn_model_create_from_program(context, p->program, &options, &model);
  p->program = NULL;
  if (out.status == CAIRN_OK) out.status = run_model(context, model, p, &out);
  cairn_model_release(model);
  return out;
}

static void release(outcome *o) {
  for (int i = 0; i < o->n; i++) cairn_ndarray_release(o->arrays[i]);
  o->n = 0;
}

// --- comparing ---------------------------------------------------------------------------------------------------------------

static bool equal_elements(cairn_dtype dtype, const void *a, const void *b, bool close) {
  if (!memcmp(a, b, cairn_dtype_bytes(dtype))) return true;
  if (!crn_dtype_is_float(dtype)) return false;
  double x = crn_load_f64(dtype, a), y = crn_load_f64(dtype, b);
  // Which NaN it is may depend on the order of the operands of an addition.
  if (x != x && y != y) return true;
  double unit = dtype == CAIRN_F16 ? 0x1p-10 : dtype == CAIRN_BF16 ? 0x1p-7 : cairn_dtype_bytes(dtype) == 1 ? 0x1p-2 : 1e-5;
  return close && fabs(x - y) <= unit + unit * fabs(y);
}

static void compare(const outcome *a, const outcome *b, const fuzz_program *p, const char *how) {
  if (a->status != b->status) {
    fprintf(stderr, "%s against %s\n", cairn_status_text(a->status), cairn_status_text(b->status));
    die("two forms end differently", how);
  }
  for (int i = 0; i < a->n; i++) {
    cairn_dtype dtype = cairn_ndarray_dtype(a->arrays[i]);
    int64_t n = cairn_ndarray_count(a->arrays[i]);
    if (cairn_ndarray_dtype(b->arrays[i]) != dtype || cairn_ndarray_count(b->arrays[i]) != n) die("two forms give different types", how);
    const char *x = cairn_ndarray_data(a->arrays[i]), *y = cairn_ndarray_data(b->arrays[i]);
    size_t bytes = cairn_dtype_bytes(dtype);
    for (int64_t k = 0; k < n; k++) {
      if (equal_elements(dtype, x + (size_t)k * bytes, y + (size_t)k * bytes, p->is_close[i])) continue;
      fprintf(stderr, "%s, element %lld: %.9g against %.9g\n", p->output_names[i], (long long)k, crn_load_f64(dtype, x + (size_t)k * bytes),
              crn_load_f64(dtype, y + (size_t)k * bytes));
      die("two forms give different values", how);
    }
  }
}

// --- breaking ----------------------------------------------------------------------------------------------------------------

static crn_op *random_op(choices *c, const crn_graph *g) {
  crn_op *op = g->body->first;
  for (uint32_t k = choose(c, g->body->n_ops); k > 0 && op->next; k--) op = op->next;
  return op;
}

static crn_type *copy_type(crn_program *p, const crn_type *t) {
  crn_type *copy;
  if (crn_arena_alloc(&p->arena, sizeof *copy, &copy) != CAIRN_OK) abort();
  *copy = *t;
  return copy;
}

static bool infers_type(const crn_op *op) {
  return op->n_results == 1 && op->n_operands == 2 && (crn_op_info_of(op->id)->traits & CRN_ELEMENTWISE);
}

static char g_how[64];  ///< the last break, for messages

// Returns false when this break does not apply to the op.
static bool break_surely(choices *c, crn_program *p, crn_graph *g, crn_op *op) {
  const crn_op_info *info = crn_op_info_of(op->id);
  crn_type *t;
  uint32_t how = choose(c, 12);
  snprintf(g_how, sizeof g_how, "break %u of %s", how, info->name);
  switch (how) {
    case 0:
      if (op->n_operands == 0 || info->n_operands < 0) return false;
      op->n_operands--;
      return true;
    case 1:  // its own result
      if (op->n_operands == 0 || op->n_results == 0) return false;
      op->operands[choose(c, op->n_operands)] = &op->results[0];
      return true;
    case 2:  // another element type than the operands make
      if (!infers_type(op)) return false;
      t = copy_type(p, op->results[0].type);
      t->dtype = t->dtype == CAIRN_C64 ? CAIRN_F32 : CAIRN_C64;
      op->results[0].type = t;
      return true;
    case 3:  // another size
      if (!infers_type(op) || op->results[0].type->rank == 0) return false;
      t = copy_type(p, op->results[0].type);
      t->dims[choose(c, (uint32_t)t->rank)] += 7;
      op->results[0].type = t;
      return true;
    case 4:
      if (op->n_results == 0) return false;
      t = copy_type(p, op->results[0].type);
      t->rank = choose(c, 2) ? CAIRN_MAX_RANK + 1 : -1;
      op->results[0].type = t;
      return true;
    case 5:
      if (op->n_results == 0 || op->results[0].type->rank == 0) return false;
      t = copy_type(p, op->results[0].type);
      t->dims[0] = INT64_MIN + (int64_t)choose(c, 200);
      op->results[0].type = t;
      return true;
    case 6:
      if (op->n_results == 0) return false;
      op->results[0].type = NULL;
      return true;
    case 7:  // a terminator in the middle, or none at the end
      op->id = op == g->body->last ? CRN_OP_tanh : CRN_OP_output;
      return true;
    case 8:
      if (op->n_results == 0 || !(info->traits & CRN_PURE)) return false;
      t = copy_type(p, op->results[0].type);
      t->kind = choose(c, 2) ? CRN_TYPE_TOKEN : CRN_TYPE_HANDLE;
      op->results[0].type = t;
      return true;
    case 9:  // a region where none belongs, or none where one does
      if (op->id != CRN_OP_if && op->id != CRN_OP_while && op->id != CRN_OP_reduce) return false;
      op->n_regions = 0;
      return true;
    case 10:  // the order of two blocks of a loop
      if (op->id != CRN_OP_while) return false;
      ((crn_region *)op->regions)[0] = op->regions[1];
      return true;
    default:
      g->n_results++;
      return true;
  }
}

// A field of an op gets some value; whether that is valid, the verifier must say.
static void break_anyhow(choices *c, crn_program *p, crn_graph *g, crn_op *op) {
  crn_type *t;
  switch (choose(c, 6)) {
    case 0:
      op->id = (crn_op_id)(choose(c, 256) % CRN_OP_COUNT);
      // What carries an attribute of its own is not made of an op without: a reader would not either.
      if (op->id == CRN_OP_constant || op->id == CRN_OP_invoke) op->id = CRN_OP_exp;
      break;
    case 1:
      if (crn_op_has_mode(op->id)) op->attr.mode = (int)choose(c, 256) - 8;
      break;
    case 2:
      if (op->n_operands > 1) {
        crn_value *v = op->operands[0];
        op->operands[0] = op->operands[op->n_operands - 1];
        op->operands[op->n_operands - 1] = v;
      }
      break;
    case 3:
      if (op->n_results == 0) break;
      t = copy_type(p, op->results[0].type);
      t->dtype = (cairn_dtype)choose(c, CAIRN_DTYPE_COUNT + 3);
      op->results[0].type = t;
      break;
    case 4:
      if (op->n_results == 0 || op->results[0].type->rank == 0) break;
      t = copy_type(p, op->results[0].type);
      t->dims[0] = (int64_t)choose(c, 6) - 2;
      op->results[0].type = t;
      break;
    default:
      if (op->n_operands && g->body->n_arguments) op->operands[0] = &g->body->arguments[choose(c, g->body->n_arguments)];
      break;
  }
}

static void print_program(const crn_program *program) {
  crn_str text;
  crn_str_initialize(&text, NULL);
  if (crn_program_print(program, &text) == CAIRN_OK) fprintf(stderr, "%s\n", text.data);
  crn_str_deinitialize(&text);
}

static crn_graph *main_of(const fuzz_program *p) {
  crn_graph *g = crn_program_find_graph(p->program, "main");
  if (!g) abort();
  return g;
}

static void try_broken(choices *c, fuzz_program *p) {
  crn_graph *g = main_of(p);
  bool surely = choose(c, 2) == 0, done = false;
  for (int i = 0; i < 16 && !done && surely; i++) done = break_surely(c, p->program, g, random_op(c, g));
  if (surely) {
    if (done && crn_program_verify(p->program) == CAIRN_OK) {
      print_program(p->program);
      die("a broken program is accepted", g_how);
    }
    g_fuzz_counts.broken += done;
    crn_program_destroy(p->program);
    p->program = NULL;
    return;
  }
  for (uint32_t i = 1 + choose(c, 3); i > 0; i--) break_anyhow(c, p->program, g, random_op(c, g));
  outcome o = run(p, CAIRN_COMPOSITES_FAST, 1);
  if (o.status == CAIRN_INTERNAL) die("a broken program ends in an internal error", "run");
  g_fuzz_counts.refused += o.status != CAIRN_OK;
  release(&o);
}

// --- the target ----------------------------------------------------------------------------------------------------------------

static const form forms[] = {{false, false}, {true, false}, {false, true}, {true, true}};
static const char *const form_names[] = {"as it is", "folded", "taken apart", "folded and taken apart"};

static bool build(const uint8_t *data, size_t size, const form *f, choices *c, fuzz_program *p) {
  *c = (choices){data, size, 0};
  cairn_status status = fuzz_build(c, f, p);
  if (status == CAIRN_OK) {
    if (crn_program_verify(p->program) != CAIRN_OK) die("a built program is refused", "verifier");
    return true;
  }
  // Combinations the generator does not foresee are refused by inference while building.
  if (status == CAIRN_INTERNAL) die("building ends in an internal error", "builder");
  crn_program_destroy(p->program);
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzz_program p;
  choices c;
  g_fuzz_counts.programs++;
  if (size < 8 || !build(data, size, &forms[0], &c, &p)) return 0;
  outcome first = run(&p, CAIRN_COMPOSITES_FAST, 1), other;
  g_fuzz_counts.built++;
  g_fuzz_counts.ran += first.status == CAIRN_OK;
  for (int i = 0; i < first.n; i++) g_fuzz_counts.composites += p.is_close[i];
  if (first.status == CAIRN_INTERNAL) die("a valid program ends in an internal error", "run");
  for (int k = 1; k < 4; k++) {
    if (!build(data, size, &forms[k], &c, &p)) die("a form cannot be built", form_names[k]);
    other = run(&p, k == 1 ? CAIRN_COMPOSITES_BODY : CAIRN_COMPOSITES_FAST, k == 2 ? 2 : 1);
    compare(&first, &other, &p, form_names[k]);
    release(&other);
  }
  release(&first);
  if (build(data, size, &forms[0], &c, &p)) try_broken(&c, &p);
  return 0;
}
