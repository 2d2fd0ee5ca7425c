/// Everything of cairn in one include.
#ifndef CAIRN_CAIRN_H
#define CAIRN_CAIRN_H

#include "cairn/asset.h"
#include "cairn/bundle.h"
#include "cairn/context.h"
#include "cairn/llm.h"
#include "cairn/model.h"
#include "cairn/ndarray.h"
#include "cairn/status.h"
#include "cairn/template.h"
#include "cairn/tokenizer.h"

#endif
