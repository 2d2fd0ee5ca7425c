/// The vision-language engine: the goldens of text and image prompts, several turns, places of images, picture files, refusals.
#include <math.h>
#include <unistd.h>

#include "engines/llm/internal.h"
#include "engines/llm/test_folder.h"
#include "engines/llm/vision.h"
#include "lm.h"
#include "tensor/half.h"

#define MODEL "tiny-qwen3_vl-vlm"

enum { VOCAB = 384, SIDE = 32, TOKENS = 4, IMAGE = 5 };

static cairn_context *g_context;
static test_folder g_folder;

static cairn_llm *open_model(void) {
  lm_need(LM_MODELS MODEL);
  return lm_open(g_context, MODEL, NULL);
}

static cairn_ndarray *golden_pixels(const crn_safetensors *file) {
  cairn_ndarray *pixels;
  lm_rows rows = lm_golden_rows(file, "in_pixel_values");
  assert_int_equal(rows.n * rows.width, 3 * SIDE * SIDE);
  LM_OK(cairn_ndarray_create(g_context, CAIRN_F32, (const int64_t[]){1, 3, SIDE, SIDE}, 4, &pixels));
  LM_OK(cairn_ndarray_write(pixels, rows.data, 3 * SIDE * SIDE * sizeof *rows.data));
  lm_rows_free(&rows);
  return pixels;
}

// --- goldens ----------------------------------------------------------------------------------------------------------

static void check_text(cairn_llm *llm, const crn_safetensors *file, const char *const *tokens, const char *const *goldens) {
  lm_rows expected = {0}, rows = {0};
  LM_OK(cairn_llm_reset(llm, 0));
  for (; *tokens; tokens++) {
    lm_ids ids = lm_golden_ids(file, *tokens);
    lm_feed(llm, ids.data, ids.n, ids.n, &rows);
    free(ids.data);
  }
  for (; *goldens; goldens++) {
    lm_rows part = lm_golden_rows(file, *goldens);
    for (int64_t r = 0; r < part.n; r++) lm_keep_row(&expected, 0, part.data + r * part.width, part.width);
    lm_rows_free(&part);
  }
  const lm_bound bound = lm_bound_of(CAIRN_F16);
  print_message("text: %.2f of the bound\n", lm_compare("text", &rows, &expected, &bound));
  lm_rows_free(&rows);
  lm_rows_free(&expected);
}

static void test_text_goldens(void **state) {
  (void)state;
  cairn_llm *llm = open_model();
  crn_safetensors *file = lm_goldens(MODEL);
  cairn_llm_info info;
  cairn_llm_images images;
  cairn_llm_describe(llm, &info);
  cairn_llm_describe_images(llm, &images);
  assert_string_equal(info.engine, getenv("CAIRN_TEST_ENGINE") ? "pipelined" : "vision");
  assert_int_equal(images.image_size, SIDE);
  assert_int_equal(images.image_tokens, TOKENS);
  assert_int_equal(images.image_token, IMAGE);
  check_text(llm, file, (const char *const[]){"in_promptA", "in_decodeA", NULL},
             (const char *const[]){"torch_A_prefill", "torch_A_steps", NULL});
  check_text(llm, file, (const char *const[]){"in_chunkB1", "in_chunkB2", "in_decodeB", NULL},
             (const char *const[]){"torch_B_chunk1", "torch_B_chunk2", "torch_B_steps", NULL});
  crn_safetensors_close(file);
  cairn_llm_close(llm);
}

typedef struct answer {
  lm_ids prompt, tokens;
  lm_rows rows;  ///< of the prompt from the first computed on, then of the tokens
  int64_t hit;
} answer;

static answer ask(cairn_llm *llm, const int32_t *tokens, size_t n, const cairn_image *images, int n_images, int64_t max, bool all) {
  answer a = {.hit = -1};
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options o = {.tokens = tokens,
                                    .n_tokens = n,
                                    .images = images,
                                    .n_images = n_images,
                                    .max_tokens = max,
                                    .ignore_eos = true,
                                    .on_logits = lm_keep_row,
                                    .prefill_logits = all,
                                    .user = &a.rows};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, &info);
  a.hit = info.prefix_hit;
  a.prompt.n = (int64_t)info.n_prompt_tokens;
  a.tokens.n = (int64_t)info.n_tokens;
  a.prompt.data = malloc(info.n_prompt_tokens * sizeof *tokens + 1);
  a.tokens.data = malloc(info.n_tokens * sizeof *tokens + 1);
  assert_true(a.prompt.data && a.tokens.data);
  memcpy(a.prompt.data, info.prompt_tokens, info.n_prompt_tokens * sizeof *tokens);
  memcpy(a.tokens.data, info.tokens, info.n_tokens * sizeof *tokens);
  cairn_generation_destroy(g);
  return a;
}

