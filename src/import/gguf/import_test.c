#include "import/gguf/import.h"

#include <math.h>

#include "base/context.h"
#include "execute/model.h"
#include "import/gguf/gguf.h"
#include "import/registry.h"
#include "import/safetensors.h"
#include "import/test_support.h"
#include "program/builder.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

static cairn_context *g_context;

static int set_up(void **state) {
  (void)state;
  return cairn_context_create(NULL, &g_context) == CAIRN_OK ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  cairn_context_release(g_context);
  return 0;
}

static void ok(cairn_status status) {
  char text[1024];
  if (status != CAIRN_OK) {
    cairn_last_error_text(text, sizeof text);
    print_message("%s\n", text);
  }
  assert_int_equal(status, CAIRN_OK);
}

static void data_path(char *path, size_t bytes, const char *name) { snprintf(path, bytes, "%s/gguf/%s", CAIRN_TEST_DATA, name); }

// --- running -------------------------------------------------------------------------------------------------------------

// A function made of an imported program, with caches of a given length.
typedef struct session {
  crn_imported_model model;
  cairn_model *runnable;
  cairn_function *function;
  cairn_state *caches;
  int64_t position;
  crn_str file;  // of a model that computes in another type than its own
  cairn_dtype compute;
} session;

// `compute` CAIRN_DTYPE_NONE: as the importer decides.
static void open_session(session *s, const char *path, cairn_dtype compute, int64_t cache_length) {
  *s = (session){.position = 0};
  crn_str_initialize(&s->file, NULL);
  if (compute == CAIRN_DTYPE_NONE) {
    ok(crn_import(g_context, path, &s->model));
  } else {
    ok(crn_file_read(path, 1 << 30, &s->file));
    ok(crn_gguf_import_memory_as(g_context, s->file.data, s->file.size, path, compute, &s->model));
  }
  crn_program *program = s->model.program;
  s->model.program = NULL;
  ok(crn_model_create_from_program(g_context, program, NULL, &s->runnable));
  ok(cairn_model_function(s->runnable, "main", &s->function));
  const cairn_descriptor *d = cairn_function_state(s->function, "keyCache");
  assert_non_null(d);
  s->compute = d->dtype;
  assert_true(d->dtype == CAIRN_F16 || d->dtype == CAIRN_F32);
  assert_true(compute == CAIRN_DTYPE_NONE || d->dtype == compute);
  assert_int_equal(d->rank, 5);
  int64_t shape[5];
  for (int i = 0; i < 5; i++) shape[i] = d->shape[i] < 0 ? cache_length : d->shape[i];
  assert_int_equal(d->shape[3], -1);
  const cairn_state_shape shapes[] = {{"keyCache", shape, 5}, {"valueCache", shape, 5}};
  ok(cairn_state_create(s->function, shapes, 2, &s->caches));
}

static void close_session(session *s) {
  cairn_state_destroy(s->caches);
  cairn_function_release(s->function);
  cairn_model_release(s->runnable);
  crn_imported_model_destroy(&s->model);
  crn_str_deinitialize(&s->file);
}

static cairn_ndarray *vector_of(const int32_t *values, int64_t n) {
  cairn_ndarray *a;
  ok(cairn_ndarray_create(g_context, CAIRN_SI32, (int64_t[]){1, n}, 2, &a));
  ok(cairn_ndarray_write(a, values, (size_t)n * sizeof *values));
  return a;
}

