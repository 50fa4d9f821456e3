/* Tokens of the template language, and the state that the lexer and both halves of the parser share. Only the files of
 * lexer and parser include this header. */
#ifndef GA_JINJA_JINJA_PARSE_H
#define GA_JINJA_JINJA_PARSE_H

#include "jinja/jinja.h"

typedef enum jj_tok_kind {
  JT_EOF,
  JT_DATA,      /* text outside of tags, in u.s */
  JT_VAR_BEGIN, /* {{, which begins an expression */
  JT_VAR_END,
  JT_BLOCK_BEGIN, /* {%, which begins a statement */
  JT_BLOCK_END,
  JT_NAME,  /* a name, in u.s, interned */
  JT_STR,   /* a string literal, in u.s */
  JT_INT,   /* an integer, in u.i */
  JT_FLOAT, /* a float, in u.f */
  JT_OP     /* an operator: `op` is a jj_op or the character itself */
} jj_tok_kind;

typedef struct jj_tok {
  jj_tok_kind kind;
  char op;
  uint32_t pos, end; /* offsets in the source: the token is the bytes [pos, end) */
  union {
    jj_str *s;
    int64_t i;
    double f;
  } u;
} jj_tok;

typedef struct jj_parser {
  ga_template *tpl;
  ga_arena scratch; /* arena of tokens and names, freed after parsing */
  jj_tok *tok;
  size_t n_tok;
  size_t cap_tok;
  size_t at;      /* index of the current token */
  jj_str **names; /* hash table of interned names: open addressing, a power of two of slots */
  size_t n_names, cap_names;
  uint32_t nodes_left, nodes_limit, depth_left, depth_limit;
  int loops;         /* number of loops around the current statement, which `break` may end */
  uint8_t *macro_op; /* flags (JJ_MACRO_*) of the enclosing macro; NULL outside of macros */
} jj_parser;

GA_NODISCARD ga_status ga_jj_lex(jj_parser *parser);
GA_NODISCARD ga_status ga_jj_intern(jj_parser *parser, const char *p, size_t n, jj_str **out);
/* Sets the error text to "chat template, line L, column C: ...", where pos is an offset in the source. Returns
 * status. */
ga_status ga_jj_fail_at(const jj_parser *parser, size_t pos, ga_status status, const char *fmt, ...) GA_PRINTF(4, 5);

/* Returns the current token. parser->at never passes the last token, JT_EOF. */
static inline const jj_tok *ga_jj_peek(const jj_parser *parser) { return &parser->tok[parser->at]; }
static inline const jj_tok *ga_jj_peek2(const jj_parser *parser) {
  return &parser->tok[parser->at + 1 < parser->n_tok ? parser->at + 1 : parser->n_tok - 1];
}
static inline void ga_jj_advance(jj_parser *parser) {
  if (parser->at + 1 < parser->n_tok) parser->at++;
}
static inline bool ga_jj_at_op(const jj_parser *parser, char op) {
  return ga_jj_peek(parser)->kind == JT_OP && ga_jj_peek(parser)->op == op;
}
static inline bool ga_jj_at_name(const jj_parser *parser, const char *name) {
  return ga_jj_peek(parser)->kind == JT_NAME && ga_jj_str_is(ga_jj_peek(parser)->u.s, name);
}
static inline bool ga_jj_skip_op(jj_parser *parser, char op) {
  bool yes = ga_jj_at_op(parser, op);
  if (yes) ga_jj_advance(parser);
  return yes;
}
static inline bool ga_jj_skip_name(jj_parser *parser, const char *name) {
  bool yes = ga_jj_at_name(parser, name);
  if (yes) ga_jj_advance(parser);
  return yes;
}

/* Sets the error text to "<construct>: expected <expected>, found <token>", and returns an error. */
ga_status ga_jj_unexpected(const jj_parser *parser, const char *construct, const char *expected);
GA_NODISCARD ga_status ga_jj_expect_op(jj_parser *parser, char op, const char *construct);
GA_NODISCARD ga_status ga_jj_expect_name(jj_parser *parser, const char *construct, jj_str **out);
GA_NODISCARD ga_status ga_jj_node_new(jj_parser *parser, jj_node_kind kind, size_t pos, jj_node **out);

/* Parses an expression (jinja_expr.c). */
GA_NODISCARD ga_status ga_jj_parse_expr(jj_parser *parser, jj_node **out);
/* Parses an expression, or a tuple without parentheses. no_cond: `a if b else c` is not taken, as after `in` of a for.
 * stop: a name before which a tuple ends; may be NULL. */
GA_NODISCARD ga_status ga_jj_parse_tuple(jj_parser *parser, bool no_cond, const char *stop, bool parenthesised,
                                         jj_node **out);
/* Parses the filters that follow an operand. first_has_no_pipe: the first filter has no `|` before it. */
GA_NODISCARD ga_status ga_jj_parse_filters(jj_parser *parser, jj_node *operand, bool first_has_no_pipe, jj_node **out);
/* Parses the target of for and set: a name, or names in parentheses or separated by commas. attr_ok: a target such as
 * x.y is allowed, too. */
GA_NODISCARD ga_status ga_jj_parse_target(jj_parser *parser, bool attr_ok, jj_node **out);
/* Parses the arguments of a call, from "(" to ")", into the list *kids. */
GA_NODISCARD ga_status ga_jj_parse_call_args(jj_parser *parser, jj_node **kids);

#endif
