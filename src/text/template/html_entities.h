/// Names of characters in HTML text, sorted. `bare` names are also read without a semicolon.
///
/// These are the names of HTML 4 and the common ones of HTML 5; other names of HTML 5 stay as they are written.
#ifndef CRN_TEXT_TEMPLATE_HTML_ENTITIES_H
#define CRN_TEXT_TEMPLATE_HTML_ENTITIES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct html_entity {
  const char *name;
  uint32_t code;
  bool bare;
} html_entity;

// clang-format off
static const html_entity g_entities[] = {
    {"AElig", 0xc6, true}, {"AMP", 0x26, true}, {"Aacute", 0xc1, true}, {"Acirc", 0xc2, true}, {"Agrave", 0xc0, true},
    {"Alpha", 0x391, false}, {"Aring", 0xc5, true}, {"Atilde", 0xc3, true}, {"Auml", 0xc4, true}, {"Beta", 0x392, false},
    {"COPY", 0xa9, true}, {"Ccedil", 0xc7, true}, {"Chi", 0x3a7, false}, {"Dagger", 0x2021, false}, {"Delta", 0x394, false},
    {"ETH", 0xd0, true}, {"Eacute", 0xc9, true}, {"Ecirc", 0xca, true}, {"Egrave", 0xc8, true}, {"Epsilon", 0x395, false},
    {"Eta", 0x397, false}, {"Euml", 0xcb, true}, {"GT", 0x3e, true}, {"Gamma", 0x393, false}, {"Hat", 0x5e, false},
    {"Iacute", 0xcd, true}, {"Icirc", 0xce, true}, {"Igrave", 0xcc, true}, {"Iota", 0x399, false}, {"Iuml", 0xcf, true},
    {"Kappa", 0x39a, false}, {"LT", 0x3c, true}, {"Lambda", 0x39b, false}, {"Mu", 0x39c, false}, {"NewLine", 0xa, false},
    {"Ntilde", 0xd1, true}, {"Nu", 0x39d, false}, {"OElig", 0x152, false}, {"Oacute", 0xd3, true}, {"Ocirc", 0xd4, true},
    {"Ograve", 0xd2, true}, {"Omega", 0x3a9, false}, {"Omicron", 0x39f, false}, {"Oslash", 0xd8, true}, {"Otilde", 0xd5, true},
    {"Ouml", 0xd6, true}, {"Phi", 0x3a6, false}, {"Pi", 0x3a0, false}, {"Prime", 0x2033, false}, {"Psi", 0x3a8, false},
    {"QUOT", 0x22, true}, {"REG", 0xae, true}, {"Rho", 0x3a1, false}, {"Scaron", 0x160, false}, {"Sigma", 0x3a3, false},
    {"THORN", 0xde, true}, {"Tab", 0x9, false}, {"Tau", 0x3a4, false}, {"Theta", 0x398, false}, {"Uacute", 0xda, true},
    {"Ucirc", 0xdb, true}, {"Ugrave", 0xd9, true}, {"Upsilon", 0x3a5, false}, {"Uuml", 0xdc, true}, {"Xi", 0x39e, false},
    {"Yacute", 0xdd, true}, {"Yuml", 0x178, false}, {"Zeta", 0x396, false}, {"aacute", 0xe1, true}, {"acirc", 0xe2, true},
    {"acute", 0xb4, true}, {"aelig", 0xe6, true}, {"agrave", 0xe0, true}, {"alefsym", 0x2135, false}, {"alpha", 0x3b1, false},
    {"amp", 0x26, true}, {"and", 0x2227, false}, {"ang", 0x2220, false}, {"apos", 0x27, false}, {"aring", 0xe5, true},
    {"ast", 0x2a, false}, {"asymp", 0x2248, false}, {"atilde", 0xe3, true}, {"auml", 0xe4, true}, {"bdquo", 0x201e, false},
    {"beta", 0x3b2, false}, {"brvbar", 0xa6, true}, {"bsol", 0x5c, false}, {"bull", 0x2022, false}, {"cap", 0x2229, false},
    {"ccedil", 0xe7, true}, {"cedil", 0xb8, true}, {"cent", 0xa2, true}, {"check", 0x2713, false}, {"chi", 0x3c7, false},
    {"circ", 0x2c6, false}, {"clubs", 0x2663, false}, {"colon", 0x3a, false}, {"comma", 0x2c, false}, {"commat", 0x40, false},
    {"cong", 0x2245, false}, {"copy", 0xa9, true}, {"crarr", 0x21b5, false}, {"cross", 0x2717, false}, {"cup", 0x222a, false},
    {"curren", 0xa4, true}, {"dArr", 0x21d3, false}, {"dagger", 0x2020, false}, {"darr", 0x2193, false}, {"deg", 0xb0, true},
    {"delta", 0x3b4, false}, {"diams", 0x2666, false}, {"divide", 0xf7, true}, {"dollar", 0x24, false}, {"eacute", 0xe9, true},
    {"ecirc", 0xea, true}, {"egrave", 0xe8, true}, {"empty", 0x2205, false}, {"emsp", 0x2003, false}, {"ensp", 0x2002, false},
    {"epsilon", 0x3b5, false}, {"equals", 0x3d, false}, {"equiv", 0x2261, false}, {"eta", 0x3b7, false}, {"eth", 0xf0, true},
    {"euml", 0xeb, true}, {"euro", 0x20ac, false}, {"excl", 0x21, false}, {"exist", 0x2203, false}, {"fnof", 0x192, false},
    {"forall", 0x2200, false}, {"frac12", 0xbd, true}, {"frac14", 0xbc, true}, {"frac34", 0xbe, true}, {"frasl", 0x2044, false},
    {"gamma", 0x3b3, false}, {"ge", 0x2265, false}, {"grave", 0x60, false}, {"gt", 0x3e, true}, {"hArr", 0x21d4, false},
    {"harr", 0x2194, false}, {"hearts", 0x2665, false}, {"hellip", 0x2026, false}, {"iacute", 0xed, true}, {"icirc", 0xee, true},
    {"iexcl", 0xa1, true}, {"igrave", 0xec, true}, {"image", 0x2111, false}, {"infin", 0x221e, false}, {"int", 0x222b, false},
    {"iota", 0x3b9, false}, {"iquest", 0xbf, true}, {"isin", 0x2208, false}, {"iuml", 0xef, true}, {"kappa", 0x3ba, false},
    {"lArr", 0x21d0, false}, {"lambda", 0x3bb, false}, {"lang", 0x27e8, false}, {"laquo", 0xab, true}, {"larr", 0x2190, false},
    {"lbrace", 0x7b, false}, {"lbrack", 0x5b, false}, {"lceil", 0x2308, false}, {"lcub", 0x7b, false}, {"ldquo", 0x201c, false},
    {"le", 0x2264, false}, {"lfloor", 0x230a, false}, {"lowast", 0x2217, false}, {"lowbar", 0x5f, false}, {"loz", 0x25ca, false},
    {"lpar", 0x28, false}, {"lrm", 0x200e, false}, {"lsaquo", 0x2039, false}, {"lsqb", 0x5b, false}, {"lsquo", 0x2018, false},
    {"lt", 0x3c, true}, {"macr", 0xaf, true}, {"mdash", 0x2014, false}, {"micro", 0xb5, true}, {"middot", 0xb7, true},
    {"minus", 0x2212, false}, {"mu", 0x3bc, false}, {"nabla", 0x2207, false}, {"nbsp", 0xa0, true}, {"ndash", 0x2013, false},
    {"ne", 0x2260, false}, {"ni", 0x220b, false}, {"not", 0xac, true}, {"notin", 0x2209, false}, {"nsub", 0x2284, false},
    {"ntilde", 0xf1, true}, {"nu", 0x3bd, false}, {"num", 0x23, false}, {"oacute", 0xf3, true}, {"ocirc", 0xf4, true},
    {"oelig", 0x153, false}, {"ograve", 0xf2, true}, {"oline", 0x203e, false}, {"omega", 0x3c9, false}, {"omicron", 0x3bf, false},
    {"oplus", 0x2295, false}, {"or", 0x2228, false}, {"ordf", 0xaa, true}, {"ordm", 0xba, true}, {"oslash", 0xf8, true},
    {"otilde", 0xf5, true}, {"otimes", 0x2297, false}, {"ouml", 0xf6, true}, {"para", 0xb6, true}, {"part", 0x2202, false},
    {"percnt", 0x25, false}, {"period", 0x2e, false}, {"permil", 0x2030, false}, {"perp", 0x22a5, false}, {"phi", 0x3c6, false},
    {"phone", 0x260e, false}, {"pi", 0x3c0, false}, {"piv", 0x3d6, false}, {"plus", 0x2b, false}, {"plusmn", 0xb1, true},
    {"pound", 0xa3, true}, {"prime", 0x2032, false}, {"prod", 0x220f, false}, {"prop", 0x221d, false}, {"psi", 0x3c8, false},
    {"quest", 0x3f, false}, {"quot", 0x22, true}, {"rArr", 0x21d2, false}, {"radic", 0x221a, false}, {"rang", 0x27e9, false},
    {"raquo", 0xbb, true}, {"rarr", 0x2192, false}, {"rbrace", 0x7d, false}, {"rbrack", 0x5d, false}, {"rceil", 0x2309, false},
    {"rcub", 0x7d, false}, {"rdquo", 0x201d, false}, {"real", 0x211c, false}, {"reg", 0xae, true}, {"rfloor", 0x230b, false},
    {"rho", 0x3c1, false}, {"rlm", 0x200f, false}, {"rpar", 0x29, false}, {"rsaquo", 0x203a, false}, {"rsqb", 0x5d, false},
    {"rsquo", 0x2019, false}, {"sbquo", 0x201a, false}, {"scaron", 0x161, false}, {"sdot", 0x22c5, false}, {"sect", 0xa7, true},
    {"semi", 0x3b, false}, {"shy", 0xad, true}, {"sigma", 0x3c3, false}, {"sigmaf", 0x3c2, false}, {"sim", 0x223c, false},
    {"sol", 0x2f, false}, {"spades", 0x2660, false}, {"star", 0x2606, false}, {"starf", 0x2605, false}, {"sub", 0x2282, false},
    {"sube", 0x2286, false}, {"sum", 0x2211, false}, {"sup", 0x2283, false}, {"sup1", 0xb9, true}, {"sup2", 0xb2, true},
    {"sup3", 0xb3, true}, {"supe", 0x2287, false}, {"szlig", 0xdf, true}, {"tau", 0x3c4, false}, {"there4", 0x2234, false},
    {"theta", 0x3b8, false}, {"thetasym", 0x3d1, false}, {"thinsp", 0x2009, false}, {"thorn", 0xfe, true},
    {"tilde", 0x2dc, false}, {"times", 0xd7, true}, {"trade", 0x2122, false}, {"uArr", 0x21d1, false}, {"uacute", 0xfa, true},
    {"uarr", 0x2191, false}, {"ucirc", 0xfb, true}, {"ugrave", 0xf9, true}, {"uml", 0xa8, true}, {"upsih", 0x3d2, false},
    {"upsilon", 0x3c5, false}, {"uuml", 0xfc, true}, {"verbar", 0x7c, false}, {"vert", 0x7c, false}, {"weierp", 0x2118, false},
    {"xi", 0x3be, false}, {"yacute", 0xfd, true}, {"yen", 0xa5, true}, {"yuml", 0xff, true}, {"zeta", 0x3b6, false},
    {"zwj", 0x200d, false}, {"zwnj", 0x200c, false},
};
// clang-format on

#endif
