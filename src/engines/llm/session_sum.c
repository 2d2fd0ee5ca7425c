#include "base/context.h"
#include "engines/llm/session_file.h"

typedef struct summer {
  const unsigned char *data;
  size_t bytes;
  uint64_t *sums;
} summer;

static void sum_pieces(void *user, int64_t begin, int64_t end, int worker) {
  const summer *s = user;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const size_t at = (size_t)i * CRN_SESSION_PIECE, n = s->bytes - at < CRN_SESSION_PIECE ? s->bytes - at : CRN_SESSION_PIECE;
    s->sums[i] = crn_session_piece_sum(s->data + at, n, (size_t)i);
  }
}

cairn_status crn_session_sum(cairn_context *context, const void *data, size_t bytes, uint64_t *out_sum) {
  const size_t n = bytes / CRN_SESSION_PIECE + (bytes % CRN_SESSION_PIECE != 0);
  summer s = {.data = data, .bytes = bytes};
  CRN_TRY(crn_alloc_array(&context->allocator, n, sizeof *s.sums, &s.sums));
  crn_pool_run(context->pool, (int64_t)n, 1, sum_pieces, &s);
  *out_sum = crn_session_sum_of(s.sums, n, bytes);
  crn_free(&context->allocator, s.sums, n * sizeof *s.sums);
  return CAIRN_OK;
}
