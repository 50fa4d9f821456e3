/* Expressions. The grammar and its quirks are those of jinja2/parser.py 3.1: `**` binds to the left, a filter after a
 * negated operand takes the negation, `~` is above `+`. */
#include "jinja/jinja_parse.h"

static ga_status parse_unary(jj_parser *parser, bool with_filter, jj_node **out);

ga_status ga_jj_node_new(jj_parser *parser, jj_node_kind kind, size_t pos, jj_node **out) {
  *out = NULL;
  if (!parser->nodes_left--) {
    parser->nodes_left = 0;
    return ga_jj_fail_at(parser, pos, GA_ERR_NOMEM, "template of more than %u nodes", parser->nodes_limit);
  }
  void *node;
  GA_TRY(ga_arena_alloc(&parser->tpl->arena, sizeof(jj_node), &node));
  *out = node;
  (*out)->kind = (uint8_t)kind;
  (*out)->pos = (uint32_t)pos;
  return GA_OK;
}

ga_status ga_jj_unexpected(const jj_parser *parser, const char *construct, const char *expected) {
  const jj_tok *tok = ga_jj_peek(parser);
  if (tok->kind == JT_EOF)
    return ga_jj_fail_at(parser, tok->pos, GA_ERR_FORMAT, "%s: expected %s, found the end", construct, expected);
  const char *p = parser->tpl->source + tok->pos;
  int n = (int)(tok->end - tok->pos < 40 ? tok->end - tok->pos : 40);
  return ga_jj_fail_at(parser, tok->pos, GA_ERR_FORMAT, "%s: expected %s, found '%.*s'", construct, expected, n, p);
}

ga_status ga_jj_expect_op(jj_parser *parser, char op, const char *construct) {
  char expected[4] = {'\'', op, '\'', 0};
  if (!ga_jj_skip_op(parser, op)) return ga_jj_unexpected(parser, construct, expected);
  return GA_OK;
}

ga_status ga_jj_expect_name(jj_parser *parser, const char *construct, jj_str **out) {
  if (ga_jj_peek(parser)->kind != JT_NAME) return ga_jj_unexpected(parser, construct, "a name");
  *out = ga_jj_peek(parser)->u.s;
  ga_jj_advance(parser);
  return GA_OK;
}

static ga_status too_deep(jj_parser *parser) {
  return ga_jj_fail_at(parser, ga_jj_peek(parser)->pos, GA_ERR_TIMEOUT, "expressions nested more than %u deep",
                       parser->depth_limit);
}

/* A node of one or two operands. */
static ga_status new_pair(jj_parser *parser, jj_node_kind kind, size_t pos, jj_node *a, jj_node *b, jj_node **out) {
  jj_node *node;
  GA_TRY(ga_jj_node_new(parser, kind, pos, &node));
  node->a = a;
  node->b = b;
  *out = node;
  return GA_OK;
}

static ga_status parse_list(jj_parser *parser, jj_node **out) {
  jj_node *list, **tail;
  GA_TRY(ga_jj_node_new(parser, JN_LIST, ga_jj_peek(parser)->pos, &list));
  tail = &list->kids;
  ga_jj_advance(parser);
  while (!ga_jj_at_op(parser, ']')) {
    if (list->kids) GA_TRY(ga_jj_expect_op(parser, ',', "list"));
    if (ga_jj_at_op(parser, ']')) break;
    GA_TRY(ga_jj_parse_expr(parser, tail));
    tail = &(*tail)->next;
  }
  *out = list;
  return ga_jj_expect_op(parser, ']', "list");
}

static ga_status parse_dict(jj_parser *parser, jj_node **out) {
  jj_node *dict, **tail;
  GA_TRY(ga_jj_node_new(parser, JN_DICT, ga_jj_peek(parser)->pos, &dict));
  tail = &dict->kids;
  ga_jj_advance(parser);
  while (!ga_jj_at_op(parser, '}')) {
    if (dict->kids) GA_TRY(ga_jj_expect_op(parser, ',', "dict"));
    if (ga_jj_at_op(parser, '}')) break;
    GA_TRY(ga_jj_parse_expr(parser, tail));
    tail = &(*tail)->next;
    GA_TRY(ga_jj_expect_op(parser, ':', "dict"));
    GA_TRY(ga_jj_parse_expr(parser, tail));
    tail = &(*tail)->next;
  }
  *out = dict;
  return ga_jj_expect_op(parser, '}', "dict");
}

