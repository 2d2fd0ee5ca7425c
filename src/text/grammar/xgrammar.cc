// The shim over xgrammar. Two of its source files are part of this one, because their classes are needed below the public
// interface, for two things the library does otherwise:
//
// - It computes the masks of all states of a grammar when it is compiled, which takes seconds for large grammars and vocabularies and
//   cannot be interrupted. Here the mask of a state is computed when the state was met often.
// - Tokens of which a state alone cannot tell whether they match are tried one by one, byte by byte. In a string whose length is bounded
//   these are nearly all tokens: 20 ms for 49,000 of them. Here, and where there is no mask, the trie of the vocabulary is walked, and what
//   a byte leads to is found out once for all tokens that got to the same place (see Walk).
#include <cstring>
#include <mutex>
#include <new>

#include "grammar_compiler.cc"  // of xgrammar
#include "grammar_matcher.cc"   // of xgrammar
#include "json_schema_converter.h"
#include "regex_converter.h"
#include "structural_tag.h"
#include "text/grammar/xgrammar.h"

namespace xgrammar {

// The library is built to give its messages to these two instead of printing them.
[[noreturn]] void LogFatalImpl(const std::string &, int, const std::string &message) { throw std::runtime_error(message); }
void LogMessageImpl(const std::string &, int, int, const std::string &) {}

// Schemas and regular expressions are read by cairn, which refuses what it cannot keep: the library's own converters leave
// keywords out with a warning. Their sources are not part of the build.
std::string JSONSchemaToEBNF(const std::string &, bool, std::optional<int>, std::optional<std::pair<std::string, std::string>>, bool,
                             std::optional<int>, JSONFormat) {
  throw std::runtime_error("not built");
}
std::string RegexToEBNF(const std::string &, bool) { throw std::runtime_error("not built"); }
Result<Grammar, StructuralTagError> StructuralTagToGrammar(const std::string &, const std::optional<TokenizerInfo> &) {
  throw std::runtime_error("not built");
}

}  // namespace xgrammar

namespace xg = xgrammar;

namespace {

// Tokens as a trie, its nodes in the order of a walk that goes down first.
struct Trie {
  struct Node {
    uint8_t byte;
    uint16_t depth;            // of the root's children: 0
    int32_t end;               // behind the nodes below this one
    int32_t tokens, n_tokens;  // in `ids`: the tokens that end here
  };
  std::vector<Node> nodes;
  std::vector<int32_t> ids;

  // Tokens come in their order.
  void Add(int32_t id, const std::string &token) {
    size_t common = 0;
    while (common < token.size() && common < before_.size() && token[common] == before_[common]) common++;
    Close(common);
    for (size_t i = common; i < token.size(); i++) {
      path_.push_back(static_cast<int32_t>(nodes.size()));
      nodes.push_back({static_cast<uint8_t>(token[i]), static_cast<uint16_t>(i), 0, static_cast<int32_t>(ids.size()), 0});
    }
    Node &node = nodes[static_cast<size_t>(path_.back())];
    if (!node.n_tokens++) node.tokens = static_cast<int32_t>(ids.size());
    ids.push_back(id);
    before_ = token;
  }

  void Close(size_t depth = 0) {
    for (; path_.size() > depth; path_.pop_back()) nodes[static_cast<size_t>(path_.back())].end = static_cast<int32_t>(nodes.size());
  }

 private:
  std::vector<int32_t> path_;  // nodes from the root to the token before
  std::string before_;
};

// A vocabulary in two parts. Most tokens are short and of letters, digits and the like; where a grammar treats all of these bytes alike,
// as within a string, such a token matches or not by its length alone.
struct Tokens {
  enum { kLongest = 16 };
  Trie plain, other;
  std::vector<xg::DynamicBitset> of_length;  // of the plain ones: [n] = those of up to n bytes