// Runs `n` tokens behind those that were run before and copies the logits of all of them.
static void run(session *s, const int32_t *ids, int64_t n, float *logits, int64_t vocab) {
  int32_t positions[256];
  s->position += n;
  assert_true(s->position <= 256);
  for (int64_t i = 0; i < s->position; i++) positions[i] = (int32_t)i;
  cairn_ndarray *tokens = vector_of(ids, n), *places = vector_of(positions, s->position), *out;
  int n_states;
  const cairn_named_array *states = cairn_state_arrays(s->caches, &n_states);
  const cairn_named_array inputs[] = {{"input_ids", tokens}, {"position_ids", places}};
  const cairn_run_args args = {.inputs = inputs, .n_inputs = 2, .states = states, .n_states = n_states};
  cairn_outputs *outputs;
  ok(cairn_function_run(s->function, &args, &outputs));
  ok(cairn_outputs_take(outputs, "logits", &out));
  assert_int_equal(cairn_ndarray_dtype(out), s->compute);
  assert_int_equal(cairn_ndarray_rank(out), 3);
  assert_int_equal(cairn_ndarray_shape(out)[1], n);
  assert_int_equal(cairn_ndarray_shape(out)[2], vocab);
  ok(cairn_ndarray_read(out, logits, (size_t)(n * vocab) * cairn_dtype_bytes(s->compute)));
  // From the end, for the wider values take the place of those that are still to come.
  for (int64_t i = n * vocab; s->compute == CAIRN_F16 && i-- > 0;) logits[i] = crn_f16_to_f32(((const uint16_t *)(const void *)logits)[i]);
  cairn_ndarray_release(out);
  cairn_outputs_destroy(outputs);
  cairn_ndarray_release(tokens);
  cairn_ndarray_release(places);
}

// --- logits of the small models ------------------------------------------------------------------------------------------------

// In f32 the logits are those of the float64 reference; f16 has 11 bits, and the steps of two layers add up.
static void check_logits(const char *name, cairn_dtype compute, const int64_t *chunks, int64_t cache_length) {
  char path[512];
  crn_safetensors *golden;
  session s;
  snprintf(path, sizeof path, "%s/gguf/%s.safetensors", CAIRN_TEST_DATA, name);
  ok(crn_safetensors_open(NULL, path, &golden));
  const crn_tensor *ids = &crn_safetensors_find(golden, "ids")->tensor, *wanted = &crn_safetensors_find(golden, "logits")->tensor;
  snprintf(path, sizeof path, "%s/gguf/%s.gguf", CAIRN_TEST_DATA, name);
  open_session(&s, path, compute, cache_length);
  double tolerance = s.compute == CAIRN_F32 ? 2e-5 : 6e-3;
  int64_t n = ids->dims[0], vocab = wanted->dims[1];
  assert_int_equal(s.model.vocab_size, vocab);
  float *logits = malloc((size_t)(n * vocab) * sizeof *logits);
  const float *expected = wanted->data;
  for (int64_t at = 0; at < n; at += *chunks++) run(&s, (const int32_t *)ids->data + at, *chunks, logits + at * vocab, vocab);
  double largest = 0, error = 0;
  for (int64_t i = 0; i < n * vocab; i++) {
    largest = fmax(largest, fabs((double)expected[i]));
    error = fmax(error, fabs((double)logits[i] - (double)expected[i]));
    assert_true(isfinite(logits[i]));
  }
  if (error > tolerance * largest) print_message("%s in %s: error %g of %g\n", name, cairn_dtype_name(s.compute), error, largest);
  assert_true(error <= tolerance * largest);
  free(logits);
  close_session(&s);
  crn_safetensors_close(golden);
}

static const char *const model_names[] = {"f32",         "f16",        "bf16",      "q8_0",          "q4_0",         "q4_1",   "qwen2",
                                          "qwen2_mixed", "qwen3_q8_0", "qwen3_f32", "qwen3moe_q4_0", "qwen3moe_f16", "mixtral"};
enum { N_MODELS = sizeof model_names / sizeof *model_names };

static void test_logits_in_one_run(void **state) {
  (void)state;
  for (size_t i = 0; i < N_MODELS; i++) {
    check_logits(model_names[i], CAIRN_F32, (int64_t[]){14}, 14);
    check_logits(model_names[i], CAIRN_DTYPE_NONE, (int64_t[]){14}, 14);
  }
}

static void test_logits_in_chunks_and_steps(void **state) {
  (void)state;
  for (size_t i = 0; i < N_MODELS; i++) {
    check_logits(model_names[i], CAIRN_F32, (int64_t[]){6, 1, 4, 1, 1, 1}, 32);
    check_logits(model_names[i], CAIRN_DTYPE_NONE, (int64_t[]){6, 1, 4, 1, 1, 1}, 32);
  }
}