/* Neighbouring strings are one. */
static ga_status parse_string(jj_parser *parser, jj_node *node) {
  const jj_tok *first = ga_jj_peek(parser);
  size_t n = 0, at = parser->at;
  node->value = (jj_val){.kind = JJ_STR, .u.s = first->u.s};
  while (ga_jj_peek(parser)->kind == JT_STR) {
    n += ga_jj_peek(parser)->u.s->n;
    ga_jj_advance(parser);
  }
  if (parser->at == at + 1) return GA_OK;
  void *p;
  GA_TRY(ga_arena_alloc(&parser->tpl->arena, sizeof(jj_str) + n, &p));
  jj_str *whole = p;
  char *text = (char *)(whole + 1);
  whole->p = text;
  for (; at < parser->at; at++) {
    const jj_str *part = parser->tok[at].u.s;
    memcpy(text + whole->n, part->p, part->n);
    whole->n += part->n;
    whole->points += part->points;
  }
  node->value.u.s = whole;
  return GA_OK;
}

static ga_status parse_name(jj_parser *parser, jj_node *node) {
  jj_str *s = ga_jj_peek(parser)->u.s;
  ga_jj_advance(parser);
  if (ga_jj_str_is(s, "true") || ga_jj_str_is(s, "True"))
    node->value = ga_jj_bool(true);
  else if (ga_jj_str_is(s, "false") || ga_jj_str_is(s, "False"))
    node->value = ga_jj_bool(false);
  else if (ga_jj_str_is(s, "none") || ga_jj_str_is(s, "None"))
    node->value = ga_jj_none();
  else {
    node->kind = JN_NAME;
    node->name = s;
    if (!parser->macro_op) return GA_OK;
    if (s == parser->tpl->name_varargs) *parser->macro_op |= JJ_MACRO_VARARGS;
    if (s == parser->tpl->name_kwargs) *parser->macro_op |= JJ_MACRO_KWARGS;
    if (s == parser->tpl->name_caller) *parser->macro_op |= JJ_MACRO_CALLER;
  }
  return GA_OK;
}

static ga_status parse_primary(jj_parser *parser, jj_node **out) {
  const jj_tok *tok = ga_jj_peek(parser);
  if (tok->kind == JT_OP && tok->op == '(') {
    ga_jj_advance(parser);
    GA_TRY(ga_jj_parse_tuple(parser, false, NULL, true, out));
    return ga_jj_expect_op(parser, ')', "parentheses");
  }
  if (tok->kind == JT_OP && tok->op == '[') return parse_list(parser, out);
  if (tok->kind == JT_OP && tok->op == '{') return parse_dict(parser, out);
  if (tok->kind != JT_NAME && tok->kind != JT_STR && tok->kind != JT_INT && tok->kind != JT_FLOAT)
    return ga_jj_unexpected(parser, "expression", "a value, a name or an opening bracket");
  GA_TRY(ga_jj_node_new(parser, JN_CONST, tok->pos, out));
  if (tok->kind == JT_NAME) return parse_name(parser, *out);
  if (tok->kind == JT_STR) return parse_string(parser, *out);
  (*out)->value = tok->kind == JT_INT ? ga_jj_int(tok->u.i) : ga_jj_float(tok->u.f);
  ga_jj_advance(parser);
  return GA_OK;
}

/* One of start, stop, step; absent ones stay NULL. */
static ga_status parse_bound(jj_parser *parser, jj_node **out) {
  if (ga_jj_at_op(parser, ':') || ga_jj_at_op(parser, ']') || ga_jj_at_op(parser, ',')) return GA_OK;
  return ga_jj_parse_expr(parser, out);
}