static void free_answer(answer *a) {
  free(a->prompt.data);
  free(a->tokens.data);
  lm_rows_free(&a->rows);
}

static void test_image_goldens(void **state) {
  (void)state;
  cairn_llm *llm = open_model();
  crn_safetensors *file = lm_goldens(MODEL);
  cairn_ndarray *pixels = golden_pixels(file);
  const cairn_image image = {.pixel_values = pixels};
  lm_ids prompt = lm_golden_ids(file, "img_prompt"), greedy = lm_golden_ids(file, "interp_img_greedy");
  lm_rows prefill = lm_golden_rows(file, "interp_img_prefill");
  const lm_bound bound = lm_bound_of(CAIRN_F16);
  answer a = ask(llm, prompt.data, (size_t)prompt.n, &image, 1, greedy.n, true);
  assert_int_equal(a.prompt.n, prompt.n);
  assert_memory_equal(a.prompt.data, prompt.data, (size_t)prompt.n * sizeof *prompt.data);
  for (int64_t i = 0; i < greedy.n; i++) assert_int_equal(a.tokens.data[i], greedy.data[i]);
  lm_rows rows = {.data = a.rows.data, .n = prompt.n, .width = VOCAB};
  print_message("image prompt: %.2f of the bound\n", lm_compare("image prompt", &rows, &prefill, &bound));
  // The features themselves.
  lm_rows features = {.n = TOKENS, .width = 64}, golden = lm_golden_rows(file, "interp_image_features");
  features.data = malloc((size_t)(TOKENS * 64) * sizeof(float));
  assert_int_equal(llm->model->vision->images.size, 1);
  const uint16_t *half = cairn_ndarray_data(llm->model->vision->images.items[0].features);
  for (int i = 0; i < TOKENS * 64; i++) features.data[i] = crn_f16_to_f32(half[i]);
  print_message("image features: %.2f of the bound\n", lm_compare("image features", &features, &golden, &bound));
  lm_rows_free(&features);
  lm_rows_free(&golden);
  lm_rows_free(&prefill);
  free_answer(&a);
  free(prompt.data);
  free(greedy.data);
  cairn_ndarray_release(pixels);
  crn_safetensors_close(file);
  cairn_llm_close(llm);
}

// --- turns ------------------------------------------------------------------------------------------------------------

static void paint(unsigned char *rgb, int side, int seed) {
  for (int i = 0; i < side * side * 3; i++) rgb[i] = (unsigned char)(i * 7 + i / 96 * 13 + seed * 57);
}

static void same_rows(const char *what, const answer *a, const answer *b) {
  assert_int_equal(a->tokens.n, b->tokens.n);
  assert_memory_equal(a->tokens.data, b->tokens.data, (size_t)a->tokens.n * sizeof *a->tokens.data);
  // The last rows are those of the tokens; a cold run with all rows has more in front.
  int64_t n = a->rows.n < b->rows.n ? a->rows.n : b->rows.n;
  assert_true(n > 0);
  if (memcmp(a->rows.data + (a->rows.n - n) * VOCAB, b->rows.data + (b->rows.n - n) * VOCAB, (size_t)(n * VOCAB) * sizeof(float)) != 0)
    fail_msg("%s: other bits than in a cold engine", what);
}