static void check_smollm2_text(const crn_imported_model *m, const int32_t *wanted, size_t n_wanted) {
  static const char text[] = "Once upon a time, there was";
  int32_t ids[32];
  size_t n;
  ok(cairn_tokenizer_encode(m->tokenizer, text, sizeof text - 1, true, ids, 32, &n));
  assert_int_equal(n, n_wanted);
  assert_memory_equal(ids, wanted, n * sizeof *ids);
  assert_int_equal(m->bos_id, 1);
  assert_false(m->add_bos);
  assert_int_equal(m->eos_ids[0], 2);
  assert_int_equal(m->context_length, 8192);
  assert_non_null(strstr(m->chat_template, "<|im_start|>"));
}

// The genuine SmolLM2 in Q4_1, which is not part of the repository: its path comes from the environment. The goldens were
// made from the same weights by other programs.
static void check_smollm2(cairn_dtype compute, double tolerance) {
  static const char folder[] = CAIRN_SHARED_DATA "/models/smollm2-f16-macos-goldens/golden.safetensors";
  const char *path = getenv("CAIRN_TEST_SMOLLM2_GGUF");
  if (!path || !crn_file_exists(folder)) skip();
  enum { VOCAB = 49152, STEPS = 32 };
  crn_safetensors *golden;
  session s;
  ok(crn_safetensors_open(NULL, folder, &golden));
  const crn_tensor *prompt = &crn_safetensors_find(golden, "prompt3")->tensor;
  const crn_tensor *first = &crn_safetensors_find(golden, "hf_f32_logits3")->tensor;
  const int32_t *wanted = crn_safetensors_find(golden, "hf_f32_greedy3")->tensor.data;
  open_session(&s, path, compute, 64);
  int64_t n = prompt->dims[1];
  float *logits = malloc((size_t)n * VOCAB * sizeof *logits);
  const int32_t *ids = prompt->data;
  check_smollm2_text(&s.model, ids, (size_t)n);
  for (int step = 0; step < STEPS; step++) {
    run(&s, ids, n, logits, VOCAB);
    const float *last = logits + (n - 1) * VOCAB;
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++) {
      if (last[i] > last[best]) best = i;
    }
    double error = 0;
    for (int64_t i = 0; step == 0 && i < VOCAB; i++)
      error = fmax(error, fabs((double)last[i] - crn_load_f64(first->dtype, crn_tensor_at(first, i))));
    assert_true(error < tolerance);
    assert_int_equal(best, wanted[step]);
    ids = &wanted[step];
    n = 1;
  }
  free(logits);
  close_session(&s);
  crn_safetensors_close(golden);
}

// The golden is stored in 16 bits: half a unit of values up to 32 is 0.008.
static void test_greedy_tokens_of_smollm2(void **state) {
  (void)state;
  check_smollm2(CAIRN_F32, 0.02);
}

static void test_greedy_tokens_of_smollm2_as_it_runs(void **state) {
  (void)state;
  check_smollm2(CAIRN_DTYPE_NONE, 0.5);
}

// --- what else comes out --------------------------------------------------------------------------------------------------------

static void test_description_of_bpe_model(void **state) {
  (void)state;
  char path[512];
  crn_imported_model m;
  data_path(path, sizeof path, "f32.gguf");
  ok(crn_import(g_context, path, &m));
  assert_string_equal(m.architecture, "llama");
  assert_string_equal(m.name, "tiny f32");
  assert_int_equal(m.context_length, 64);
  assert_int_equal(m.vocab_size, 280);
  assert_int_equal(m.bos_id, 265);
  assert_int_equal(m.eos_id, 266);
  assert_int_equal(m.n_eos_ids, 2);
  assert_int_equal(m.eos_ids[0], 266);
  assert_int_equal(m.eos_ids[1], 267);
  assert_true(m.add_bos);
  assert_false(m.add_eos);
  assert_string_equal(m.chat_template, "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<|eot_id|>{% endfor %}");
  int32_t ids[16];
  size_t n;
  static const int32_t wanted[] = {265, 259, 264, 267};  // bos hello Ġworld <|eot_id|>
  ok(cairn_tokenizer_encode(m.tokenizer, "hello world<|eot_id|>", 21, true, ids, 16, &n));
  assert_int_equal(n, 4);
  assert_memory_equal(ids, wanted, sizeof wanted);
  char text[64];
  ok(cairn_tokenizer_decode(m.tokenizer, ids, n, true, text, sizeof text, &n));
  assert_int_equal(n, 11);
  assert_memory_equal(text, "hello world", 11);
  crn_imported_model_destroy(&m);
}