  static bool IsPlain(uint8_t byte) { return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\'; }

  explicit Tokens(const xg::TokenizerInfo &info) {
    for (int i = 0; i <= kLongest; i++) of_length.emplace_back(info.GetVocabSize());
    for (const auto &[id, token] : info.GetSortedDecodedVocab()) {
      bool is_plain = token.size() <= kLongest;
      for (char c : token) is_plain = is_plain && IsPlain(static_cast<uint8_t>(c));
      (is_plain ? plain : other).Add(id, token);
      for (size_t n = token.size(); is_plain && n <= kLongest; n++) of_length[n].Set(id, true);
    }
    plain.Close();
    other.Close();
  }
};

}  // namespace

struct crn_xg_vocab {
  xg::TokenizerInfo info;
  std::shared_ptr<Tokens> tokens;
};

namespace {

// Members that only derived classes may name.
struct Inside : xg::EarleyParser {
  static auto Completable(xg::EarleyParser &p) { return (p.*(&Inside::rule_id_to_completable_states_)).Back(); }
};

struct Cancelled {};

// Which tokens match from where a parser is. A place is what the parser knows behind some bytes: what it may read next, what may be
// completed, and the place it came from. Bytes that no edge there tells apart are one class and lead to one place, and so do bytes that
// lead to the same knowledge: a string of any letters is as many places as it is long.
class Walk {
 public:
  Walk(xg::EarleyParser *parser, const xg::Grammar &grammar, const crn_xg_cancel *cancel)
      : parser_(parser), grammar_(grammar), cancel_(cancel) {
    AddPlace(0, 0);
  }
  // However a walk ends, the parser is where it was.
  ~Walk() { parser_->PopLastStates(static_cast<int32_t>(standing_.size())); }

  void Fill(const Tokens &tokens, xg::DynamicBitset *accepted) {
    const int length = PlainLength();
    if (length >= 0) *accepted |= tokens.of_length[static_cast<size_t>(length)];
    if (length < 0) Go(tokens.plain, accepted);
    Go(tokens.other, accepted);
  }

 private:
  enum { kNowhere = -1, kUnknown = -2 };
  struct Place {
    int32_t from;
    uint8_t byte;
    uint8_t class_of[256];
    int32_t next[256];  // by class
  };

  void Go(const Trie &trie, xg::DynamicBitset *accepted) {
    std::vector<int32_t> at;  // places along the path of the trie
    const auto n = static_cast<int32_t>(trie.nodes.size());
    for (int32_t i = 0; i < n;) {
      const Trie::Node &node = trie.nodes[static_cast<size_t>(i)];
      if (at.size() <= node.depth) at.resize(node.depth + 1u);
      const int32_t to = Step(node.depth ? at[node.depth - 1u] : 0, node.byte);
      if (to == kNowhere) {
        i = node.end;
        continue;
      }
      at[node.depth] = to;
      for (int32_t k = 0; k < node.n_tokens; k++) accepted->Set(trie.ids[static_cast<size_t>(node.tokens + k)], true);
      i++;
    }
  }

  // How many plain bytes may follow whichever they are, up to the longest plain token; -1 when it matters which.
  int PlainLength() {
    int32_t at = 0;
    for (int n = 0; n < Tokens::kLongest; n++) {
      const int32_t to = Step(at, ' ');
      for (int b = 0; b < 0x80; b++) {
        if (Tokens::IsPlain(static_cast<uint8_t>(b)) && Step(at, static_cast<uint8_t>(b)) != to) return -1;
      }
      if (to == kNowhere) return n;
      at = to;
    }
    return Tokens::kLongest;
  }

  int32_t Step(int32_t place, uint8_t byte) {
    const Place &p = places_[static_cast<size_t>(place)];
    const int32_t known = p.next[p.class_of[byte]];
    return known == kUnknown ? Find(place, byte) : known;
  }

