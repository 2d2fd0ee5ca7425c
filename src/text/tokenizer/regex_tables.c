// Characters of Unicode 15 and 16 by general category. Measured on the reference engine, all code points.
#include "text/tokenizer/regex_set.h"

const crn_regex_addition crn_regex_additions[] = {
    {"Lu", 0x1c89, 0x1c89},   {"Lu", 0xa7cb, 0xa7cc},   {"Lu", 0xa7da, 0xa7da},   {"Lu", 0xa7dc, 0xa7dc},   {"Lu", 0x10d50, 0x10d65},
    {"Ll", 0x1c8a, 0x1c8a},   {"Ll", 0xa7cd, 0xa7cd},   {"Ll", 0xa7db, 0xa7db},   {"Ll", 0x10d70, 0x10d85}, {"Ll", 0x1df25, 0x1df2a},
    {"Lm", 0x10d4e, 0x10d4e}, {"Lm", 0x10d6f, 0x10d6f}, {"Lm", 0x16d40, 0x16d42}, {"Lm", 0x16d6b, 0x16d6c}, {"Lm", 0x1e030, 0x1e06d},
    {"Lm", 0x1e4eb, 0x1e4eb}, {"Lo", 0x105c0, 0x105f3}, {"Lo", 0x10d4a, 0x10d4d}, {"Lo", 0x10d4f, 0x10d4f}, {"Lo", 0x10ec2, 0x10ec4},
    {"Lo", 0x1123f, 0x11240}, {"Lo", 0x11380, 0x11389}, {"Lo", 0x1138b, 0x1138b}, {"Lo", 0x1138e, 0x1138e}, {"Lo", 0x11390, 0x113b5},
    {"Lo", 0x113b7, 0x113b7}, {"Lo", 0x113d1, 0x113d1}, {"Lo", 0x113d3, 0x113d3}, {"Lo", 0x11bc0, 0x11be0}, {"Lo", 0x11f02, 0x11f02},
    {"Lo", 0x11f04, 0x11f10}, {"Lo", 0x11f12, 0x11f33}, {"Lo", 0x1342f, 0x1342f}, {"Lo", 0x13441, 0x13446}, {"Lo", 0x13460, 0x143fa},
    {"Lo", 0x16100, 0x1611d}, {"Lo", 0x16d43, 0x16d6a}, {"Lo", 0x18cff, 0x18cff}, {"Lo", 0x1b132, 0x1b132}, {"Lo", 0x1b155, 0x1b155},
    {"Lo", 0x1e4d0, 0x1e4ea}, {"Lo", 0x1e5d0, 0x1e5ed}, {"Lo", 0x1e5f0, 0x1e5f0}, {"Lo", 0x2b739, 0x2b739}, {"Lo", 0x2ebf0, 0x2ee5d},
    {"Lo", 0x31350, 0x323af}, {"Mn", 0x897, 0x897},     {"Mn", 0xece, 0xece},     {"Mn", 0x10d69, 0x10d6d}, {"Mn", 0x10efc, 0x10eff},
    {"Mn", 0x11241, 0x11241}, {"Mn", 0x113bb, 0x113c0}, {"Mn", 0x113ce, 0x113ce}, {"Mn", 0x113d0, 0x113d0}, {"Mn", 0x113d2, 0x113d2},
    {"Mn", 0x113e1, 0x113e2}, {"Mn", 0x11f00, 0x11f01}, {"Mn", 0x11f36, 0x11f3a}, {"Mn", 0x11f40, 0x11f40}, {"Mn", 0x11f42, 0x11f42},
    {"Mn", 0x11f5a, 0x11f5a}, {"Mn", 0x13440, 0x13440}, {"Mn", 0x13447, 0x13455}, {"Mn", 0x1611e, 0x16129}, {"Mn", 0x1612d, 0x1612f},
    {"Mn", 0x1e08f, 0x1e08f}, {"Mn", 0x1e4ec, 0x1e4ef}, {"Mn", 0x1e5ee, 0x1e5ef}, {"Mc", 0xcf3, 0xcf3},     {"Mc", 0x113b8, 0x113ba},
    {"Mc", 0x113c2, 0x113c2}, {"Mc", 0x113c5, 0x113c5}, {"Mc", 0x113c7, 0x113ca}, {"Mc", 0x113cc, 0x113cd}, {"Mc", 0x113cf, 0x113cf},
    {"Mc", 0x1171e, 0x1171e}, {"Mc", 0x11f03, 0x11f03}, {"Mc", 0x11f34, 0x11f35}, {"Mc", 0x11f3e, 0x11f3f}, {"Mc", 0x11f41, 0x11f41},
    {"Mc", 0x1612a, 0x1612c}, {"Nd", 0x10d40, 0x10d49}, {"Nd", 0x116d0, 0x116e3}, {"Nd", 0x11bf0, 0x11bf9}, {"Nd", 0x11f50, 0x11f59},
    {"Nd", 0x16130, 0x16139}, {"Nd", 0x16d70, 0x16d79}, {"Nd", 0x1ccf0, 0x1ccf9}, {"Nd", 0x1e4f0, 0x1e4f9}, {"Nd", 0x1e5f1, 0x1e5fa},
    {"No", 0x1d2c0, 0x1d2d3}, {"Pd", 0x10d6e, 0x10d6e}, {"Po", 0x1b4e, 0x1b4f},   {"Po", 0x1b7f, 0x1b7f},   {"Po", 0x113d4, 0x113d5},
    {"Po", 0x113d7, 0x113d8}, {"Po", 0x11b00, 0x11b09}, {"Po", 0x11be1, 0x11be1}, {"Po", 0x11f43, 0x11f4f}, {"Po", 0x16d6d, 0x16d6f},
    {"Po", 0x1e5ff, 0x1e5ff}, {"Sm", 0x10d8e, 0x10d8f}, {"So", 0x2427, 0x2429},   {"So", 0x2ffc, 0x2fff},   {"So", 0x31e4, 0x31e5},
    {"So", 0x31ef, 0x31ef},   {"So", 0x1cc00, 0x1ccef}, {"So", 0x1cd00, 0x1ceb3}, {"So", 0x1f6dc, 0x1f6dc}, {"So", 0x1f774, 0x1f776},
    {"So", 0x1f77b, 0x1f77f}, {"So", 0x1f7d9, 0x1f7d9}, {"So", 0x1f8b2, 0x1f8bb}, {"So", 0x1f8c0, 0x1f8c1}, {"So", 0x1fa75, 0x1fa77},
    {"So", 0x1fa87, 0x1fa89}, {"So", 0x1fa8f, 0x1fa8f}, {"So", 0x1faad, 0x1faaf}, {"So", 0x1fabb, 0x1fabf}, {"So", 0x1fac6, 0x1fac6},
    {"So", 0x1face, 0x1facf}, {"So", 0x1fada, 0x1fadc}, {"So", 0x1fadf, 0x1fadf}, {"So", 0x1fae8, 0x1fae9}, {"So", 0x1faf7, 0x1faf8},
    {"So", 0x1fbcb, 0x1fbef}, {"Cf", 0x13439, 0x1343f},
};

