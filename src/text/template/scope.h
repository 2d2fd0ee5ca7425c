/// Shared by the parts of the name resolver: the analysis of scopes (scope_symbols.c), the search for special names
/// (scope_search.c) and the resolution itself (scope.c).
///
/// A scope (the template, a loop body, a macro, …) is analysed as a whole before its content is resolved: it collects
/// the names it reads and writes. A name that is written in a scope belongs to it, even where it is read before; it
/// starts out as a copy of the variable of that name further out (ALIAS), as the variable of the rendering (RESOLVE) or
/// without a value (UNDEFINED). `if` is no scope of its own, but what is written in only one of its branches must keep
/// its old value in the others, so branches are analysed apart and merged.
#ifndef CRN_TEXT_TEMPLATE_SCOPE_H
#define CRN_TEXT_TEMPLATE_SCOPE_H

#include "base/map.h"
#include "base/vec.h"
#include "text/template/ast.h"

/// What Python would make a function of. It owns slots, which scopes of the same depth share by name.
typedef struct tmpl_frame_layout tmpl_frame_layout;
struct tmpl_frame_layout {
  tmpl_frame_layout *parent;
  int n_slots;
};

typedef struct tmpl_variable {
  tmpl_frame_layout *owner;
  int slot;
} tmpl_variable;

typedef enum tmpl_origin { TMPL_FROM_CALLER, TMPL_FROM_CONTEXT, TMPL_FROM_OUTSIDE, TMPL_FROM_NOTHING } tmpl_origin;

typedef struct tmpl_symbol {
  const tmpl_str *name;
  tmpl_variable variable;
  tmpl_origin origin;
  tmpl_variable outside;  ///< FROM_OUTSIDE: what it is a copy of
  bool stored;
} tmpl_symbol;

typedef struct tmpl_symbols tmpl_symbols;
struct tmpl_symbols {
  tmpl_symbols *parent;  ///< the scope around
  tmpl_symbols *base;    ///< of a branch: what it is a branch of
  tmpl_frame_layout *owner;
  int level;
  CRN_VEC(tmpl_symbol *) entries;
};

typedef struct tmpl_resolver {
  tmpl_tree *tree;
  crn_arena scratch;
  crn_map index;  ///< (scope, name) → symbol; (layout, name, level) → slot
  CRN_VEC(tmpl_symbols *) all;
  int64_t budget;
} tmpl_resolver;

/// Counts work, so that a hostile template cannot keep the compiler busy. Errors: UNSUPPORTED.
cairn_status crn_tmpl_resolver_spend(tmpl_resolver *z, int line);

cairn_status crn_tmpl_symbols_make(tmpl_resolver *z, tmpl_symbols *parent, tmpl_symbols *base, tmpl_frame_layout *owner,
                                   tmpl_symbols **out);
/// The symbol of a name in this very scope; NULL when there is none.
tmpl_symbol *crn_tmpl_symbols_own(const tmpl_resolver *z, const tmpl_symbols *s, const tmpl_str *name);
/// The symbol a name means in this scope, which may belong to a scope around it.
const tmpl_symbol *crn_tmpl_symbols_find(const tmpl_resolver *z, const tmpl_symbols *s, const tmpl_str *name);
cairn_status crn_tmpl_symbols_declare(tmpl_resolver *z, tmpl_symbols *s, const tmpl_str *name);
cairn_status crn_tmpl_symbols_read(tmpl_resolver *z, tmpl_symbols *s, const tmpl_str *name);
/// The targets of a loop are parameters of its body.
cairn_status crn_tmpl_symbols_declare_targets(tmpl_resolver *z, tmpl_symbols *s, const tmpl_node *target);
/// Notes the names of a statement or an expression; statements with a scope of their own are not entered.
cairn_status crn_tmpl_symbols_analyse(tmpl_resolver *z, tmpl_symbols *s, tmpl_node *node);
cairn_status crn_tmpl_symbols_analyse_all(tmpl_resolver *z, tmpl_symbols *s, const tmpl_nodes *nodes);

enum { TMPL_MAX_SOUGHT = 3 };

/// A search through a body and all that is nested in it. A name that is written before it is read is not looked for any
/// longer.
typedef struct tmpl_search {
  tmpl_resolver *resolver;
  const tmpl_str *names[TMPL_MAX_SOUGHT];
  bool closed[TMPL_MAX_SOUGHT], found[TMPL_MAX_SOUGHT];
  bool into_blocks;       ///< blocks are searched too
  bool writes_loop;       ///< `loop` is assigned to
  bool has_scoped_block;  ///< which sees every variable around it, `loop` too
} tmpl_search;

cairn_status crn_tmpl_search(tmpl_search *q, tmpl_node *node);
cairn_status crn_tmpl_search_all(tmpl_search *q, const tmpl_nodes *nodes);

#endif