// A copy of a file with one text in it replaced by another of the same length.
static void write_changed(const char *from, const char *to, const char *text, const char *other) {
  crn_str bytes;
  crn_str_initialize(&bytes, NULL);
  ok(crn_file_read(from, 1 << 24, &bytes));
  char *at = memmem(bytes.data, bytes.size, text, strlen(text));
  assert_non_null(at);
  memcpy(at, other, strlen(text));
  ok(crn_file_replace(to, bytes.data, bytes.size));
  crn_str_deinitialize(&bytes);
}

// A tokenizer that is made meanwhile: waited for, given up, behind its program's end, and refused.
static void test_tokenizer_beside(void **state) {
  (void)state;
  char path[512], changed[] = "/tmp/cairn-import-XXXXXX";
  crn_imported_model m;
  data_path(path, sizeof path, "f32.gguf");
  ok(crn_gguf_import_beside(g_context, path, &m));
  assert_non_null(m.program);
  crn_program_destroy(m.program);
  m.program = NULL;
  ok(crn_imported_model_wait(&m));
  assert_non_null(m.tokenizer);
  ok(crn_imported_model_wait(&m));
  crn_imported_model_destroy(&m);
  ok(crn_gguf_import_beside(g_context, path, &m));
  crn_imported_model_destroy(&m);

  int fd = mkstemp(changed);
  assert_true(fd >= 0);
  close(fd);
  write_changed(path, changed, "llama-bpe", "llama-xyz");
  ok(crn_gguf_import_beside(g_context, changed, &m));
  assert_int_equal(crn_imported_model_wait(&m), CAIRN_UNSUPPORTED);
  assert_non_null(strstr(cairn_last_error()->message, "llama-xyz"));
  assert_null(m.tokenizer);
  crn_imported_model_destroy(&m);
  assert_int_equal(crn_import(g_context, changed, &m), CAIRN_UNSUPPORTED);
  // Nobody waited: what failed before is what is told.
  ok(crn_gguf_import_beside(g_context, changed, &m));
  assert_int_equal(CRN_FAIL(NOT_FOUND, "something else"), CAIRN_NOT_FOUND);
  crn_imported_model_destroy(&m);
  assert_string_equal(cairn_last_error()->message, "something else");
  unlink(changed);
}

static void test_description_of_spm_model(void **state) {
  (void)state;
  char path[512];
  crn_imported_model m;
  data_path(path, sizeof path, "f16.gguf");
  ok(crn_import(g_context, path, &m));
  assert_int_equal(m.bos_id, 1);
  assert_int_equal(m.eos_id, 2);
  assert_int_equal(m.n_eos_ids, 1);
  assert_true(m.add_bos);
  assert_null(m.chat_template);
  int32_t ids[16];
  size_t n;
  static const int32_t wanted[] = {1, 268, 3 + '!'};  // bos ▁hello <0x21>
  ok(cairn_tokenizer_encode(m.tokenizer, "hello!", 6, true, ids, 16, &n));
  assert_int_equal(n, 3);
  assert_memory_equal(ids, wanted, sizeof wanted);
  crn_imported_model_destroy(&m);
}

static void test_model_without_tokenizer(void **state) {
  (void)state;
  char path[512];
  crn_imported_model m;
  data_path(path, sizeof path, "q8_0.gguf");
  ok(crn_import(g_context, path, &m));
  assert_null(m.tokenizer);
  assert_int_equal(m.bos_id, -1);
  assert_int_equal(m.eos_id, -1);
  assert_int_equal(m.n_eos_ids, 0);
  assert_non_null(m.program);
  crn_imported_model_destroy(&m);
}

