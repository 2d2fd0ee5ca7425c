#include "tools/generation.h"

#include <signal.h>
#include <string.h>

#include "import/safetensors.h"
#include "tools/json_writer.h"
#include "tools/session.h"
#include "tools/speculation.h"

int crn_generation_check_forced(crn_tool *t, const crn_generation_values *v) {
  const char *flag = v->greedy                     ? "--greedy"
                     : v->temperature.given        ? "--temperature"
                     : v->top_k.given              ? "--top-k"
                     : v->top_p.given              ? "--top-p"
                     : v->min_p.given              ? "--min-p"
                     : v->repetition_penalty.given ? "--repetition-penalty"
                     : v->seed.given               ? "--seed"
                     : v->stop.n                   ? "--stop"
                                                   : NULL;
  if (!flag) return TOOL_CONTINUE;
  return crn_tool_usage_error(t, "--force gives the tokens, all of them: %s would change nothing; leave one of them out", flag);
}

int crn_generation_check(crn_tool *t, const crn_generation_values *v) {
  bool filters = v->top_k.given || v->top_p.given || v->min_p.given;
  if (v->greedy && (filters || (v->temperature.given && v->temperature.value > 0)))
    return crn_tool_usage_error(t, "--greedy excludes --temperature, --top-k, --top-p and --min-p");
  if (v->repetition_window.given && !v->repetition_penalty.given)
    return crn_tool_usage_error(t, "--repetition-penalty-window requires --repetition-penalty");
  bool is_chunked = v->kv && strcmp(v->kv, "chunked") == 0, is_paged = is_chunked || (v->kv && strcmp(v->kv, "paged") == 0);
  if (v->kv_page.given && !is_paged) return crn_tool_usage_error(t, "--kv-page belongs to --kv paged and --kv chunked");
  if (v->kv_type && strcmp(v->kv_type, "auto") != 0 && !is_paged)
    return crn_tool_usage_error(t, "--kv-type %s belongs to --kv paged and --kv chunked", v->kv_type);
  if ((v->kv_window.given || v->kv_sinks.given) && !is_chunked)
    return crn_tool_usage_error(t, "--kv-window and --kv-sinks belong to --kv chunked");
  if (v->pipeline_depth.given && !(v->engine && strcmp(v->engine, "pipelined") == 0))
    return crn_tool_usage_error(t, "--pipeline-depth belongs to --engine pipelined");
  for (int i = 0; i < v->stop.n; i++)
    if (!v->stop.items[i][0]) return crn_tool_usage_error(t, "--stop is empty; a text to stop at is expected");
  return TOOL_CONTINUE;
}

cairn_status crn_generation_check_need(crn_tool *t, const cairn_llm *llm, crn_generation_need need) {
  cairn_status status = CAIRN_OK;
  if (need == CRN_NEED_TEXT) status = cairn_llm_has_text(llm);
  if (need == CRN_NEED_CHAT) status = cairn_llm_has_template(llm);
  crn_tool_release_log(t, status);
  return status;
}

static void note_capacity(crn_tool *t, const crn_generation_values *v, const cairn_llm *llm) {
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  if (v->kv_capacity.given && v->kv_capacity.value > info.kv_limit)
    crn_tool_note(t, "note: --kv-capacity %lld is more than the %lld tokens a sequence can have; %lld is used",
                  (long long)v->kv_capacity.value, (long long)info.kv_limit, (long long)info.kv_limit);
}

// --- tables of values for tokens ----------------------------------------------------------------------------------------

static cairn_status load_table(crn_tool *t, const char *option, cairn_named_array *out) {
  const char *equals = strchr(option, '=');
  crn_safetensors *file;
  if (!equals || equals == option || !equals[1]) return CRN_FAIL(INVALID_ARGUMENT, "--token-table '%s': expected INPUT=FILE", option);
  CRN_TRY(crn_arena_strndup(t->arena, option, (size_t)(equals - option), &out->name));
  CRN_TRY(crn_safetensors_open(NULL, equals + 1, &file));
  const crn_safetensors_entry *e = crn_safetensors_find(file, out->name);
  cairn_status status;
  if (!e) {
    status = CRN_FAIL(NOT_FOUND, "%s: there is no tensor '%s'", equals + 1, out->name);
  } else {
    status = cairn_ndarray_create(t->context, e->tensor.dtype, e->tensor.dims, e->tensor.rank, &out->array);
    if (status == CAIRN_OK) {
      size_t bytes = (size_t)cairn_ndarray_count(out->array) * cairn_dtype_bytes(e->tensor.dtype);
      status = cairn_ndarray_write(out->array, e->tensor.data, bytes);
    }
  }
  crn_safetensors_close(file);
  return status;
}

