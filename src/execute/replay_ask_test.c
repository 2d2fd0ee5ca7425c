// What is asked for behind a product: all the next steps touch as far as the next product, nothing else, and no more than a bounded number
// of steps. The source is included with a recorder in place of the instruction, which leaves no other trace.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void record(const void *at);
#define CRN_ASK_FOR(at) record(at)
#define crn_replay_ask asked_by_the_test
#include "execute/replay_ask.c"

enum { STEPS = 40, SLOTS = 3 * STEPS, MOST_ASKED = 4096 };

static uintptr_t g_asked[MOST_ASKED];
static int g_n_asked;

static void record(const void *at) {
  assert_true(g_n_asked < MOST_ASKED);
  g_asked[g_n_asked++] = (uintptr_t)at / LINE;
}

/// Everything lies in lines of its own, so that each says what it was asked for.
typedef struct lines {
  _Alignas(64) unsigned char fused[STEPS][2 * LINE];
  _Alignas(64) struct { _Alignas(64) crn_tensor tensors[3]; } operands[STEPS];
  _Alignas(64) struct { _Alignas(64) crn_slot slot; } unused;
  _Alignas(64) char keys[2][LINE], names[2][LINE];
  _Alignas(64) crn_attr attrs;
  _Alignas(64) crn_composite_decl composite;
  _Alignas(64) crn_attr items[2];
} lines;

typedef struct fixture {
  crn_step steps[STEPS];
  crn_step_memo memos[STEPS];
  crn_slot slots[SLOTS];
  uint32_t in[STEPS][2], out[STEPS][1], next[STEPS + 1];
  const char *input_names[2];
  lines lines;
  crn_plan plan;
  crn_replay replay;
  crn_workspace workspace;
} fixture;

static fixture f;

// Steps of two operands and one result, of which the schedule looks at all.
static void make(void) {
  memset(&f, 0, sizeof f);
  g_n_asked = 0;
  for (uint32_t i = 0; i < STEPS; i++) {
    f.in[i][0] = 3 * i, f.in[i][1] = 3 * i + 1, f.out[i][0] = 3 * i + 2;
    f.steps[i].n_in = 2, f.steps[i].n_out = 1;
    f.steps[i].in = f.in[i], f.steps[i].out = f.out[i];
    f.memos[i].operands = f.lines.operands[i].tensors;
    f.next[i] = i;
  }
  f.next[STEPS] = STEPS;
  f.plan.steps = f.steps, f.plan.n_steps = STEPS;
  f.replay.steps = f.memos, f.replay.next_active = f.next;
  f.workspace.plan = &f.plan, f.workspace.replay = &f.replay, f.workspace.slots = f.slots;
}

static bool is_line_asked(uintptr_t line) {
  for (int i = 0; i < g_n_asked; i++) {
    if (g_asked[i] == line) return true;
  }
  return false;
}

// Whether every line of a thing was asked for.
static bool is_asked(const void *data, size_t bytes) {
  for (uintptr_t line = (uintptr_t)data / LINE; line <= ((uintptr_t)data + bytes - 1) / LINE; line++) {
    if (!is_line_asked(line)) return false;
  }
  return true;
}

// Whether a line that belongs to this thing alone was.
static bool is_touched(const void *data, size_t bytes) {
  for (uintptr_t line = ((uintptr_t)data + LINE - 1) / LINE; (line + 1) * LINE <= (uintptr_t)data + bytes; line++) {
    if (is_line_asked(line)) return true;
  }
  return false;
}

// Of a tensor, what there is of it up to the usual rank.
static bool is_tensor_asked(const crn_tensor *t) {
  return is_asked(t, offsetof(crn_tensor, dims) + USUAL_RANK * sizeof *t->dims) && is_asked(t->strides, USUAL_RANK * sizeof *t->strides);
}

static bool are_operands_asked(int i) {
  const crn_tensor *t = f.lines.operands[i].tensors;
  return is_tensor_asked(t) && is_tensor_asked(t + 1) && is_tensor_asked(t + 2);
}

static bool are_slots_asked(int i) {
  bool asked = true;
  for (int k = 3 * i; k < 3 * i + 3; k++) asked &= is_tensor_asked(&f.slots[k].tensor) && is_asked(&f.slots[k].buffer, sizeof(void *));
  return asked;
}

