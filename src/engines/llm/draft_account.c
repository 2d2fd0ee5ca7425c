/// Whether drafts pay.
///
/// A run of k + 1 tokens costs more than a run of one, and gives one token more for every draft in front of the first wrong one. Both are
/// measured: the costs as ratios of times, the guesses by class. Estimates can be wrong, so there is a balance besides: what drafts won or
/// lost, counted in runs of one. Guesses that are not expected to pay are tried only as far as the balance allows, and every run adds a
/// little to it; after a loss nothing is drafted until that has made up for it. So no text, however misleading, loses more than the
/// allowance and the one loss before the balance is noticed.
#include "engines/llm/draft.h"

static const double kAllowance = 0.01;  // of a run, for every run: what guesses that are not known to pay may cost
static const double kFirst = 0.5, kBest = 3, kWorst = -1;
static const double kRisk = 0.5;        // a draft may lose so much more than what is left above the worst balance
static const double kSlope = 0.2;       // of the cost of a further token, before any was measured
static const double kLeastRate = 1.03;  // less is within the error of the estimates
static const double kRemembered = 12;   // guesses that what a class did before counts for at most

void crn_draft_account_initialize(crn_draft_account *a) {
  // Of how many guesses of each class are right, before any was seen. Together they weigh as much as two guesses.
  static const double kRight[CRN_DRAFT_CLASSES] = {0.98, 0.6, 0.3, 0.4, 0.5, 0.7, 0.85};
  *a = (crn_draft_account){.balance = kFirst};
  for (int i = 0; i < CRN_DRAFT_CLASSES; i++) {
    a->classes[i].all = 2;
    a->classes[i].right = 2 * kRight[i];
  }
}

// Between lengths that are known costs rise evenly, behind the longest as they do up to there.
static double cost_of(const crn_draft_account *a, int64_t n) {
  int64_t below = n, above = n;
  while (below > 1 && a->cost[below] <= 0) below--;
  while (above <= CRN_DRAFT_MOST + 1 && a->cost[above] <= 0) above++;
  const double low = below > 1 ? a->cost[below] : 1;
  if (below == n) return low;
  if (above <= CRN_DRAFT_MOST + 1) return low + (a->cost[above] - low) * (double)(n - below) / (double)(above - below);
  const double slope = below > 1 ? (low - 1) / (double)(below - 1) : kSlope;
  return low + (slope > 0 ? slope : 0) * (double)(n - below);
}

// Tokens of the longest run to try: longer ones when what half of it costs is known.
static int64_t longest(const crn_draft_account *a) {
  int64_t known = CRN_DRAFT_MOST + 1;
  while (known > 1 && a->cost[known] <= 0) known--;
  return known * 2;
}

// Few different lengths: a run of a length like the last one is prepared faster.
static bool is_usual(int64_t n) { return n <= 4 || n == 6 || n == 8 || n == 12 || n >= 16; }

int64_t crn_draft_account_choose(const crn_draft_account *a, crn_draft_class class, int64_t most, double *out_rate) {
  const double p = a->classes[class].right / a->classes[class].all, each = a->one > 0 ? a->each[class] / a->one : 0;
  double expected = 0, chance = 1, best_rate = 0, loss = 0;
  int64_t best = 0;
  *out_rate = 1;
  if (a->one <= 0 || a->is_blocked) return 0;
  if (most > longest(a) - 1) most = longest(a) - 1;
  for (int64_t k = 1; k <= most; k++) {
    chance *= p;
    expected += chance;
    if (!is_usual(k + 1) && k < most) continue;
    const double cost = cost_of(a, k + 1) + (double)k * each, rate = (1 + expected) / cost;
    if (rate <= best_rate || cost - 1 > a->balance - kWorst + kRisk) continue;
    best_rate = rate;
    best = k;
    loss = cost - 1 - expected;
  }
  *out_rate = best_rate;
  if (best_rate >= kLeastRate) return best;
  return a->balance - loss >= 0 ? best : 0;
}

// Times are noisy, most of all upwards: a far one counts as one at the edge of what is believed.
static double smooth(double before, double sample, double weight) {
  if (before <= 0) return sample;
  if (sample > 3 * before) sample = 3 * before;
  return before + weight * (sample - before);
}

static void add(crn_draft_account *a, double won) {
  a->balance += won;
  if (a->balance > kBest) a->balance = kBest;
  if (a->balance <= kWorst) {
    a->balance = kWorst;
    a->is_blocked = true;
  }
  if (a->balance > 0) a->is_blocked = false;
}

void crn_draft_account_tell(crn_draft_account *a, double one, const double *more, int64_t n) {
  a->one = one;
  for (int64_t k = 1; k <= CRN_DRAFT_MOST; k++) a->cost[k + 1] = k <= n && one > 0 ? 1 + more[k - 1] / one : 0;
}

void crn_draft_account_plain(crn_draft_account *a, double seconds) {
  a->one = smooth(a->one, seconds, 0.1);
  add(a, kAllowance);
}

static void count_right(crn_draft_account *a, const crn_draft_outcome *o) {
  const int64_t tried = o->n_accepted + (o->is_refuted ? 1 : 0);
  if (!tried) return;
  double right = a->classes[o->class].right, all = a->classes[o->class].all;
  if (all > kRemembered) right *= kRemembered / all, all = kRemembered;
  a->classes[o->class].right = right + (double)o->n_accepted;
  a->classes[o->class].all = all + (double)tried;
}

void crn_draft_account_take(crn_draft_account *a, const crn_draft_outcome *o) {
  const int64_t n = o->n_drafted + 1;
  count_right(a, o);
  if (o->seconds <= 0) return;  // nobody measured it
  if (!o->is_first_draft) a->each[o->class] = smooth(a->each[o->class], o->drafting_seconds / (double)o->n_drafted, 0.2);
  if (a->one <= 0) return;
  double cost = o->seconds / a->one;
  const double expected = cost_of(a, n);
  const bool is_new = !a->was_run[n];
  a->was_run[n] = true;
  // The first run of a length makes memory for it, which no other will: it says nothing about the others.
  if (!is_new) a->cost[n] = smooth(a->cost[n], cost, 0.2);
  if (cost > (is_new ? 1.25 : 3) * expected) cost = (is_new ? 1.25 : 3) * expected;
  const double drafting = o->is_first_draft ? (double)o->n_drafted * a->each[o->class] : o->drafting_seconds;
  add(a, (double)(1 + o->n_accepted) - cost - drafting / a->one + kAllowance);
}