static ga_status parse_subscript_key(jj_parser *parser, jj_node **out) {
  jj_node *first = NULL, *slice;
  if (!ga_jj_at_op(parser, ':')) GA_TRY(ga_jj_parse_expr(parser, &first));
  *out = first;
  if (!ga_jj_at_op(parser, ':')) return GA_OK;
  GA_TRY(ga_jj_node_new(parser, JN_SLICE, ga_jj_peek(parser)->pos, &slice));
  *out = slice;
  slice->a = first;
  ga_jj_advance(parser);
  GA_TRY(parse_bound(parser, &slice->b));
  if (!ga_jj_skip_op(parser, ':')) return GA_OK;
  return parse_bound(parser, &slice->c);
}

static ga_status parse_dot(jj_parser *parser, jj_node *operand, jj_node **out) {
  size_t pos = ga_jj_peek(parser)->pos;
  ga_jj_advance(parser);
  const jj_tok *tok = ga_jj_peek(parser);
  if (tok->kind == JT_NAME) {
    GA_TRY(new_pair(parser, JN_ATTR, pos, operand, NULL, out));
    (*out)->name = tok->u.s;
  } else if (tok->kind == JT_INT) {
    jj_node *key;
    GA_TRY(ga_jj_node_new(parser, JN_CONST, tok->pos, &key));
    key->value = ga_jj_int(tok->u.i);
    GA_TRY(new_pair(parser, JN_ITEM, pos, operand, key, out));
  } else {
    return ga_jj_unexpected(parser, "attribute", "a name or a number after '.'");
  }
  ga_jj_advance(parser);
  return GA_OK;
}

static ga_status parse_subscript(jj_parser *parser, jj_node *operand, jj_node **out) {
  jj_node *keys = NULL, **tail = &keys;
  size_t pos = ga_jj_peek(parser)->pos;
  ga_jj_advance(parser);
  while (!ga_jj_at_op(parser, ']') || keys) {
    GA_TRY(parse_subscript_key(parser, tail));
    tail = &(*tail)->next;
    if (!ga_jj_skip_op(parser, ',')) break;
  }
  if (!keys || keys->next) { /* x[a, b] asks for the key (a, b) */
    jj_node *tuple;
    GA_TRY(ga_jj_node_new(parser, JN_TUPLE, pos, &tuple));
    tuple->kids = keys;
    keys = tuple;
  }
  GA_TRY(new_pair(parser, JN_ITEM, pos, operand, keys, out));
  return ga_jj_expect_op(parser, ']', "subscript");
}

static ga_status parse_argument(jj_parser *parser, int *stage, jj_node **out) {
  const jj_tok *tok = ga_jj_peek(parser);
  jj_node_kind kind = JN_CONST;
  if (ga_jj_at_op(parser, '*'))
    kind = JN_STAR;
  else if (ga_jj_at_op(parser, JO_POW))
    kind = JN_STAR2;
  else if (tok->kind == JT_NAME && ga_jj_peek2(parser)->kind == JT_OP && ga_jj_peek2(parser)->op == '=')
    kind = JN_KWARG;
  /* As Python orders them: positional, then keywords, each once: *a, **b. */
  int need = kind == JN_CONST ? 0 : kind == JN_KWARG ? 1 : kind == JN_STAR ? 2 : 3;
  if (need < *stage && !(need == 1 && *stage == 2))
    return ga_jj_fail_at(parser, tok->pos, GA_ERR_FORMAT, "call: arguments come in the order a, b=c, *d, **e");
  if ((kind == JN_STAR || kind == JN_STAR2) && need == *stage)
    return ga_jj_fail_at(parser, tok->pos, GA_ERR_FORMAT, "call: only one *d and one **e");
  if (need > *stage) *stage = need;
  if (kind == JN_CONST) return ga_jj_parse_expr(parser, out);
  GA_TRY(ga_jj_node_new(parser, kind, tok->pos, out));
  if (kind == JN_KWARG) {
    (*out)->name = tok->u.s;
    ga_jj_advance(parser);
  }
  ga_jj_advance(parser);
  return ga_jj_parse_expr(parser, &(*out)->a);
}