static void test_contract(void **state) {
  (void)state;
  char path[512];
  crn_imported_model m;
  data_path(path, sizeof path, "f16.gguf");
  ok(crn_import(g_context, path, &m));
  const crn_graph *g = crn_program_find_graph(m.program, "main");
  assert_non_null(g);
  assert_true(crn_graph_is_function(g));
  assert_int_equal(g->body->n_arguments, 4);
  static const char *const names[] = {"input_ids", "position_ids", "keyCache", "valueCache"};
  for (int i = 0; i < 4; i++) assert_string_equal(g->body->arguments[i].name, names[i]);
  static const int64_t tokens[] = {1, -1}, cache[] = {1, 1, 1, -1, 16}, logits[] = {1, -1, 272};
  assert_memory_equal(g->body->arguments[0].type->dims, tokens, sizeof tokens);
  assert_memory_equal(g->body->arguments[1].type->dims, tokens, sizeof tokens);
  assert_memory_equal(g->body->arguments[2].type->dims, cache, sizeof cache);
  assert_int_equal(g->n_results, 3);
  assert_string_equal(g->result_names[2], "logits");
  assert_int_equal(g->result_types[2]->dtype, CAIRN_F16);
  assert_memory_equal(g->result_types[2]->dims, logits, sizeof logits);
  crn_imported_model_destroy(&m);
}

// --- quantized blocks ------------------------------------------------------------------------------------------------------------

static void test_unpacking(void **state) {
  (void)state;
  unsigned char block[40], codes[32];
  float scale = 0, shift = -7;
  // Half floats: 0x3e00 = 1.5, 0xb800 = -0.5. Byte i of the codes holds elements i and i + 16.
  for (int i = 0; i < 16; i++) block[2 + i] = (unsigned char)((i + 3) % 16 | (15 - i) << 4);
  block[0] = 0x00, block[1] = 0x3e;
  crn_block_format_of(CRN_BLOCKS_Q4_0)->unpack(block, codes, &scale, &shift);
  assert_true(scale == 1.5f && shift == 0);
  for (int i = 0; i < 32; i++) assert_int_equal(codes[i], i < 16 ? (i + 3) % 16 : 15 - (i - 16));
  memmove(block + 4, block + 2, 16);
  block[2] = 0x00, block[3] = 0xb8;
  crn_block_format_of(CRN_BLOCKS_Q4_1)->unpack(block, codes, &scale, &shift);
  assert_true(scale == 1.5f && shift == -0.5f);
  for (int i = 0; i < 32; i++) assert_int_equal(codes[i], i < 16 ? (i + 3) % 16 : 15 - (i - 16));
  for (int i = 0; i < 32; i++) block[2 + i] = (unsigned char)(i * 9);
  crn_block_format_of(CRN_BLOCKS_Q8_0)->unpack(block, codes, &scale, &shift);
  assert_memory_equal(codes, block + 2, 32);
  assert_null(crn_block_format_of(-1));
  assert_null(crn_block_format_of(CRN_BLOCK_KINDS));
}

// --- files that do not fit -----------------------------------------------------------------------------------------------------

// Replaces `from` by `to` (same length) in a copy of a small model and imports it.
static void expect_changed(const char *name, const char *from, const char *to, size_t n, cairn_status wanted, const char *message) {
  crn_str file = read_test_file(name);
  crn_imported_model m;
  unsigned char *at = memmem(file.data, file.size, from, n);
  assert_non_null(at);
  memcpy(at, to, n);
  cairn_status status = crn_gguf_import_memory(g_context, file.data, file.size, "test", &m);
  if (status != wanted || !strstr(cairn_last_error()->message, message)) print_message("%s: %s\n", from, cairn_last_error()->message);
  assert_int_equal(status, wanted);
  assert_non_null(strstr(cairn_last_error()->message, message));
  assert_null(m.program);
  crn_imported_model_destroy(&m);
  crn_str_deinitialize(&file);
}

#define CHANGED(name, from, to, wanted, message) expect_changed(name, from, to, sizeof(from) - 1, wanted, message)
// A metadata key with its value: 4 bytes of kind, then the bytes of the number.
#define U32(key, value) key "\x04\x00\x00\x00" value

