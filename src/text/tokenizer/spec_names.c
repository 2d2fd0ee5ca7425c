// The pre-tokenizers GGUF knows by name. Each is a row of patterns; every pattern cuts what the one before left, and what a
// pattern does not match stays a part of its own. The patterns are those of the tokenizers the names stand for.
#include <string.h>

#include "text/tokenizer/spec_names.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define SPACE_TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SYMBOLS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
#define WORD_AND_NUMBERS(count) "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" count
#define LLAMA3 CONTRACTIONS WORD_AND_NUMBERS("{1,3}") SYMBOLS SPACE_TAIL
#define QWEN2 CONTRACTIONS WORD_AND_NUMBERS("") SYMBOLS SPACE_TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" tail
#define O200K CASED(CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACE_TAIL
#define TEKKEN CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACE_TAIL
#define DEEPSEEK_WORDS                                                                                  \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| " \
  "?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACE_TAIL
#define DEEPSEEK_CJK "[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+"
#define BLOOM " ?[^(\\s|.,!?\\u2026\\u3002\\uff0c\\u3001\\u0964\\u06d4\\u060c)]+"
// Letters with case of the scripts that have it, as the first DeepSeek tokenizers list them.
#define DEEPSEEK_LETTERS                                                                                               \
  "\\s?["                                                                                                              \
  "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}"     \
  "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"       \
  "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"         \
  "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}" \
  "\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}"  \
  "\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}"  \
  "\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"  \
  "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}"   \
  "\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"   \
  "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"  \
  "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}" \
  "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"          \
  "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"                                                                         \
  "]+"

#define DEEPSEEK_V3(words) \
  { "\\p{N}{1,3}", "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+", words }
#define NO_HAN_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define NO_HAN_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define FRONT "[^\\r\\n\\p{L}\\p{N}]?"
// Groups of three digits, counted from the end of the number.
#define DIGIT_GROUPS "(?<!\\p{N})\\p{N}{1,2}(?=(?:\\p{N}{3})*(?!\\p{N}))|\\p{N}{3}"
#define ASIAN                                                                                                                 \
  "[\\u4e00-\\u9fff\\u3400-\\u4dbf\\uf900-\\ufaff\\u3040-\\u309f\\u30a0-\\u30ff\\uff65-\\uff9f\\u2f00-\\u2fdf\\u0e00-\\u0e7f" \
  "\\u0e80-\\u0eff\\u1780-\\u17ff\\u1000-\\u109f\\uaa60-\\uaa7f\\ua9e0-\\ua9ff\\uac00-\\ud7af\\u1100-\\u11ff]+"
#define EXAONE_WORDS FRONT "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define MARKED_WORDS FRONT "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACE_TAIL
#define YOUTU_ASIAN                                                                                                          \
  "[\\uac00-\\ud7a3\\u3131-\\u318e]+|[\\uff01\\u2026\\u201c\\u201d\\u2018\\u2019\\u2014\\uff1a\\uff1b\\uff0c\\u3001-\\u303f" \
  "\\ufe30-\\ufe4f]+|[\\u3105-\\u312f]+|[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+"
#define SPARK_WORDS                                                                                     \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| " \
  "?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+"
#define HALVED_SPACES                                                                                                                    \
  "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!" \
  "\\S)|\\s"

static const crn_named_split splits[] = {
    {.names = "default", .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = "gpt-2 gpt2 mpt olmo jais trillion granite-docling phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code "
              "roberta-bpe gigachat a.x-4.0 mellum modern-bert exaone4",
     .patterns = {GPT2}},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", .patterns = {"\\p{N}", GPT2}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano glm4 glm5",
     .patterns = {LLAMA3},
     .ignore_merges = true},
    {.names = "dbrx smaug-bpe chatglm-bpe", .patterns = {LLAMA3}},
    {.names = "jais-2", .patterns = {CONTRACTIONS WORD_AND_NUMBERS("{1,3}") SYMBOLS "\\s*[\\r\\n]+|" HALVED_SPACES}},
    {.names = "minicpm5", .patterns = {"\\p{N}{1,3}", CONTRACTIONS WORD_AND_NUMBERS("+") SYMBOLS SPACE_TAIL}, .ignore_merges = true},
    {.names = "qwen2 stablelm2", .patterns = {QWEN2}, .compose = true},
    {.names = "qwen35", .patterns = {CONTRACTIONS "|" MARKED_WORDS}},
    {.names = "deepseek-r1-qwen megrez hunyuan grok-2 kormo f2llmv2 solar-open", .patterns = {QWEN2}},
    {.names = "ufakzeka", .patterns = {FRONT "\\p{L}+|\\p{N}" SYMBOLS SPACE_TAIL}},
    {.names = "laguna", .patterns = {"[^\\n]+|[\\n]+", QWEN2}},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2", .patterns = {O200K}},
    {.names = "granite-embed-multi-97m", .patterns = {O200K}, .ignore_merges = true},
    {.names = "tiny_aya cohere2moe", .patterns = {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K}},
    {.names = "tekken", .patterns = {TEKKEN}, .ignore_merges = true},
    {.names = "youtu",
     .patterns = {YOUTU_ASIAN, CASED(CONTRACTIONS "?") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACE_TAIL},
     .ignore_merges = true},
    {.names = "kimi-k2",
     .patterns = {"\\p{Han}+|" FRONT NO_HAN_UPPER "*" NO_HAN_LOWER "+" CONTRACTIONS "?|" FRONT NO_HAN_UPPER "+" NO_HAN_LOWER
                  "*" CONTRACTIONS "?|\\p{N}{1,3}" SYMBOLS SPACE_TAIL}},
    {.names = "deepseek-llm",
     .patterns = {"[\\r\\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~\\uff01-\\uff0f\\uff1a-\\uff5e\\u2018-\\u201f\\u3000-\\u3002]+", "\\s+$",
                  DEEPSEEK_CJK, "\\p{N}+"}},
    {.names = "deepseek-coder", .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4", .patterns = DEEPSEEK_V3(DEEPSEEK_WORDS)},
    {.names = "spark2_5", .patterns = DEEPSEEK_V3(SPARK_WORDS)},
    {.names = "afmoe", .patterns = {DIGIT_GROUPS, ASIAN, DEEPSEEK_WORDS}},
    {.names = "falcon", .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "bloom poro-chat gpt3-finnish", .patterns = {BLOOM}},
    {.names = "viking", .patterns = {BLOOM, "\\p{N}"}},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .patterns =
         {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = "seed-coder", .patterns = {CONTRACTIONS WORD_AND_NUMBERS("") "| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACE_TAIL}},
    {.names = "exaone-moe", .patterns = {CONTRACTIONS "|" EXAONE_WORDS}},
    {.names = "superbpe", .patterns = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {.names = "chameleon",
     .patterns = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]",
                  GPT2}},
    {.names = "gemma4 granite-embed-multi-311m sarvam-moe", .plain = true},
};

static bool lists_name(const char *names, const char *name) {
  size_t n = strlen(name);
  for (const char *p = names; n && (p = strstr(p, name)) != NULL; p++) {
    if ((p == names || p[-1] == ' ') && (p[n] == ' ' || p[n] == 0)) return true;
  }
  return false;
}

const crn_named_split *crn_named_split_find(const char *name) {
  for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
    if (!strchr(name, ' ') && lists_name(splits[i].names, name)) return &splits[i];
  }
  return NULL;
}
