/// Everything of cairn in one include.
///
/// Rules of all headers: handles and out-pointers must not be NULL unless the text says that NULL is allowed (release,
/// close and destroy take NULL). A failing call sets its out-handle to NULL. Names and texts are UTF-8.
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