// Text, image, text, another image, the first image again: what was there before is kept, and every turn is that of a cold engine.
static void test_turns(void **state) {
  (void)state;
  cairn_llm *warm = open_model(), *cold = open_model();
  static unsigned char pictures[3][SIDE * SIDE * 3];
  for (int i = 0; i < 3; i++) paint(pictures[i], SIDE, i);
  cairn_image images[4];
  for (int i = 0; i < 4; i++) images[i] = (cairn_image){.rgb = pictures[i % 3], .width = SIDE, .height = SIDE};
  // Every place stands for the tokens of an image; each turn is the one before and some more.
  const int32_t turn[] = {7, 8, 3, IMAGE, 4, 9, 10, 30, 3, IMAGE, 4, 31, 32, 33, 3, IMAGE, 4, 34, 35};
  const size_t lengths[] = {3, 6, 8, 13, 19};
  const int n_images[] = {0, 1, 1, 2, 3};
  int64_t before = 0;
  for (int i = 0; i < 5; i++) {
    answer a = ask(warm, turn, lengths[i], images, n_images[i], 5, false);
    LM_OK(cairn_llm_reset(cold, 0));
    answer b = ask(cold, turn, lengths[i], images, n_images[i], 5, false);
    assert_int_equal(a.prompt.n, (int64_t)lengths[i] + (TOKENS - 1) * n_images[i]);
    assert_true(a.hit >= before);
    assert_int_equal(b.hit, 0);
    same_rows("a turn", &a, &b);
    before = a.prompt.n;
    free_answer(&a);
    free_answer(&b);
  }
  assert_int_equal(warm->model->vision->n_encoded, 3);  // each picture once
  // Another picture in the first place: only what is before it is kept. The same tokens alone would keep all.
  const cairn_image others[] = {images[1], images[1], images[2]};
  answer a = ask(warm, turn, lengths[4], others, 3, 5, false);
  LM_OK(cairn_llm_reset(cold, 0));
  answer b = ask(cold, turn, lengths[4], others, 3, 5, false);
  assert_int_equal(a.hit, 3);
  same_rows("another picture", &a, &b);
  assert_int_equal(warm->model->vision->n_encoded, 3);
  free_answer(&a);
  free_answer(&b);
  cairn_llm_close(warm);
  cairn_llm_close(cold);
}

// More pictures than are kept: they are computed again, with equal results.
static void test_many_pictures(void **state) {
  (void)state;
  cairn_llm *llm = open_model();
  static unsigned char picture[SIDE * SIDE * 3];
  const int32_t tokens[] = {3, IMAGE, 4, 9};
  answer first = {0};
  for (int i = 0; i < 40; i++) {
    paint(picture, SIDE, i % 20);
    const cairn_image image = {.rgb = picture, .width = SIDE, .height = SIDE};
    answer a = ask(llm, tokens, 4, &image, 1, 3, true);
    assert_true(llm->model->vision->images.size <= CRN_VISION_KEPT_IMAGES + 1);
    if (i == 0) {
      first = a;
    } else {
      if (i == 20) same_rows("computed again", &a, &first);
      free_answer(&a);
    }
  }
  free_answer(&first);
  cairn_llm_close(llm);
}

// --- conversations ------------------------------------------------------------------------------------------------------

static void test_conversations(void **state) {
  (void)state;
  cairn_llm *llm = open_model();
  static unsigned char picture[SIDE * SIDE * 3];
  paint(picture, SIDE, 1);
  const cairn_image images[] = {{.rgb = picture, .width = SIDE, .height = SIDE}, {.rgb = picture, .width = SIDE, .height = SIDE}};
  static const char kTwo[] =
      "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\"},\"b\",{\"type\":\"image\"}]}]";
  cairn_generate_options o = {
      .conversation = kTwo, .conversation_bytes = sizeof kTwo - 1, .images = images, .n_images = 2, .max_tokens = 1};
  cairn_generation *g;
  cairn_generation_info info;
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, &info);
  size_t n = 0;
  for (size_t i = 0; i < info.n_prompt_tokens; i++) n += info.prompt_tokens[i] == IMAGE;
  assert_int_equal(n, 2 * TOKENS);
  cairn_generation_destroy(g);
  // The images of a text come in front of it, raw or as a message.
  for (int form = CAIRN_PROMPT_RAW; form <= CAIRN_PROMPT_TEMPLATE; form++) {
    o = (cairn_generate_options){
        .text = "what is it", .text_bytes = 10, .form = (cairn_prompt_form)form, .images = images, .n_images = 1, .max_tokens = 1};
    LM_OK(cairn_llm_generate(llm, &o, &g));
    cairn_generation_get(g, &info);
    for (n = 0; info.prompt_tokens[n] != IMAGE; n++) continue;
    assert_int_equal(info.prompt_tokens[n - 1], 3);  // <|vision_start|>
    for (int i = 0; i < TOKENS; i++) assert_int_equal(info.prompt_tokens[n + (size_t)i], IMAGE);
    assert_int_equal(info.prompt_tokens[n + TOKENS], 4);
    cairn_generation_destroy(g);
  }
  cairn_llm_close(llm);
}