static void test_models_that_are_refused(void **state) {
  (void)state;
  CHANGED("q8_0.gguf", "\x05\x00\x00\x00\x00\x00\x00\x00llama", "\x05\x00\x00\x00\x00\x00\x00\x00lamma", CAIRN_UNSUPPORTED, "lamma");
  CHANGED("q8_0.gguf", "llama.block_count", "llama.block_kount", CAIRN_CORRUPT, "llama.block_count");
  CHANGED("q8_0.gguf", U32("llama.block_count", "\x02\x00\x00\x00"), U32("llama.block_count", "\x03\x00\x00\x00"), CAIRN_CORRUPT, "blk.2.");
  CHANGED("q8_0.gguf", U32("llama.block_count", "\x02\x00\x00\x00"), U32("llama.block_count", "\x01\x00\x00\x00"), CAIRN_UNSUPPORTED,
          "blk.1.");
  CHANGED("q8_0.gguf", U32("llama.block_count", "\x02\x00\x00\x00"), U32("llama.block_count", "\xff\xff\xff\xff"), CAIRN_CORRUPT,
          "block_count");
  CHANGED("q8_0.gguf", U32("llama.embedding_length", "\x40"), U32("llama.embedding_length", "\x80"), CAIRN_CORRUPT, "token_embd");
  CHANGED("q8_0.gguf", U32("attention.head_count", "\x04"), U32("attention.head_count", "\x00"), CAIRN_CORRUPT, "head_count");
  CHANGED("q8_0.gguf", U32("attention.head_count", "\x04"), U32("attention.head_count", "\x02"), CAIRN_CORRUPT, "attn_k");
  CHANGED("q8_0.gguf", U32("attention.head_count_kv", "\x02"), U32("attention.head_count_kv", "\x03"), CAIRN_CORRUPT, "heads");
  CHANGED("q8_0.gguf", "layer_norm_rms_epsilon\x06\x00\x00\x00\xac\xc5\x27\x37", "layer_norm_rms_epsilon\x06\x00\x00\x00\x00\x00\xc0\x7f",
          CAIRN_CORRUPT, "rms_epsilon");
  CHANGED("q8_0.gguf", "blk.1.ffn_up.weight", "blk.1.ffn_op.weight", CAIRN_CORRUPT, "blk.1.ffn_up.weight");
  CHANGED("f16.gguf", "blk.0.attn_k.bias", "blk.0.attn_w.bias", CAIRN_UNSUPPORTED, "blk.0.attn_w.bias");
  CHANGED("f16.gguf", U32("attention.value_length", "\x10"), U32("attention.value_length", "\x08"), CAIRN_UNSUPPORTED, "equal sizes");
  CHANGED("bf16.gguf", "linear", "linnar", CAIRN_UNSUPPORTED, "linnar");
  CHANGED("bf16.gguf", U32("rope.dimension_count", "\x04"), U32("rope.dimension_count", "\x05"), CAIRN_CORRUPT, "dimension_count");
  CHANGED("bf16.gguf", U32("rope.dimension_count", "\x04"), U32("rope.dimension_count", "\x0a"), CAIRN_CORRUPT, "dimension_count");
  CHANGED("qwen3_f32.gguf", "blk.1.attn_k_norm.weight", "blk.1.attn_k_morn.weight", CAIRN_CORRUPT, "blk.1.attn_k_norm.weight");
  CHANGED("qwen3moe_f16.gguf", U32("expert_used_count", "\x02"), U32("expert_used_count", "\x07"), CAIRN_CORRUPT, "expert_used_count");
  CHANGED("qwen3moe_f16.gguf", U32("expert_count", "\x04"), U32("expert_count", "\x05"), CAIRN_CORRUPT, "ffn_gate_inp");
  CHANGED("qwen3moe_f16.gguf", "blk.0.ffn_up_exps.weight", "blk.0.ffn_up_shexp.weigh", CAIRN_CORRUPT, "ffn_up_exps");
  CHANGED("qwen2.gguf", "qwen2.block_count", "qwen2.block_kount", CAIRN_CORRUPT, "qwen2.block_count");
  CHANGED("f32.gguf", "llama-bpe", "lmama-bpe", CAIRN_UNSUPPORTED, "lmama-bpe");
  CHANGED("f32.gguf", U32("ggml.bos_token_id", "\x09\x01\x00\x00"), U32("ggml.bos_token_id", "\x18\x01\x00\x00"), CAIRN_CORRUPT,
          "bos_token_id");
}

static void test_tensor_types_are_named(void **state) {
  (void)state;
  // The description of a tensor: name, dims, type. 24 is I8, whose rows of 64 take fewer bytes than before.
  static const char q8[] =
      "blk.1.ffn_up.weight\x02\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x60\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00";
  static const char i8[] =
      "blk.1.ffn_up.weight\x02\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x60\x00\x00\x00\x00\x00\x00\x00\x18\x00\x00\x00";
  expect_changed("q8_0.gguf", q8, i8, sizeof q8 - 1, CAIRN_UNSUPPORTED, "has type I8");
}

