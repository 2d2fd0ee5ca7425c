#include "tools/import_report.h"

#include <string.h>

#include "execute/model.h"
#include "tools/describe.h"

// --- gathering --------------------------------------------------------------------------------------------------------

// Regions (bodies of loops and branches) count too; decomposition bodies do not exist in a built program.
static void count_block(crn_import_report *r, const crn_block *block, int depth) {
  enum { MAX_DEPTH = 64 };
  for (const crn_op *op = block->first; op && depth < MAX_DEPTH; op = op->next) {
    r->op_counts[op->id]++;
    r->n_ops++;
    if (op->id == CRN_OP_constant) r->weight_bytes += (int64_t)op->attr.constant->stored_bytes;
    for (uint32_t i = 0; i < op->n_regions; i++)
      for (uint32_t k = 0; k < op->regions[i].n_blocks; k++) count_block(r, op->regions[i].blocks[k], depth + 1);
  }
}

static void count_program(crn_import_report *r, const crn_program *program) {
  for (const crn_graph *g = program->first; g; g = g->next)
    if (g->body && !g->composite) count_block(r, g->body, 0);
}

cairn_status crn_import_report_open(crn_tool *t, const char *path, const cairn_model_options *options, crn_import_report *out) {
  *out = (crn_import_report){.path = path};
  cairn_status status;
  CRN_TRY_GOTO(crn_importer_find(path, &out->importer));
  CRN_TRY_GOTO(crn_import(t->context, path, &out->imported));
  count_program(out, out->imported.program);
  crn_program *program = out->imported.program;
  out->imported.program = NULL;  // taken over by the next call, whatever comes of it
  CRN_TRY_GOTO(crn_model_create_from_program(t->context, program, options, &out->model));
  out->n_functions = cairn_model_function_count(out->model);
  CRN_TRY_GOTO(crn_arena_array(t->arena, (size_t)out->n_functions, sizeof(void *), &out->functions));
  for (int i = 0; i < out->n_functions; i++) out->functions[i] = cairn_model_function_info(out->model, i);
done:
  if (status != CAIRN_OK) crn_import_report_close(out);
  return status;
}

void crn_import_report_close(crn_import_report *report) {
  cairn_model_release(report->model);
  report->model = NULL;
  crn_imported_model_destroy(&report->imported);
}

// --- showing ----------------------------------------------------------------------------------------------------------

static cairn_status print_stop_ids(const crn_imported_model *m) {
  if (!m->n_eos_ids) return CAIRN_OK;
  printf("  %-14s", "stop tokens");
  for (size_t i = 0; i < m->n_eos_ids; i++) {
    const char *token = m->tokenizer ? cairn_tokenizer_token(m->tokenizer, m->eos_ids[i]) : NULL;
    printf("%s %d%s%s", i ? "," : "", (int)m->eos_ids[i], token ? " " : "", token ? token : "");
  }
  putchar('\n');
  return CAIRN_OK;
}

cairn_status crn_import_report_print(const crn_import_report *r) {
  const crn_imported_model *m = &r->imported;
  char size[32];
  printf("  %-14s %s\n  %-14s %s\n", "importer", r->importer->name, "architecture", m->architecture);
  if (m->name[0]) printf("  %-14s %s\n", "name", m->name);
  printf("  %-14s %lld\n  %-14s %lld tokens\n", "vocabulary", (long long)m->vocab_size, "context", (long long)m->context_length);
  if (m->tokenizer)
    printf("  %-14s %d ids%s%s\n", "tokenizer", (int)cairn_tokenizer_vocab_size(m->tokenizer),
           m->add_bos ? ", adds a beginning-of-text token" : "", m->add_eos ? ", adds an end-of-text token" : "");
  else
    printf("  %-14s none\n", "tokenizer");
  CRN_TRY(print_stop_ids(m));
  if (m->chat_template)
    printf("  %-14s %zu bytes\n", "chat template", strlen(m->chat_template));
  else
    printf("  %-14s none\n", "chat template");
  for (int i = 0; i < r->n_functions; i++) CRN_TRY(crn_print_function(r->functions[i]));
  printf("operations %lld\nweights    %s\n", (long long)r->n_ops, crn_tool_size_text((double)r->weight_bytes, size, sizeof size));
  return CAIRN_OK;
}

static void write_tokenizer(crn_json_writer *w, const crn_imported_model *m) {
  crn_jw_key(w, "tokenizer");
  if (!m->tokenizer) {
    crn_jw_null(w);
    return;
  }
  crn_jw_open_object(w);
  crn_jw_put_integer(w, "vocab_size", cairn_tokenizer_vocab_size(m->tokenizer));
  crn_jw_put_integer(w, "bos_id", m->bos_id);
  crn_jw_put_integer(w, "eos_id", m->eos_id);
  crn_jw_put_boolean(w, "add_bos", m->add_bos);
  crn_jw_put_boolean(w, "add_eos", m->add_eos);
  crn_jw_key(w, "stop_ids");
  crn_jw_open_array(w, true);
  for (size_t i = 0; i < m->n_eos_ids; i++) crn_jw_integer(w, m->eos_ids[i]);
  crn_jw_close_array(w);
  crn_jw_close_object(w);
}

void crn_import_report_write(crn_json_writer *w, const crn_import_report *r) {
  const crn_imported_model *m = &r->imported;
  crn_jw_key(w, "functions");
  crn_jw_open_array(w, r->n_functions == 0);
  for (int i = 0; i < r->n_functions; i++) crn_write_function(w, r->functions[i]);
  crn_jw_close_array(w);
  crn_jw_key(w, "ops");
  crn_jw_open_object(w);
  for (int i = 1; i < CRN_OP_COUNT; i++)
    if (r->op_counts[i]) crn_jw_put_integer(w, crn_op_info_of((crn_op_id)i)->name, r->op_counts[i]);
  crn_jw_close_object(w);
  crn_jw_put_text(w, "importer", r->importer->name);
  crn_jw_put_text(w, "architecture", m->architecture);
  crn_jw_put_text(w, "name", m->name);
  crn_jw_put_integer(w, "vocab_size", m->vocab_size);
  crn_jw_put_integer(w, "context_length", m->context_length);
  write_tokenizer(w, m);
  crn_jw_put_boolean(w, "chat_template", m->chat_template != NULL);
  crn_jw_put_integer(w, "weight_bytes", r->weight_bytes);
}