static bool are_operands_touched(int i) { return is_touched(&f.lines.operands[i], sizeof f.lines.operands[i]); }
static bool are_slots_touched(int i) { return is_touched(&f.slots[3 * i], 3 * sizeof *f.slots); }

static void test_as_far_as_the_next_product(void **state) {
  (void)state;
  make();
  f.memos[7].is_streaming = true;
  f.steps[5].fused = f.lines.fused[5];
  f.steps[8].fused = f.lines.fused[8];
  asked_by_the_test(&f.workspace, 3);
  for (int i = 3; i <= 7; i++) {
    assert_true(is_asked(&f.steps[i], sizeof *f.steps));
    assert_true(is_asked(&f.memos[i], sizeof *f.memos));
    assert_true(are_operands_asked(i));
    assert_true(are_slots_asked(i));
  }
  assert_true(is_asked(f.lines.fused[5], 2 * LINE));
  // What is behind the product comes with the next call; what is in front of the first step is over.
  assert_false(is_touched(f.lines.fused[8], 2 * LINE));
  for (int i = 0; i < STEPS; i++) {
    if (i >= 3 && i <= 7) continue;
    assert_false(are_operands_touched(i));
    assert_false(are_slots_touched(i));
  }
}

static void test_steps_the_schedule_leaves_out(void **state) {
  (void)state;
  make();
  // Only every fourth step is looked at, and of those that are settled the slots are not.
  for (uint32_t i = 0; i <= STEPS; i++) f.next[i] = (i + 3) / 4 * 4;
  f.memos[8].is_settled = true;
  f.memos[16].is_streaming = true;
  asked_by_the_test(&f.workspace, 5);
  for (int i = 0; i < STEPS; i++) {
    const bool is_active = i % 4 == 0 && i >= 8 && i <= 16;
    assert_int_equal(are_operands_asked(i), is_active);
    assert_int_equal(are_operands_touched(i), is_active);
    assert_int_equal(are_slots_asked(i), is_active && i != 8);
    if (i % 4 == 0) assert_int_equal(are_slots_touched(i), is_active && i != 8);
  }
}

static void test_composites(void **state) {
  (void)state;
  make();
  lines *l = &f.lines;
  for (int i = 0; i < 2; i++) {
    l->items[i].key = l->keys[i];
    f.input_names[i] = l->names[i];
  }
  l->attrs = (crn_attr){.kind = CRN_ATTR_DICT, .list = {l->items, 2}};
  l->composite = (crn_composite_decl){.name = "x", .n_inputs = 2, .input_names = f.input_names, .attrs = &l->attrs};
  f.steps[1].composite = &l->composite;
  f.memos[1].is_settled = true;
  asked_by_the_test(&f.workspace, 0);
  assert_true(is_asked(&l->composite, 1));
  assert_true(is_asked(&l->attrs, sizeof l->attrs));
  for (int i = 0; i < 2; i++) {
    assert_true(is_asked(l->keys[i], 1));
    assert_true(is_asked(l->names[i], 1));
  }
  // One without attributes, and with others than a dictionary.
  l->composite.attrs = NULL;
  asked_by_the_test(&f.workspace, 0);
  l->attrs = (crn_attr){.kind = CRN_ATTR_INT};
  l->composite.attrs = &l->attrs;
  g_n_asked = 0;
  asked_by_the_test(&f.workspace, 0);
  assert_false(is_asked(l->keys[0], 1));
  assert_true(is_asked(l->names[1], 1));
}

static void test_bounds(void **state) {
  (void)state;
  make();
  // Without a product it ends after so many steps, ...
  asked_by_the_test(&f.workspace, 0);
  for (int i = 0; i < STEPS; i++) {
    assert_int_equal(are_operands_touched(i), i < MOST_STEPS);
    assert_int_equal(is_touched(&f.memos[i], sizeof *f.memos), i < MOST_STEPS);
  }
  // ... and at the end of the plan, behind which there is nothing.
  make();
  asked_by_the_test(&f.workspace, STEPS - 2);
  for (int i = 0; i < STEPS; i++) assert_int_equal(are_operands_touched(i), i >= STEPS - 2);
  make();
  asked_by_the_test(&f.workspace, STEPS);
  assert_int_equal(g_n_asked, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_far_as_the_next_product),
                                     cmocka_unit_test(test_steps_the_schedule_leaves_out), cmocka_unit_test(test_composites),
                                     cmocka_unit_test(test_bounds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