ga_status ga_jj_parse_call_args(jj_parser *parser, jj_node **kids) {
  int stage = 0;
  GA_TRY(ga_jj_expect_op(parser, '(', "call"));
  for (bool first = true; !ga_jj_at_op(parser, ')'); first = false) {
    if (!first) GA_TRY(ga_jj_expect_op(parser, ',', "call"));
    if (ga_jj_at_op(parser, ')')) break;
    GA_TRY(parse_argument(parser, &stage, kids));
    kids = &(*kids)->next;
  }
  return ga_jj_expect_op(parser, ')', "call");
}

static ga_status parse_call(jj_parser *parser, jj_node *operand, jj_node **out) {
  GA_TRY(new_pair(parser, JN_CALL, ga_jj_peek(parser)->pos, operand, NULL, out));
  return ga_jj_parse_call_args(parser, &(*out)->kids);
}

static ga_status parse_postfix(jj_parser *parser, jj_node *operand, jj_node **out) {
  for (*out = operand;; operand = *out) {
    if (ga_jj_at_op(parser, '.'))
      GA_TRY(parse_dot(parser, operand, out));
    else if (ga_jj_at_op(parser, '['))
      GA_TRY(parse_subscript(parser, operand, out));
    else if (ga_jj_at_op(parser, '('))
      GA_TRY(parse_call(parser, operand, out));
    else
      return GA_OK;
  }
}

/* name.name.name, as one interned name. */
static ga_status parse_dotted(jj_parser *parser, const char *construct, jj_str **out) {
  GA_TRY(ga_jj_expect_name(parser, construct, out));
  while (ga_jj_skip_op(parser, '.')) {
    jj_str *part = NULL;
    char text[256];
    GA_TRY(ga_jj_expect_name(parser, construct, &part));
    size_t n = (*out)->n;
    if (n + 1 + part->n > sizeof text) return ga_jj_unexpected(parser, construct, "a shorter name");
    memcpy(text, (*out)->p, n);
    text[n] = '.';
    memcpy(text + n + 1, part->p, part->n);
    GA_TRY(ga_jj_intern(parser, text, n + 1 + part->n, out));
  }
  return GA_OK;
}

static ga_status parse_filter(jj_parser *parser, jj_node *operand, jj_node **out) {
  size_t pos = ga_jj_peek(parser)->pos;
  GA_TRY(new_pair(parser, JN_FILTER, pos, operand, NULL, out));
  GA_TRY(parse_dotted(parser, "filter", &(*out)->name));
  (*out)->def = ga_jj_filter(parser->tpl, (*out)->name);
  if (ga_jj_at_op(parser, '(')) return ga_jj_parse_call_args(parser, &(*out)->kids);
  return GA_OK;
}

ga_status ga_jj_parse_filters(jj_parser *parser, jj_node *operand, bool first_has_no_pipe, jj_node **out) {
  *out = operand;
  while (first_has_no_pipe || ga_jj_skip_op(parser, '|')) {
    first_has_no_pipe = false;
    GA_TRY(parse_filter(parser, *out, out));
  }
  return GA_OK;
}

/* May the argument of a test without parentheses start here? */
static bool at_test_argument(const jj_parser *parser) {
  const jj_tok *tok = ga_jj_peek(parser);
  if (tok->kind == JT_OP) return tok->op == '[' || tok->op == '{';
  if (tok->kind != JT_NAME) return tok->kind == JT_STR || tok->kind == JT_INT || tok->kind == JT_FLOAT;
  return !ga_jj_at_name(parser, "else") && !ga_jj_at_name(parser, "or") && !ga_jj_at_name(parser, "and");
}

static ga_status parse_test(jj_parser *parser, jj_node *operand, jj_node **out) {
  size_t pos = ga_jj_peek(parser)->pos;
  jj_node *test;
  ga_jj_advance(parser);
  bool negated = ga_jj_skip_name(parser, "not");
  GA_TRY(new_pair(parser, JN_TEST, pos, operand, NULL, &test));
  GA_TRY(parse_dotted(parser, "test", &test->name));
  test->def = ga_jj_test(parser->tpl, test->name);
  if (ga_jj_at_op(parser, '(')) {
    GA_TRY(ga_jj_parse_call_args(parser, &test->kids));
  } else if (at_test_argument(parser)) {
    if (ga_jj_at_name(parser, "is")) return ga_jj_unexpected(parser, "test", "no second 'is': tests do not chain");
    GA_TRY(parse_primary(parser, &test->kids));
    GA_TRY(parse_postfix(parser, test->kids, &test->kids));
  }
  *out = test;
  if (!negated) return GA_OK;
  return new_pair(parser, JN_NOT, pos, test, NULL, out);
}