static void test_registry(void **state) {
  (void)state;
  char path[512];
  const crn_importer *importer;
  crn_imported_model m;
  size_t n;
  assert_non_null(crn_importers(&n));
  assert_true(n >= 1);
  data_path(path, sizeof path, "q4_0.gguf");
  ok(crn_importer_find(path, &importer));
  assert_string_equal(importer->name, "gguf");
  ok(crn_importer_find("/tmp", &importer));
  assert_null(importer);
  assert_int_equal(crn_importer_find("/nowhere/at/all", &importer), CAIRN_NOT_FOUND);
  data_path(path, sizeof path, "make.py");
  assert_int_equal(crn_import(g_context, path, &m), CAIRN_UNSUPPORTED);
  assert_non_null(strstr(cairn_last_error()->message, "GGUF"));
  crn_imported_model_destroy(&m);
}

// --- hostile files and failing memory ------------------------------------------------------------------------------------------

static failing_allocator g_failing;
static cairn_context *g_failing_context;

static void make_failing_context(void) {
  cairn_context_options options;
  failing_initialize(&g_failing);
  cairn_context_options_initialize(&options);
  options.allocator = &g_failing.allocator;
  options.n_threads = 1;
  ok(cairn_context_create(&options, &g_failing_context));
}

static void check_hostile(const unsigned char *data, size_t bytes) {
  crn_imported_model m;
  long before = g_failing.live;
  (void)crn_gguf_import_memory(g_failing_context, data, bytes, "test", &m);
  crn_imported_model_destroy(&m);
  assert_int_equal(g_failing.live, before);
}

static void test_truncations_and_flips(void **state) {
  (void)state;
  make_failing_context();
  crn_str file = read_test_file("q4_1.gguf");
  for_hostile_variations(file.data, file.size, 2200, check_hostile);
  crn_str_deinitialize(&file);
  cairn_context_release(g_failing_context);
  assert_int_equal(g_failing.live, 0);
}

static void sweep_allocations(const char *name) {
  crn_str file = read_test_file(name);
  make_failing_context();
  long before = g_failing.live;
  for (long n = 0;; n++) {
    crn_imported_model m;
    g_failing.left = n;
    cairn_status status = crn_gguf_import_memory(g_failing_context, file.data, file.size, "test", &m);
    crn_imported_model_destroy(&m);
    assert_int_equal(g_failing.live, before);
    if (status == CAIRN_OK) {
      assert_true(n > 10);
      break;
    }
    if (status != CAIRN_OUT_OF_MEMORY) print_message("%s, allocation %ld: %s\n", name, n, cairn_last_error()->message);
    assert_int_equal(status, CAIRN_OUT_OF_MEMORY);
  }
  cairn_context_release(g_failing_context);
  assert_int_equal(g_failing.live, 0);
  crn_str_deinitialize(&file);
}

static void test_every_allocation_failure(void **state) {
  (void)state;
  sweep_allocations("q4_1.gguf");
  sweep_allocations("qwen3moe_q4_0.gguf");
  sweep_allocations("qwen2.gguf");
  sweep_allocations("f16.gguf");
  sweep_allocations("f32.gguf");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unpacking),
      cmocka_unit_test(test_registry),
      cmocka_unit_test(test_contract),
      cmocka_unit_test(test_model_without_tokenizer),
      cmocka_unit_test(test_description_of_bpe_model),
      cmocka_unit_test(test_description_of_spm_model),
      cmocka_unit_test(test_tokenizer_beside),
      cmocka_unit_test(test_models_that_are_refused),
      cmocka_unit_test(test_tensor_types_are_named),
      cmocka_unit_test(test_truncations_and_flips),
      cmocka_unit_test(test_every_allocation_failure),
      cmocka_unit_test(test_logits_in_one_run),
      cmocka_unit_test(test_logits_in_chunks_and_steps),
      cmocka_unit_test(test_greedy_tokens_of_smollm2),
      cmocka_unit_test(test_greedy_tokens_of_smollm2_as_it_runs),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