static cairn_status load_tables(crn_tool *t, const crn_option_list *list, cairn_named_array **out) {
  CRN_TRY(crn_arena_array(t->arena, (size_t)list->n + 1, sizeof **out, out));
  memset(*out, 0, ((size_t)list->n + 1) * sizeof **out);
  for (int i = 0; i < list->n; i++) CRN_TRY(load_table(t, list->items[i], &(*out)[i]));
  return CAIRN_OK;
}

static cairn_status open_llm(crn_tool *t, const char *path, const cairn_llm_options *options, const crn_option_list *tables,
                             cairn_llm **out_llm) {
  cairn_llm_options all = *options;
  cairn_named_array *list = NULL;
  cairn_status status = load_tables(t, tables, &list);
  all.token_tables = list;
  all.n_token_tables = tables->n;
  if (status == CAIRN_OK) status = cairn_llm_open(t->context, path, &all, out_llm);
  for (int i = 0; list && i < tables->n; i++) cairn_ndarray_release(list[i].array);
  return status;
}

cairn_status crn_generation_open(crn_tool *t, const char *name, const crn_generation_values *v, crn_generation_need need,
                                 cairn_llm **out_llm) {
  crn_source source;
  CRN_TRY(crn_tool_open_context(t));
  CRN_TRY(crn_source_find(t, name, NULL, &source));
  cairn_model_options model = {.strict_hash = v->strict_hash,
                               .precision = crn_precision_of(v->precision),
                               .device = crn_device_of(v->device),
                               .expect_frequent_reshapes = v->frequent_reshapes,
                               .progress = crn_tool_progress_callback,
                               .progress_user = t};
  cairn_llm_options options = {.engine = v->engine,
                               .pipeline_depth = (int)v->pipeline_depth.value,
                               .kv = v->kv,
                               .kv_capacity = v->kv_capacity.value,
                               .kv_page = v->kv_page.value,
                               .kv_window = v->kv_window.value,
                               .kv_sinks = v->kv_sinks.given && v->kv_sinks.value == 0 ? -1 : v->kv_sinks.value,
                               .kv_type = v->kv_type,
                               .prefill_chunk = v->prefill_chunk.value,
                               .max_context = v->max_context.value,
                               .tokenizer = v->tokenizer,
                               .prompt_cache = v->prompt_cache,
                               .model = &model};
  crn_tool_progress(t, "loading", 0, 0);
  crn_tool_hold_log(t);
  cairn_status status = open_llm(t, source.path, &options, &v->token_tables, out_llm);
  crn_tool_progress_clear(t);
  if (status != CAIRN_OK) {
    crn_tool_release_log(t, status);
    return status;
  }
  note_capacity(t, v, *out_llm);
  return crn_generation_check_need(t, *out_llm, need);
}

// More candidates or a longer window than there can be are as good as all.
static int32_t clamp_count(int64_t n) { return n > INT32_MAX ? INT32_MAX : n < INT32_MIN ? INT32_MIN : (int32_t)n; }

// Filters without a temperature would be left out by greedy sampling, which nobody who gives them wants.
cairn_sampling crn_generation_sampling(const crn_generation_values *v) {
  cairn_sampling s = {0};
  s.has_top_k = v->top_k.given;
  s.top_k = clamp_count(v->top_k.value);
  s.has_top_p = v->top_p.given;
  s.top_p = (float)v->top_p.value;
  s.has_min_p = v->min_p.given;
  s.min_p = (float)v->min_p.value;
  s.has_repetition_penalty = v->repetition_penalty.given;
  s.repetition_penalty = (float)v->repetition_penalty.value;
  s.has_repetition_window = v->repetition_window.given;
  s.repetition_window = clamp_count(v->repetition_window.value);
  s.has_seed = v->seed.given;
  s.seed = v->seed.value;
  bool filters = s.has_top_k || s.has_top_p || s.has_min_p;
  s.temperature = v->temperature.given ? (float)v->temperature.value : filters ? 1.0f : 0.0f;
  return s;
}

