/// Everything of cairn in one include.
///
/// Rules of all headers: pointers must not be NULL unless the text says that NULL is allowed (release, close, destroy and retain take
/// NULL; so do the beginnings of lists, texts and buffers whose size is given as 0). Where NULL is not allowed, a call that gives a
/// status refuses it with INVALID_ARGUMENT, and any other gives nothing: 0, false, NULL, or what it gives for "there is none". A failing
/// call sets its out-handle to NULL. Names and texts are UTF-8.
#ifndef CAIRN_CAIRN_H
#define CAIRN_CAIRN_H

#include "cairn/asset.h"
#include "cairn/batch.h"
#include "cairn/bundle.h"
#include "cairn/context.h"
#include "cairn/dialogue.h"
#include "cairn/grammar.h"
#include "cairn/llm.h"
#include "cairn/model.h"
#include "cairn/ndarray.h"
#include "cairn/session.h"
#include "cairn/specialize.h"
#include "cairn/status.h"
#include "cairn/stream.h"
#include "cairn/template.h"
#include "cairn/tokenizer.h"
#include "cairn/trace.h"

#endif