static ga_status parse_filter_expr(jj_parser *parser, jj_node **node) {
  for (;;) {
    if (ga_jj_skip_op(parser, '|'))
      GA_TRY(parse_filter(parser, *node, node));
    else if (ga_jj_at_name(parser, "is"))
      GA_TRY(parse_test(parser, *node, node));
    else if (ga_jj_at_op(parser, '('))
      GA_TRY(parse_call(parser, *node, node));
    else
      return GA_OK;
  }
}

static ga_status parse_unary_here(jj_parser *parser, bool with_filter, jj_node **out) {
  size_t pos = ga_jj_peek(parser)->pos;
  if (ga_jj_at_op(parser, '-') || ga_jj_at_op(parser, '+')) {
    jj_node_kind kind = ga_jj_at_op(parser, '-') ? JN_NEG : JN_POS;
    jj_node *operand;
    ga_jj_advance(parser);
    GA_TRY(parse_unary(parser, false, &operand));
    GA_TRY(new_pair(parser, kind, pos, operand, NULL, out));
  } else {
    GA_TRY(parse_primary(parser, out));
  }
  GA_TRY(parse_postfix(parser, *out, out));
  return with_filter ? parse_filter_expr(parser, out) : GA_OK;
}

static ga_status parse_unary(jj_parser *parser, bool with_filter, jj_node **out) {
  if (!parser->depth_left) return too_deep(parser);
  parser->depth_left--;
  ga_status status = parse_unary_here(parser, with_filter, out);
  parser->depth_left++;
  return status;
}

/* Levels of operators that bind to the left, from loose to tight; 1 is ~, a chain of which is one node. */
static const char *const level_ops[] = {"+-", "~", "*/d%", "p"};

static ga_status parse_level(jj_parser *parser, int level, jj_node **out) {
  if (level == 4) return parse_unary(parser, true, out);
  GA_TRY(parse_level(parser, level + 1, out));
  jj_node **tail = NULL;
  for (const jj_tok *tok; tok = ga_jj_peek(parser), tok->kind == JT_OP && strchr(level_ops[level], tok->op);) {
    jj_node *left = *out, *right;
    ga_jj_advance(parser);
    GA_TRY(parse_level(parser, level + 1, &right));
    if (level != 1) {
      GA_TRY(new_pair(parser, JN_BINARY, tok->pos, left, right, out));
      (*out)->op = (uint8_t)tok->op;
      continue;
    }
    if (!tail) {
      GA_TRY(ga_jj_node_new(parser, JN_CONCAT, tok->pos, out));
      (*out)->kids = left;
      tail = &left->next;
    }
    *tail = right;
    tail = &right->next;
  }
  return GA_OK;
}

/* The comparison at the current token, 0 when there is none; passes it. */
static char skip_comparison(jj_parser *parser) {
  const jj_tok *tok = ga_jj_peek(parser);
  char op = tok->kind == JT_OP && strchr("<>enlg", tok->op) ? tok->op : 0;
  if (ga_jj_at_name(parser, "in")) op = JO_IN;
  const jj_tok *second = ga_jj_peek2(parser);
  if (ga_jj_at_name(parser, "not") && second->kind == JT_NAME && ga_jj_str_is(second->u.s, "in")) {
    op = JO_NOT_IN;
    ga_jj_advance(parser);
  }
  if (op) ga_jj_advance(parser);
  return op;
}

