/// Scores of a Unigram vocabulary as the reference library reads them.
#ifndef CRN_TEXT_TOKENIZER_MODELS_SCORE_H
#define CRN_TEXT_TOKENIZER_MODELS_SCORE_H

/// Takes the exact value of a number in the file and returns the value the reference works with: it multiplies or
/// divides the digits by a power of ten once, which can be off by one unit in the last place. Equal sums decide between
/// cuts of a text, so that unit matters.
double crn_score_as_read(double value);

#endif
