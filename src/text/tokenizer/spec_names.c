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
#define DEEPSEEK_WORDS                                                                                                             \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" \
  SPACE_TAIL
#define DEEPSEEK_CJK "[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+"
#define BLOOM " ?[^(\\s|.,!?…。，、।۔،)]+"
// Letters with case of the scripts that have it, as the first DeepSeek tokenizers list them.
#define DEEPSEEK_LETTERS                                                                                                       \
  "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼι"              \
  "ῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲" \
  "𑢠-𑣟𞤀-𞥃]+"

static const crn_named_split splits[] = {
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
    {"gpt-2 gpt2 mpt olmo jais trillion granite-docling phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe "
     "gigachat a.x-4.0 mellum modern-bert",
     {GPT2},
     false,
     false},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b", {"\\p{N}", GPT2}, false, false},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", {LLAMA3}, true, false},
    {"dbrx smaug-bpe chatglm-bpe glm4", {LLAMA3}, false, false},
    {"qwen2 stablelm2", {QWEN2}, false, true},
    {"deepseek-r1-qwen megrez hunyuan grok-2", {QWEN2}, false, false},
    {"gpt-4o llama4", {O200K}, false, false},
    {"tekken", {TEKKEN}, true, false},
    {"deepseek-llm", {"[\\r\\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟\\u3000-。]+", "\\s+$", DEEPSEEK_CJK, "\\p{N}+"}, false, false},
    {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}, false, false},
    {"deepseek-v3 hunyuan-dense", {"\\p{N}{1,3}", "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+", DEEPSEEK_WORDS}, false, false},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, false, false},
    {"bloom poro-chat gpt3-finnish", {BLOOM}, false, false},
    {"viking", {BLOOM, "\\p{N}"}, false, false},
    {"bailingmoe bailingmoe2 llada-moe",
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
     false,
     false},
    {"seed-coder", {CONTRACTIONS WORD_AND_NUMBERS("") "| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACE_TAIL}, false, false},
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