void crn_generation_fill(const crn_generation_values *v, cairn_generate_options *o) {
  o->sampling = crn_generation_sampling(v);
  o->stop = v->stop.items;
  o->n_stop = v->stop.n;
  o->ignore_eos = v->ignore_eos;
  o->keep_special_tokens = v->keep_special;
  if (v->overflow && strcmp(v->overflow, "slide") == 0) o->overflow.kind = CAIRN_OVERFLOW_SLIDE;
}

// --- interruption -----------------------------------------------------------------------------------------------------

static volatile sig_atomic_t g_interrupted;

static void on_interrupt(int signal_number) {
  (void)signal_number;
  g_interrupted = 1;
}

// Who started the program may want it to go on: in the background of a script the signal is ignored.
static bool g_is_ignored;

void crn_interrupt_catch(void) {
  // The second Ctrl-C finds the default action again, so that whatever hangs can be ended.
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND}, before;
  sigemptyset(&action.sa_mask);
  g_interrupted = 0;
  g_is_ignored = sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
  if (!g_is_ignored) sigaction(SIGINT, &action, NULL);
}

void crn_interrupt_release(void) {
  if (!g_is_ignored) signal(SIGINT, SIG_DFL);
}

bool crn_interrupt_pending(void) { return g_interrupted != 0; }

// --- streaming --------------------------------------------------------------------------------------------------------

bool crn_token_stream_cancelled(void *user) {
  (void)user;
  return crn_interrupt_pending();
}

static void measure(crn_token_stream *s) {
  double now = crn_tool_now();
  if (s->n_tokens == 0) s->first_time = now;
  if (s->n_tokens > 0) {
    double gap = now - s->last_time;
    if (s->n_tokens == 1 || gap < s->shortest) s->shortest = gap;
    if (s->n_tokens == 1 || gap > s->longest) s->longest = gap;
  }
  s->last_time = now;
  s->n_tokens++;
}

bool crn_token_stream_take(void *user, const cairn_token_event *event) {
  crn_token_stream *s = user;
  if (s->n_tokens == 0) crn_tool_progress_clear(s->t);
  if (event->token >= 0) measure(s);
  if (s->reply) return crn_reply_push(s->reply, event->text, event->text_bytes) && !crn_interrupt_pending();
  if (s->print && s->ids && event->token >= 0) {
    char text[32];
    crn_tool_text(s->t, text, (size_t)snprintf(text, sizeof text, "%s%d", s->n_tokens > 1 ? " " : "", (int)event->token));
  } else if (s->print && !s->ids && event->text_bytes) {
    crn_tool_text(s->t, event->text, event->text_bytes);
  }
  return !crn_interrupt_pending();
}

// --- reports ----------------------------------------------------------------------------------------------------------