  // Where a text can be read in many ways this takes long: milliseconds for a byte.
  int32_t Find(int32_t place, uint8_t byte) {
    if (cancel_ && cancel_->is_asked(cancel_->user)) throw Cancelled();
    Stand(place);
    int32_t to = kNowhere;
    if (parser_->Advance(byte)) {
      standing_.push_back(kUnknown);  // counted before anything may fail
      to = Number(place, byte);
      standing_.back() = to;
    }
    Place &p = places_[static_cast<size_t>(place)];
    p.next[p.class_of[byte]] = to;
    return to;
  }

  // Brings the parser to a place: back to where the ways part, and on from there.
  void Stand(int32_t place) {
    way_.clear();
    for (int32_t p = place; p; p = places_[static_cast<size_t>(p)].from) way_.push_back(p);
    std::reverse(way_.begin(), way_.end());
    size_t common = 0;
    while (common < way_.size() && common < standing_.size() && way_[common] == standing_[common]) common++;
    parser_->PopLastStates(static_cast<int32_t>(standing_.size() - common));
    standing_.resize(common);
    for (; common < way_.size(); common++) {
      standing_.push_back(way_[common]);
      parser_->Advance(places_[static_cast<size_t>(way_[common])].byte);
    }
  }

  // The number of the place the parser is at.
  int32_t Number(int32_t from, uint8_t byte) {
    key_.assign(1, from);
    for (const auto &s : parser_->GetLatestScanableStates()) Append(s);
    key_.push_back(-2);
    const auto row = Inside::Completable(*parser_);
    for (int32_t i = 0; i < row.data_len; i++) {
      key_.push_back(row.data[i].first);
      Append(row.data[i].second);
    }
    auto [found, is_new] = numbers_.try_emplace(key_, static_cast<int32_t>(places_.size()));
    if (is_new) AddPlace(from, byte);
    return found->second;
  }

  void Append(const xg::ParserState &s) {
    key_.insert(key_.end(), {s.rule_id, s.sequence_id, s.element_id, s.rule_start_pos, s.sub_element_id, s.repeat_count});
    key_.push_back(s.partial_codepoint);
  }

  // The place the parser is at. Where an edge begins or ends, another class does.
  void AddPlace(int32_t from, uint8_t byte) {
    bool cuts[257] = {}, is_read[257] = {};
    for (const auto &s : parser_->GetLatestScanableStates()) {
      for (const auto &edge : grammar_->per_rule_fsms[s.rule_id].value().GetFsm().GetFsm().GetEdges(s.element_id)) {
        if (!edge.IsCharRange()) continue;
        cuts[edge.min] = cuts[edge.max + 1] = true;
        std::fill(is_read + edge.min, is_read + edge.max + 1, true);
      }
    }
    Place &p = places_.emplace_back();
    p.from = from;
    p.byte = byte;
    int c = 0;
    for (int b = 0; b < 256; b++) {
      if (b && cuts[b]) c++;
      p.class_of[b] = static_cast<uint8_t>(c);
      p.next[c] = is_read[b] ? kUnknown : kNowhere;
    }
  }

  struct Hash {
    size_t operator()(const std::vector<int32_t> &v) const {
      uint64_t h = 1469598103934665603u;
      for (int32_t x : v) h = (h ^ static_cast<uint32_t>(x)) * 1099511628211u;
      return static_cast<size_t>(h ^ h >> 29);
    }
  };

  xg::EarleyParser *parser_;
  const xg::Grammar &grammar_;
  const crn_xg_cancel *cancel_;
  std::vector<Place> places_;
  std::vector<int32_t> standing_, way_;  // the places the parser has gone through
  std::vector<int32_t> key_;
  std::unordered_map<std::vector<int32_t>, int32_t, Hash> numbers_;
};

// Automata as they come behind the text of a grammar, put in the place of the rules that stand for them. The library matches each rule by an
// automaton it made of the rule's body; these are made elsewhere, and may be as large as they like.
class Automata {
 public:
  Automata(const char *data, size_t bytes) : at_(data), end_(data + bytes) {}