static ga_status parse_compare(jj_parser *parser, jj_node **out) {
  jj_node *left, **tail;
  GA_TRY(parse_level(parser, 0, &left));
  size_t pos = ga_jj_peek(parser)->pos;
  *out = left;
  char op = skip_comparison(parser);
  if (!op) return GA_OK;
  GA_TRY(new_pair(parser, JN_COMPARE, pos, left, NULL, out));
  for (tail = &(*out)->kids; op; op = skip_comparison(parser), tail = &(*tail)->next) {
    GA_TRY(ga_jj_node_new(parser, JN_OPERAND, pos, tail));
    (*tail)->op = (uint8_t)op;
    GA_TRY(parse_level(parser, 0, &(*tail)->a));
  }
  return GA_OK;
}

static ga_status parse_not(jj_parser *parser, jj_node **out) {
  size_t pos = ga_jj_peek(parser)->pos, nots = 0;
  while (ga_jj_at_name(parser, "not")) {
    ga_jj_advance(parser);
    nots++;
  }
  GA_TRY(parse_compare(parser, out));
  if (nots > 2) nots = 2 + nots % 2; /* not not not x is not x; two make a bool */
  while (nots--) GA_TRY(new_pair(parser, JN_NOT, pos, *out, NULL, out));
  return GA_OK;
}

static ga_status parse_and(jj_parser *parser, jj_node **out) {
  GA_TRY(parse_not(parser, out));
  for (size_t pos; pos = ga_jj_peek(parser)->pos, ga_jj_skip_name(parser, "and");) {
    jj_node *right;
    GA_TRY(parse_not(parser, &right));
    GA_TRY(new_pair(parser, JN_AND, pos, *out, right, out));
  }
  return GA_OK;
}

static ga_status parse_or(jj_parser *parser, jj_node **out) {
  GA_TRY(parse_and(parser, out));
  for (size_t pos; pos = ga_jj_peek(parser)->pos, ga_jj_skip_name(parser, "or");) {
    jj_node *right;
    GA_TRY(parse_and(parser, &right));
    GA_TRY(new_pair(parser, JN_OR, pos, *out, right, out));
  }
  return GA_OK;
}

static ga_status parse_cond(jj_parser *parser, jj_node **out) {
  GA_TRY(parse_or(parser, out));
  for (size_t pos; pos = ga_jj_peek(parser)->pos, ga_jj_skip_name(parser, "if");) {
    jj_node *test, *otherwise = NULL;
    GA_TRY(parse_or(parser, &test));
    if (ga_jj_skip_name(parser, "else")) GA_TRY(ga_jj_parse_expr(parser, &otherwise));
    GA_TRY(new_pair(parser, JN_COND, pos, test, *out, out));
    (*out)->c = otherwise;
  }
  return GA_OK;
}

ga_status ga_jj_parse_expr(jj_parser *parser, jj_node **out) {
  if (!parser->depth_left) return too_deep(parser);
  parser->depth_left--;
  ga_status status = parse_cond(parser, out);
  parser->depth_left++;
  return status;
}

static bool at_tuple_end(const jj_parser *parser, const char *stop) {
  jj_tok_kind kind = ga_jj_peek(parser)->kind;
  return kind == JT_VAR_END || kind == JT_BLOCK_END || ga_jj_at_op(parser, ')') ||
         (stop && ga_jj_at_name(parser, stop));
}

ga_status ga_jj_parse_tuple(jj_parser *parser, bool no_cond, const char *stop, bool parenthesised, jj_node **out) {
  jj_node *tuple = NULL, *first = NULL, **tail = &first;
  size_t pos = ga_jj_peek(parser)->pos;
  bool comma = false;
  while (!at_tuple_end(parser, stop)) {
    GA_TRY(no_cond ? parse_or(parser, tail) : ga_jj_parse_expr(parser, tail));
    tail = &(*tail)->next;
    if (!ga_jj_skip_op(parser, ',')) break;
    comma = true;
  }
  *out = first;
  if (first && !comma) return GA_OK;
  if (!first && !parenthesised) return ga_jj_unexpected(parser, "expression", "a value");
  GA_TRY(ga_jj_node_new(parser, JN_TUPLE, pos, &tuple));
  tuple->kids = first;
  *out = tuple;
  return GA_OK;
}