const size_t crn_regex_n_additions = sizeof crn_regex_additions / sizeof *crn_regex_additions;

// What scripts and yes-or-no properties gained since Unicode 14, as the inside of a class.
const crn_regex_growth crn_regex_growths[] = {
    {"alphabetic",
     "\\x{363}-\\x{36f}\\x{897}\\x{c04}\\x{cf3}\\x{f82}\\x{f83}\\x{1dd3}-\\x{1de6}\\x{10d69}\\x{10efc}"
     "\\x{11080}\\x{11081}\\x{11241}\\x{113b8}-\\x{113c0}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}"
     "\\x{113cc}\\x{113cd}\\x{11f00}\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{11f3e}-\\x{11f40}"
     "\\x{1611e}-\\x{1612e}\\x{1e08f}"},
    {"arabic", "\\x{897}\\x{10ec2}-\\x{10ec4}\\x{10efc}-\\x{10eff}"},
    {"balinese", "\\x{1b4e}-\\x{1b4f}\\x{1b7f}"},
    {"cased",
     "\\x{10fc}\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{a7f2}-\\x{a7f4}\\x{ab69}"
     "\\x{10d50}-\\x{10d65}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}"},
    {"common",
     "\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}\\x{31e4}-\\x{31e5}\\x{31ef}\\x{1cc00}-\\x{1ccf9}"
     "\\x{1cd00}-\\x{1ceb3}\\x{1d2c0}-\\x{1d2d3}\\x{1f6dc}\\x{1f774}-\\x{1f776}\\x{1f77b}-\\x{1f77f}"
     "\\x{1f7d9}\\x{1f8b2}-\\x{1f8bb}\\x{1f8c0}-\\x{1f8c1}\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}"
     "\\x{1fa8f}\\x{1faad}-\\x{1faaf}\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}-\\x{1facf}"
     "\\x{1fada}-\\x{1fadc}\\x{1fadf}\\x{1fae8}-\\x{1fae9}\\x{1faf7}-\\x{1faf8}\\x{1fbcb}-\\x{1fbef}"},
    {"cyrillic", "\\x{1c89}-\\x{1c8a}\\x{1e030}-\\x{1e06d}\\x{1e08f}"},
    {"dash", "\\x{10d6e}"},
    {"devanagari", "\\x{11b00}-\\x{11b09}"},
    {"egyptianhieroglyphs", "\\x{1342f}\\x{13439}-\\x{13455}\\x{13460}-\\x{143fa}"},
    {"emoji",
     "\\x{1f6dc}\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}\\x{1fa8f}\\x{1faad}-\\x{1faaf}"
     "\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}-\\x{1facf}\\x{1fada}-\\x{1fadc}\\x{1fadf}"
     "\\x{1fae8}-\\x{1fae9}\\x{1faf7}-\\x{1faf8}"},
    {"emojimodifierbase", "\\x{1faf7}-\\x{1faf8}"},
    {"emojipresentation",
     "\\x{1f6dc}\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}\\x{1fa8f}\\x{1faad}-\\x{1faaf}"
     "\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}-\\x{1facf}\\x{1fada}-\\x{1fadc}\\x{1fadf}"
     "\\x{1fae8}-\\x{1fae9}\\x{1faf7}-\\x{1faf8}"},
    {"han", "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"hani", "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"hiragana", "\\x{1b132}"},
    {"ideographic", "\\x{18cff}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"kannada", "\\x{cf3}"},
    {"katakana", "\\x{1b155}"},
    {"khojki", "\\x{1123f}-\\x{11241}"},
    {"lao", "\\x{ece}"},
    {"latin", "\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{1df25}-\\x{1df2a}"},
    {"lowercase", "\\x{10fc}\\x{a7f2}-\\x{a7f4}\\x{ab69}\\x{1e030}-\\x{1e06d}"},
    {"math", "\\x{10d8e}-\\x{10d8f}"},
    {"myanmar", "\\x{116d0}-\\x{116e3}"},
    {"softdotted", "\\x{1e04c}-\\x{1e04d}\\x{1e068}"},
    {"unifiedideograph", "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
};

const size_t crn_regex_n_growths = sizeof crn_regex_growths / sizeof *crn_regex_growths;