static void refuse(cairn_llm *llm, const int32_t *tokens, size_t n, const cairn_image *images, int n_images, cairn_status code,
                   const char *part) {
  cairn_generation *g;
  const cairn_generate_options o = {.tokens = tokens, .n_tokens = n, .images = images, .n_images = n_images, .max_tokens = 1};
  lm_expect(cairn_llm_generate(llm, &o, &g), code, part);
  assert_null(g);
}

static void test_refusals(void **state) {
  (void)state;
  cairn_llm *llm = open_model();
  static unsigned char picture[SIDE * SIDE * 3];
  const cairn_image good = {.rgb = picture, .width = SIDE, .height = SIDE}, both = {.rgb = picture, .path = "x", .width = 1, .height = 1},
                    missing = {.path = test_path(&g_folder, "none.png")}, huge = {.rgb = picture, .width = 1 << 20, .height = 1};
  const int32_t three[] = {7, IMAGE, IMAGE, IMAGE, 8};
  refuse(llm, three, 5, &good, 1, CAIRN_INVALID_ARGUMENT, "found 3 image placeholder tokens, expected 1 (one for each image) or 4");
  refuse(llm, three, 1, &good, 1, CAIRN_INVALID_ARGUMENT, "found 0 image placeholder tokens");
  refuse(llm, three, 2, &both, 1, CAIRN_INVALID_ARGUMENT, "image 0 is given in 2 forms");
  refuse(llm, three, 2, &missing, 1, CAIRN_NOT_FOUND, "none.png");
  refuse(llm, three, 2, &huge, 1, CAIRN_OUT_OF_RANGE, "1048576 x 1");
  cairn_llm_close(llm);
  llm = lm_open(g_context, "tiny-mistral-macos", NULL);
  refuse(llm, three, 1, &good, 1, CAIRN_UNSUPPORTED, "takes no images");
  cairn_llm_close(llm);
  lm_expect(cairn_llm_open(g_context, LM_MODELS MODEL "/" MODEL ".aimodel", NULL, &llm), CAIRN_UNSUPPORTED, "needs the bundle");
}

// A picture file gives the tokens its pixels give.
static void test_files(void **state) {
  (void)state;
  cairn_llm *llm = open_model();
  static unsigned char picture[SIDE * SIDE * 3];
  const int32_t tokens[] = {3, IMAGE, 4, 9};
  paint(picture, SIDE, 3);
  FILE *f = fopen(test_path(&g_folder, "p.ppm"), "wb");
  assert_non_null(f);
  fprintf(f, "P6\n# a comment\n%d %d\n255\n", SIDE, SIDE);
  assert_int_equal(fwrite(picture, 1, sizeof picture, f), sizeof picture);
  fclose(f);
  const cairn_image by_bytes = {.rgb = picture, .width = SIDE, .height = SIDE}, by_file = {.path = test_path(&g_folder, "p.ppm")};
  answer a = ask(llm, tokens, 4, &by_bytes, 1, 4, false), b = ask(llm, tokens, 4, &by_file, 1, 4, false);
  assert_int_equal(llm->model->vision->n_encoded, 1);
  assert_int_equal(b.hit, 6);
  assert_memory_equal(a.tokens.data, b.tokens.data, 4 * sizeof *tokens);
  free_answer(&a);
  free_answer(&b);
  cairn_llm_close(llm);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_text_goldens),  cmocka_unit_test(test_image_goldens),
                                     cmocka_unit_test(test_turns),         cmocka_unit_test(test_many_pictures),
                                     cmocka_unit_test(test_conversations), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_files)};
  g_context = lm_context(2);
  test_folder_create(&g_folder);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  test_folder_remove(&g_folder);
  cairn_context_release(g_context);
  return failed;
}