static double rate(int64_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

void crn_generation_note_overflow(crn_tool *t, const cairn_generation_info *info) {
  if (!info->n_overflows) return;
  crn_tool_note(t, "(the context was full: %lld of the oldest tokens were dropped)", (long long)info->overflow_dropped);
}

void crn_generation_note(crn_tool *t, const cairn_generation_info *info) {
  crn_tool_note(t, "[%zu prompt tokens%s, %.1f tokens/s; %zu generated, %.1f tokens/s; %s]", info->n_prompt_tokens,
                info->prefix_hit ? " (partly reused)" : "", rate(info->prefill_tokens, info->prefill_seconds), info->n_tokens,
                rate(info->decode_tokens, info->decode_seconds), cairn_stop_reason_text(info->stop_reason));
  crn_speculation_note(t, info);
  crn_generation_note_overflow(t, info);
}

static void write_ids(crn_json_writer *w, const char *key, const int32_t *ids, size_t n) {
  crn_jw_key(w, key);
  crn_jw_open_array(w, true);
  for (size_t i = 0; i < n; i++) crn_jw_integer(w, ids[i]);
  crn_jw_close_array(w);
}

static void write_decision(crn_json_writer *w, const char *what, const char *chosen, const char *why) {
  crn_jw_open_inline_object(w);
  crn_jw_put_text(w, "what", what);
  crn_jw_put_text(w, "chosen", chosen);
  crn_jw_put_text(w, "why", why);
  crn_jw_close_object(w);
}

static void write_engine(crn_json_writer *w, const cairn_llm_info *llm, const crn_reply *reply) {
  crn_jw_put_text(w, "engine", llm->engine);
  crn_jw_put_text(w, "precision", llm->precision);
  crn_jw_put_text(w, "kv", llm->kv_strategy);
  crn_jw_put_integer(w, "kv_bytes", (int64_t)llm->kv_bytes);
  crn_jw_put_integer(w, "max_context", llm->max_context);
  crn_jw_key(w, "decisions");
  crn_jw_open_array(w, llm->n_decisions == 0 && !reply);
  for (int i = 0; i < llm->n_decisions; i++) write_decision(w, llm->decisions[i].what, llm->decisions[i].chosen, llm->decisions[i].why);
  if (reply && reply->is_auto) {
    cairn_dialogue_result result;
    cairn_dialogue_get(reply->dialogue, &result);
    bool is_known = result.format != CAIRN_DIALOGUE_GENERIC;
    write_decision(w, "tool_format", cairn_dialogue_format_text(result.format),
                   is_known ? "the chat template or the vocabulary shows it" : "neither chat template nor vocabulary shows another");
  }
  crn_jw_close_array(w);
}

cairn_status crn_generation_print_json(const cairn_llm *llm, const cairn_generation_info *g, const crn_str *text,
                                       const crn_generation_extras *extras) {
  const crn_reply *reply = extras->reply;
  const char *error = extras->error;
  cairn_llm_info info;
  crn_json_writer w;
  cairn_llm_describe(llm, &info);
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  write_ids(&w, "prompt_tokens", g->prompt_tokens, g->n_prompt_tokens);
  write_ids(&w, "tokens", g->tokens, g->n_tokens);
  crn_jw_key(&w, "text");
  crn_jw_text_n(&w, text->data, text->size);
  if (reply) crn_reply_write(&w, reply);
  crn_jw_put_text(&w, "stop_reason", cairn_stop_reason_text(g->stop_reason));
  if (g->stop_text[0]) crn_jw_put_text(&w, "stop_text", g->stop_text);
  if (error) crn_jw_put_text(&w, "error", error);
  crn_jw_key(&w, "timing");
  crn_jw_open_inline_object(&w);
  crn_jw_put_number(&w, "load_s", info.load_seconds);
  crn_jw_put_number(&w, "prefill_s", g->prefill_seconds);
  crn_jw_put_integer(&w, "prefill_tokens", g->prefill_tokens);
  crn_jw_put_number(&w, "decode_s", g->decode_seconds);
  crn_jw_put_integer(&w, "decode_tokens", g->decode_tokens);
  crn_jw_close_object(&w);
  crn_speculation_write(&w, g);
  crn_jw_put_integer(&w, "prefix_hit", g->prefix_hit);
  if (g->prefix_from_disk) crn_jw_put_integer(&w, "prefix_from_disk", g->prefix_from_disk);
  crn_session_write(&w, extras->session);
  if (g->n_overflows) {
    crn_jw_key(&w, "overflow");
    crn_jw_open_inline_object(&w);
    crn_jw_put_text(&w, "kind", g->overflow);
    crn_jw_put_integer(&w, "times", g->n_overflows);
    crn_jw_put_integer(&w, "dropped", g->overflow_dropped);
    crn_jw_close_object(&w);
  }
  if (g->guided) {
    crn_jw_key(&w, "guide");
    crn_jw_open_inline_object(&w);
    crn_jw_put_boolean(&w, "complete", g->guide_complete);
    crn_jw_put_number(&w, "mask_s", g->mask_seconds);
    crn_jw_put_number(&w, "wait_s", g->mask_wait_seconds);
    crn_jw_close_object(&w);
  }
  crn_jw_put_text(&w, "prompt_form", g->prompt_form);
  char seed[32];
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)g->seed);
  crn_jw_key(&w, "seed");
  crn_jw_raw(&w, seed);
  write_engine(&w, &info, reply);
  crn_jw_close_object(&w);
  cairn_status status = crn_jw_print(&w, stdout);
  crn_jw_deinitialize(&w);
  return status;
}
