/// Images of a sequence.
///
/// In the history, a token of an image is a negative number made of the image's number and the place in it. Equal pictures get equal
/// numbers, so the common prefix of two prompts is right for images as it is for text, and their rows are reused.
#ifndef CRN_ENGINES_LLM_VISION_H
#define CRN_ENGINES_LLM_VISION_H

#include <pthread.h>

#include "base/hash.h"
#include "base/vec.h"
#include "cairn/llm.h"

/// The images kept beyond those of the prompt at hand.
enum { CRN_VISION_KEPT_IMAGES = 16 };

typedef struct crn_vision_image {
  int32_t number;  ///< never given twice
  unsigned char digest[CRN_SHA256_BYTES];
  cairn_ndarray *features;  ///< [1, n, width]
  int n_uses;               ///< by prompts that are being fed: it is kept as long
} crn_vision_image;

/// One for all sequences of a model. Thread: safe, but for opening and closing.
typedef struct crn_vision {
  cairn_context *context;
  pthread_mutex_t lock;  ///< guards everything below the functions, and their preparation
  cairn_bundle_vision config;
  cairn_model *model;
  cairn_function *encode, *project;  ///< prepared with the first image; `project` NULL when one function does all
  CRN_VEC(crn_vision_image) images;  ///< the last used one last
  int32_t next_number;
  int64_t n_encoded;  ///< pictures computed so far; for tests
} crn_vision;

/// `model` is retained.
cairn_status crn_vision_open(cairn_context *context, const cairn_bundle_vision *config, cairn_model *model, crn_vision **out_vision);
void crn_vision_close(crn_vision *v);

/// Computes the images, or finds those that were there before, and puts their tokens in the places of `ids`: one image token for
/// each image or for each of its tokens. The images are kept until crn_vision_release gets the tokens.
/// Errors: INVALID_ARGUMENT naming both counts, and those of reading and running.
cairn_status crn_vision_place(crn_vision *v, const cairn_image *images, int n, int32_t **ids, size_t *n_ids, size_t *capacity);

/// The tokens of a prompt are not going to be fed any more: their images may be forgotten.
void crn_vision_release(crn_vision *v, const int32_t *ids, size_t n);

/// The number of the image a token is of, and the place of the token in it; and back.
int32_t crn_vision_number(const crn_vision *v, int32_t token, int64_t *out_row);
int32_t crn_vision_token_of(const crn_vision *v, int32_t number, int64_t row);
/// A copy of what is kept of an image, its features retained. Errors: FAILED_PRECONDITION (it is not kept any more).
cairn_status crn_vision_get(crn_vision *v, int32_t number, crn_vision_image *out_image);
/// Keeps features that were computed elsewhere, unless there are those of an equal picture. They are retained.
/// Errors: OUT_OF_RANGE, OUT_OF_MEMORY.
cairn_status crn_vision_put(crn_vision *v, const unsigned char digest[CRN_SHA256_BYTES], cairn_ndarray *features, int32_t *out_number);

/// The id that stands for a place of an image where a function takes ids.
int32_t crn_vision_token(const crn_vision *v);
/// Overwrites the rows of the image tokens among `tokens` in `embeds` [1, n, width].
cairn_status crn_vision_fill(crn_vision *v, const int32_t *tokens, int64_t n, cairn_ndarray *embeds);

#endif