  void Put(xg::Grammar *grammar) {
    xg::FSM all = (*grammar)->complete_fsm.ToFSM();
    std::vector<Made> made;
    while (at_ < end_) made.push_back(Read(&all));
    const xg::CompactFSM compact = all.ToCompact();
    auto &rules = (*grammar)->per_rule_fsms;
    for (int32_t i = 0; i < (*grammar)->NumRules(); i++) {
      const Made *own = Find(made, (*grammar)->GetRule(i).name);
      const auto &before = rules[static_cast<size_t>(i)].value();
      xg::CompactFSMWithStartEnd fsm(compact, own ? own->start : before.GetFsm().GetStart(), own ? own->ends : before.GetFsm().GetEnds());
      rules[static_cast<size_t>(i)] =
          xg::CompactFSMWithStartEndWithSize(fsm, own ? own->n_edges : before.GetEdgeNum(), own ? own->n_states : before.GetNodeNum());
    }
    (*grammar)->complete_fsm = compact;
  }

 private:
  struct Made {
    int start, n_edges, n_states;
    std::vector<bool> ends;
  };

  template <typename T>
  T Next() {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  Made Read(xg::FSM *all) {
    const auto n_states = Next<uint64_t>(), n_edges = Next<uint64_t>();
    Made made{all->NumStates(), static_cast<int>(n_edges), static_cast<int>(n_states), {}};
    made.ends.resize(static_cast<size_t>(made.start) + n_states);
    for (uint64_t i = 0; i < n_states; i++) {
      all->AddState();
      made.ends[static_cast<size_t>(made.start) + i] = *at_++ != 0;
    }
    for (uint64_t i = 0; i < n_edges; i++) {
      const auto edge = Next<crn_edge>();
      all->AddEdge(made.start + edge.from, made.start + edge.to, edge.first, edge.last);
    }
    return made;
  }

  // The rules are named a0, a1 and so on; the library's own names have more in them.
  static const Made *Find(const std::vector<Made> &made, const std::string &name) {
    if (name.size() < 2 || name.size() > 9 || name[0] != 'a' || name.find_first_not_of("0123456789", 1) != std::string::npos) return nullptr;
    const size_t number = std::stoul(name.substr(1));
    return number < made.size() ? &made[number] : nullptr;
  }

  const char *at_, *end_;
};

struct Compiled {
  explicit Compiled(const crn_xg_vocab &v) : vocab(v.info), tokens(v.tokens), impl(std::make_shared<xg::CompiledGrammar::Impl>()) {}
  xg::TokenizerInfo vocab;
  std::shared_ptr<Tokens> tokens;
  std::shared_ptr<xg::CompiledGrammar::Impl> impl;
  std::optional<xg::RuleLevelCache> no_cache;
  std::unordered_map<int32_t, xg::DynamicBitset> no_tags;
  std::mutex lock;  // guards the masks
  size_t bytes = 0;

  // Whether the masks of these states are there and leave few tokens to be tried. The mask of a state takes as long as some hundred
  // walks, so it is made when the state was met often. The lock is held.
  bool Prepare(const std::vector<xg::ParserState> &states) {
    size_t n_uncertain = 0;
    bool is_ready = true;
    for (xg::ParserState state : states) {
      auto known = impl->adaptive_token_mask_cache.find(state);
      if (known == impl->adaptive_token_mask_cache.end()) {
        if (++n_met[state] < kOften) {
          is_ready = false;
          continue;
        }
        known = impl->adaptive_token_mask_cache.emplace(state, MaskOf(state)).first;
        bytes += MemorySize(known->second) + sizeof(xg::AdaptiveTokenMask) + 64;
      }
      n_uncertain += known->second.uncertain_indices.size();
    }
    return is_ready && n_uncertain < kManyTokens;
  }

