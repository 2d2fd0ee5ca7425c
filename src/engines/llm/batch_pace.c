/// What steps take: how many tokens of prompts go with a step that may take so long, and what drafts cost.
#include "engines/llm/batch.h"

enum { FIRST_BUDGET = 64, KEPT = 8, DRAFTED_IN_A_ROW = 64 };

// A mean that forgets, so that it follows sequences that grow and machines that get other work.
static void mix(double *mean, double value, int64_t n) { *mean += (value - *mean) / (double)(n < KEPT ? n : KEPT); }

void crn_batch_pace_measure(crn_batch_pace *p, double seconds, int64_t prompt_tokens, int n_decoding) {
  if (prompt_tokens == 0) {
    mix(&p->step_seconds, seconds, ++p->n_steps);
  } else {
    // What a step takes without prompts is known, or there was nothing besides them.
    const double base = n_decoding ? p->step_seconds : 0;
    if (n_decoding && !p->n_steps) return;
    mix(&p->token_seconds, seconds > base ? (seconds - base) / (double)prompt_tokens : 0, ++p->n_tokens);
  }
}

int64_t crn_batch_pace_budget(const crn_batch_pace *p, double seconds, int64_t most) {
  if (!p->n_tokens) return FIRST_BUDGET < most ? FIRST_BUDGET : most;
  const double left = seconds - p->step_seconds, n = p->token_seconds > 0 ? left / p->token_seconds : (double)most;
  return n >= (double)most ? most : n <= CRN_BATCH_LEAST ? CRN_BATCH_LEAST : (int64_t)n;
}

// --- drafts -------------------------------------------------------------------------------------------------------------

// Every number of sequences by itself as long as it makes a difference.
static int load_of(int n) {
  return n <= CRN_BATCH_LOADS - 2 ? n - 1 : n <= 2 * CRN_BATCH_LOADS ? CRN_BATCH_LOADS - 2 : CRN_BATCH_LOADS - 1;
}

static int extra_of(int64_t n_drafts) {
  static const int64_t kFirst[CRN_BATCH_EXTRAS] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
  int i = CRN_BATCH_EXTRAS - 1;
  while (i > 0 && kFirst[i] > n_drafts) i--;
  return i;
}

// Times are noisy upwards: a far one counts as one at the edge of what is believed.
static void take(double *mean, double value, int64_t n) {
  enum { BELIEVED = 3 };
  mix(mean, *mean > 0 && value > BELIEVED * *mean ? BELIEVED * *mean : value, n);
}

void crn_batch_pace_runs(crn_batch_pace *p, int n, int64_t n_drafts, double seconds) {
  crn_batch_load *load = &p->loads[load_of(n)];
  p->n_drafted = n_drafts ? p->n_drafted + 1 : 0;
  if (n_drafts == 0) {
    take(&load->plain, seconds, ++load->n_plain);
    return;
  }
  if (!load->n_plain) return;
  const int i = extra_of(n_drafts);
  const double each = seconds > load->plain ? (seconds - load->plain) / (double)n_drafts : 0;
  // The first runs of their lengths make memory that no others will.
  if (load->n_row[i]++ > 0) take(&load->row[i], each, load->n_row[i] - 1);
}

double crn_batch_pace_plain(const crn_batch_pace *p, int n) { return p->loads[load_of(n)].plain; }

bool crn_batch_pace_is_due(const crn_batch_pace *p) { return p->n_drafted >= DRAFTED_IN_A_ROW; }

// Of a number of sequences of which nothing is known yet, what is known of one nearby.
static bool row_of(const crn_batch_pace *p, int n, int extra, double *out_row) {
  const int at = load_of(n);
  for (int far = 0; far < CRN_BATCH_LOADS; far++) {
    for (int i = at - far; i <= at + far; i += far ? 2 * far : 1) {
      if (i < 0 || i >= CRN_BATCH_LOADS || p->loads[i].n_row[extra] < 2) continue;
      *out_row = p->loads[i].row[extra];
      return true;
    }
  }
  return false;
}

double crn_batch_pace_more(const crn_batch_pace *p, int n, int64_t n_drafts) {
  if (n_drafts == 0) return 0;
  const int extra = extra_of(n_drafts);
  double row = 0;
  if (row_of(p, n, extra, &row)) return row * (double)n_drafts;
  // Between numbers that are known a row costs what it does with fewer; behind the largest nothing is known.
  bool is_between = false;
  for (int i = extra + 1; i < CRN_BATCH_EXTRAS && !is_between; i++) is_between = row_of(p, n, i, &row);
  for (int i = extra - 1; i >= 0 && is_between; i--) {
    if (row_of(p, n, i, &row)) break;
  }
  return is_between ? row * (double)n_drafts : -1;
}
