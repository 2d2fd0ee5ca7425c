// Experts: the memory of those that no row chose is not touched.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cpu/fused/gather.h"
#include "backend/cpu/ref/kernel_testing.h"
#include "base/pool.h"

// A matrix of a gated step has 2 * N outputs: 16 tiles of 8 blocks of 576 bytes, 18 pages of 4 KiB.
enum { EXPERTS = 6, N = 128, K = 512, CHOSEN = 2, MOST_ROWS = 40 };

static const int kChosen[CHOSEN] = {1, 4};

static crn_fused_gather g_fused;
static size_t g_matrix_bytes;

static const char *const kNames[] = {"lhs", "rhs", "rhs_indices"};

static int set_up(void **state) {
  const int64_t dims[] = {1, EXPERTS, K, N};
  (void)state;
  crn_fused_gather *f = &g_fused;
  *f = (crn_fused_gather){.n = N,
                          .is_gated = true,
                          .n_operands = 2,
                          .rhs = crn_tensor_make(CAIRN_F32, dims, 4, NULL),
                          .product = {.dtype = CAIRN_F32, .rank = -1},
                          .infer = crn_infer_of(CRN_OP_gather_mm),
                          .input_names = kNames};
  for (int d = 0; d < 4; d++) f->rhs.strides[d] = d == 1;
  f->weights = (crn_linear_weights){.format = CRN_LINEAR_Q4, .zero = 8, .n = 2 * N * EXPERTS, .k = K};
  assert_true(crn_linear_weights_bytes(&f->weights, &f->weights.bytes));
  g_matrix_bytes = f->weights.bytes / EXPERTS;
  if (g_matrix_bytes % (size_t)sysconf(_SC_PAGESIZE)) return 0;
  char *data = mmap(NULL, f->weights.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(data, MAP_FAILED);
  // Codes of 2 and scales of 0x2222, which is about 0.012.
  memset(data, 0x22, f->weights.bytes);
  f->weights.data = data;
  for (int e = 0; e < EXPERTS; e++) {
    bool is_chosen = e == kChosen[0] || e == kChosen[1];
    if (!is_chosen) assert_int_equal(mprotect(data + (size_t)e * g_matrix_bytes, g_matrix_bytes, PROT_NONE), 0);
  }
  return 0;
}

static int tear_down(void **state) {
  if (g_fused.weights.data) munmap((void *)g_fused.weights.data, g_fused.weights.bytes);
  return kt_free_all(state);
}

// Every row chooses the two experts given; values are those of the definition, which are the same for all outputs.
static void run(crn_linear_mode mode, int64_t rows, const int *chosen, crn_pool *pool) {
  static const crn_attr kBatch = {.kind = CRN_ATTR_INT, .key = "num_batch_axes", .i = 1};
  const crn_attr attrs = kt_dict(&kBatch, 1);
  crn_fused_gather f = g_fused;
  crn_tensor x = kt_tensor(CAIRN_F32, 4, (const int64_t[]){rows, 1, 1, K}),
             places = kt_tensor(CAIRN_UI16, 2, (const int64_t[]){rows, CHOSEN});
  crn_tensor out = kt_tensor(CAIRN_F32, 5, (const int64_t[]){1, rows, CHOSEN, 1, N}), operands[] = {x, places};
  crn_scratch scratch = {kt_take};
  f.mode = mode;
  for (int64_t i = 0; i < rows * K; i++) crn_store_f64(CAIRN_F32, crn_tensor_at(&x, i), -1);
  for (int64_t i = 0; i < rows * CHOSEN; i++) crn_store_i64(CAIRN_UI16, crn_tensor_at(&places, i), chosen[i % CHOSEN]);
  crn_kernel_args args = {.id = CRN_OP_gather_mm,
                          .attrs = &attrs,
                          .fused = &f,
                          .n_operands = 2,
                          .operands = operands,
                          .n_results = 1,
                          .results = &out,
                          .pool = pool,
                          .scratch = &scratch};
  assert_int_equal(crn_fused_gather_run(&args), CAIRN_OK);
  double sum = (8 - 2) * 0.011978149 * K, want = sum / (1 + exp(-sum)) * sum;
  for (int64_t i = 0; i < crn_tensor_count(&out); i++) {
    if (fabs(kt_at(&out, i) - want) > 5e-3 * fabs(want)) fail_msg("%lld: %g, not %g", (long long)i, kt_at(&out, i), want);
  }
}

static void only_chosen_experts_are_read(void **state) {
  static const int64_t kRows[] = {1, 3, MOST_ROWS};
  crn_pool *pool;
  (void)state;
  if (!g_fused.weights.data) skip();
  assert_int_equal(crn_pool_create(crn_default_allocator(), 2, &pool), CAIRN_OK);
  for (int mode = 0; mode < CRN_LINEAR_MODES; mode++) {
    for (size_t i = 0; i < sizeof kRows / sizeof *kRows; i++) run((crn_linear_mode)mode, kRows[i], kChosen, pool);
  }
  crn_pool_destroy(pool);
}

// Else the test above would say nothing.
static void reading_another_one_would_end_the_program(void **state) {
  static const int kOthers[] = {1, 2};
  int status;
  (void)state;
  if (!g_fused.weights.data) skip();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    // What a sanitizer would tell about it is of no interest.
    close(STDERR_FILENO);
    signal(SIGSEGV, SIG_DFL);
    run(CRN_LINEAR_EXACT, 1, kOthers, NULL);
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(only_chosen_experts_are_read),
                                     cmocka_unit_test(reading_another_one_would_end_the_program)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