 private:
  xg::AdaptiveTokenMask MaskOf(xg::ParserState state) {
    state.rule_start_pos = xg::ParserState::kNoPrevInputPos;
    state.repeat_count = state.partial_codepoint = 0;
    xg::GrammarMatcherForTokenMaskCache maker(impl->grammar, state, no_tags, vocab, no_cache, false);
    return maker.GetAdaptiveTokenMask(state.rule_id == impl->grammar->GetRootRuleId());
  }

  static constexpr int kOften = 64;
  std::unordered_map<xg::ParserState, int, xg::StateHashForCache> n_met;
  static constexpr size_t kManyTokens = 256;
};

template <typename F>
crn_xg_result Guard(crn_xg_error *error, F work) {
  try {
    work();
    return CRN_XG_OK;
  } catch (const Cancelled &) {
    return CRN_XG_CANCELLED;
  } catch (const std::bad_alloc &) {
    return CRN_XG_NO_MEMORY;
  } catch (const std::length_error &) {
    return CRN_XG_NO_MEMORY;
  } catch (const std::exception &e) {
    std::snprintf(error->text, sizeof error->text, "%s", e.what());
  } catch (...) {
    std::snprintf(error->text, sizeof error->text, "unknown failure");
  }
  return CRN_XG_REFUSED;
}

// The byte that must come next, -1 when there is none or a choice.
int OnlyByte(const xg::EarleyParser &parser, const xg::Grammar &grammar) {
  int only = -1;
  for (const auto &s : parser.GetLatestScanableStates()) {
    for (const auto &edge : grammar->per_rule_fsms[s.rule_id].value().GetFsm().GetFsm().GetEdges(s.element_id)) {
      if (!edge.IsCharRange()) continue;
      if (edge.min != edge.max || (only >= 0 && only != edge.min)) return -1;
      only = edge.min;
    }
  }
  return only;
}

}  // namespace

struct crn_xg_grammar {
  std::shared_ptr<Compiled> compiled;
};

struct crn_xg_matcher {
  std::shared_ptr<Compiled> compiled;
  xg::GrammarMatcher matcher;
};

extern "C" {

bool crn_xg_is_there(void) { return true; }

crn_xg_result crn_xg_vocab_create(const char *bytes, const uint32_t *ends, int32_t n, crn_xg_vocab **out, crn_xg_error *error) {
  *out = nullptr;
  return Guard(error, [&] {
    std::vector<std::string> tokens;
    tokens.reserve(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; i++) {
      uint32_t begin = i ? ends[i - 1] : 0;
      tokens.emplace_back(bytes + begin, ends[i] - begin);
    }
    xg::TokenizerInfo info(tokens, xg::VocabType::RAW, n, std::vector<int32_t>{});
    *out = new crn_xg_vocab{info, std::make_shared<Tokens>(info)};
  });
}

void crn_xg_vocab_destroy(crn_xg_vocab *vocab) { delete vocab; }

crn_xg_result crn_xg_grammar_create(const crn_xg_vocab *vocab, const char *text, size_t bytes, crn_xg_grammar **out, crn_xg_error *error) {
  *out = nullptr;
  return Guard(error, [&] {
    auto compiled = std::make_shared<Compiled>(*vocab);
    const size_t n = std::strlen(text);
    compiled->impl->grammar = xg::GrammarOptimizer::Apply(xg::Grammar::FromEBNF(text));
    if (n + 1 < bytes) Automata(text + n + 1, bytes - n - 1).Put(&compiled->impl->grammar);
    compiled->impl->tokenizer_info = vocab->info;
    compiled->bytes = n + MemorySize(*compiled->impl->grammar.ImplPtr());
    *out = new crn_xg_grammar{std::move(compiled)};
  });
}

void crn_xg_grammar_destroy(crn_xg_grammar *grammar) { delete grammar; }

size_t crn_xg_grammar_bytes(crn_xg_grammar *grammar) {
  std::lock_guard<std::mutex> guard(grammar->compiled->lock);
  return grammar->compiled->bytes;
}

crn_xg_result crn_xg_matcher_create(const crn_xg_grammar *grammar, crn_xg_matcher **out, crn_xg_error *error) {
  *out = nullptr;
  return Guard(error, [&] {
    xg::CompiledGrammar compiled(grammar->compiled->impl);
    *out = new crn_xg_matcher{grammar->compiled, xg::GrammarMatcher(compiled)};
  });
}

crn_xg_result crn_xg_matcher_fork(const crn_xg_matcher *matcher, crn_xg_matcher **out, crn_xg_error *error) {
  *out = nullptr;
  return Guard(error, [&] { *out = new crn_xg_matcher{matcher->compiled, matcher->matcher.Fork()}; });
}

void crn_xg_matcher_destroy(crn_xg_matcher *matcher) { delete matcher; }

crn_xg_result crn_xg_matcher_fill(crn_xg_matcher *matcher, uint32_t *words, const crn_xg_cancel *cancel, crn_xg_error *error) {
  return Guard(error, [&] {
    int64_t n_words = xg::GetBitmaskSize(matcher->compiled->vocab.GetVocabSize());
    DLTensor mask{words, {kDLCPU, 0}, 1, xg::GetBitmaskDLType(), &n_words, nullptr, 0};
    std::unique_lock<std::mutex> guard(matcher->compiled->lock);
    const std::vector<xg::ParserState> states = matcher->matcher->GetLatestScanableStates();
    if (matcher->compiled->Prepare(states)) {
      matcher->matcher.FillNextTokenBitmask(&mask);
      return;
    }
    guard.unlock();
    xg::DynamicBitset accepted(matcher->compiled->vocab.GetVocabSize(), words);
    accepted.Reset();
    Walk(matcher->matcher.ImplPtr(), matcher->compiled->impl->grammar, cancel).Fill(*matcher->compiled->tokens, &accepted);
  });
}

crn_xg_result crn_xg_matcher_accept(crn_xg_matcher *matcher, int32_t token, bool *out_accepted, crn_xg_error *error) {
  *out_accepted = false;
  return Guard(error, [&] { *out_accepted = matcher->matcher.AcceptToken(token); });
}

crn_xg_result crn_xg_matcher_accept_bytes(crn_xg_matcher *matcher, const char *bytes, size_t n, bool *out_accepted, crn_xg_error *error) {
  *out_accepted = false;
  return Guard(error, [&] { *out_accepted = matcher->matcher.AcceptString(std::string(bytes, n)); });
}

crn_xg_result crn_xg_matcher_rollback(crn_xg_matcher *matcher, int n_tokens, crn_xg_error *error) {
  return Guard(error, [&] { matcher->matcher.Rollback(n_tokens); });
}

bool crn_xg_matcher_is_complete(const crn_xg_matcher *matcher) { return matcher->matcher.IsCompleted(); }

crn_xg_result crn_xg_matcher_forced(crn_xg_matcher *matcher, char *bytes, size_t capacity, size_t *out_bytes, crn_xg_error *error) {
  *out_bytes = 0;
  return Guard(error, [&] {
    // The library looks for all that is forced, which may be megabytes.
    xg::EarleyParser *parser = matcher->matcher.ImplPtr();
    for (; *out_bytes < capacity && !parser->IsCompleted(); ++*out_bytes) {
      const int byte = OnlyByte(*parser, matcher->compiled->impl->grammar);
      if (byte < 0 || !parser->Advance(static_cast<uint8_t>(byte))) break;
      bytes[*out_bytes] = static_cast<char>(byte);
    }
    parser->PopLastStates(static_cast<int32_t>(*out_bytes));
  });
}

}  // extern "C"
