/* Statements, and the entry of compilation. */
#include "jinja/jinja_parse.h"

/* Names that end the body being parsed: {"elif", "else", "endif"}. */
typedef const char *const *stops;

static ga_status parse_body(jj_parser *parser, stops until, const char *construct, jj_node **kids);

static ga_status end_block(jj_parser *parser, const char *construct) {
  if (ga_jj_peek(parser)->kind != JT_BLOCK_END) return ga_jj_unexpected(parser, construct, "'%}'");
  ga_jj_advance(parser);
  return GA_OK;
}

static bool at_stop(const jj_parser *parser, stops until) {
  for (; *until; until++)
    if (ga_jj_at_name(parser, *until)) return true;
  return false;
}

/* Body up to "{% <last> %}", which is passed. */
static ga_status parse_to_end(jj_parser *parser, const char *last, const char *construct, jj_node **kids) {
  const char *const until[] = {last, NULL};
  GA_TRY(end_block(parser, construct));
  GA_TRY(parse_body(parser, until, construct, kids));
  ga_jj_advance(parser);
  return end_block(parser, construct);
}

static ga_status parse_if(jj_parser *parser, jj_node *node) {
  static const char *const until[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
  for (;;) {
    GA_TRY(ga_jj_parse_tuple(parser, true, NULL, false, &node->a));
    GA_TRY(end_block(parser, "if"));
    GA_TRY(parse_body(parser, until, "if", &node->kids));
    bool more = ga_jj_at_name(parser, "elif"), otherwise = ga_jj_at_name(parser, "else");
    size_t pos = ga_jj_peek(parser)->pos;
    ga_jj_advance(parser);
    if (!more && !otherwise) return end_block(parser, "if");
    GA_TRY(ga_jj_node_new(parser, more ? JN_IF : JN_BLOCK, pos, &node->b));
    node = node->b;
    if (more) continue;
    GA_TRY(end_block(parser, "else"));
    GA_TRY(parse_body(parser, last, "else", &node->kids));
    ga_jj_advance(parser);
    return end_block(parser, "endif");
  }
}

static ga_status check_target_name(const jj_parser *parser, const jj_tok *tok) {
  static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
  for (size_t i = 0; i < GA_COUNT_OF(reserved); i++)
    if (ga_jj_str_is(tok->u.s, reserved[i]))
      return ga_jj_fail_at(parser, tok->pos, GA_ERR_FORMAT, "assignment: '%s' is a constant", reserved[i]);
  return GA_OK;
}

static ga_status parse_target_one(jj_parser *parser, bool attr_ok, jj_node **out) {
  const jj_tok *tok = ga_jj_peek(parser);
  jj_node *name;
  if (ga_jj_at_op(parser, '(')) {
    if (!parser->depth_left) return ga_jj_unexpected(parser, "assignment", "fewer parentheses");
    parser->depth_left--;
    ga_jj_advance(parser);
    ga_status status = ga_jj_parse_target(parser, false, out);
    parser->depth_left++;
    GA_TRY(status);
    return ga_jj_expect_op(parser, ')', "assignment");
  }
  GA_TRY(ga_jj_node_new(parser, JN_NAME, tok->pos, &name));
  GA_TRY(ga_jj_expect_name(parser, "assignment", &name->name));
  *out = name;
  if (!attr_ok || !ga_jj_skip_op(parser, '.')) return check_target_name(parser, tok);
  GA_TRY(ga_jj_node_new(parser, JN_ATTR, tok->pos, out));
  (*out)->a = name;
  return ga_jj_expect_name(parser, "assignment", &(*out)->name);
}

ga_status ga_jj_parse_target(jj_parser *parser, bool attr_ok, jj_node **out) {
  jj_node *tuple, **tail;
  size_t pos = ga_jj_peek(parser)->pos;
  GA_TRY(parse_target_one(parser, attr_ok, out));
  if (!ga_jj_at_op(parser, ',')) return GA_OK;
  GA_TRY(ga_jj_node_new(parser, JN_TUPLE, pos, &tuple));
  tuple->kids = *out;
  *out = tuple;
  for (tail = &tuple->kids->next; ga_jj_skip_op(parser, ','); tail = &(*tail)->next) {
    if (ga_jj_peek(parser)->kind != JT_NAME && !ga_jj_at_op(parser, '(')) break; /* trailing comma */
    if (ga_jj_at_name(parser, "in")) break;
    GA_TRY(parse_target_one(parser, attr_ok, tail));
  }
  return GA_OK;
}

/* `loop` belongs to the loop itself. */
static bool assigns_loop(const jj_parser *parser, const jj_node *target) {
  if (target->kind == JN_NAME) return target->name == parser->tpl->name_loop;
  for (const jj_node *kid = target->kids; kid; kid = kid->next)
    if (assigns_loop(parser, kid)) return true;
  return false;
}

static ga_status parse_for(jj_parser *parser, jj_node *node) {
  static const char *const until[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
  GA_TRY(ga_jj_parse_target(parser, false, &node->a));
  if (assigns_loop(parser, node->a))
    return ga_jj_fail_at(parser, node->a->pos, GA_ERR_FORMAT, "for: 'loop' cannot be assigned");
  if (!ga_jj_skip_name(parser, "in")) return ga_jj_unexpected(parser, "for", "'in'");
  GA_TRY(ga_jj_parse_tuple(parser, true, "recursive", false, &node->b));
  if (ga_jj_skip_name(parser, "if")) GA_TRY(ga_jj_parse_expr(parser, &node->c));
  node->op = ga_jj_skip_name(parser, "recursive");
  GA_TRY(end_block(parser, "for"));
  parser->loops++;
  ga_status status = parse_body(parser, until, "for", &node->kids);
  parser->loops--;
  GA_TRY(status);
  bool otherwise = ga_jj_at_name(parser, "else");
  size_t pos = ga_jj_peek(parser)->pos;
  ga_jj_advance(parser);
  if (otherwise) {
    GA_TRY(end_block(parser, "else"));
    GA_TRY(ga_jj_node_new(parser, JN_BLOCK, pos, &node->d));
    GA_TRY(parse_body(parser, last, "else", &node->d->kids));
    ga_jj_advance(parser);
  }
  return end_block(parser, "endfor");
}

static ga_status parse_set(jj_parser *parser, jj_node *node) {
  GA_TRY(ga_jj_parse_target(parser, true, &node->a));
  if (ga_jj_skip_op(parser, '=')) {
    GA_TRY(ga_jj_parse_tuple(parser, false, NULL, false, &node->b));
    return end_block(parser, "set");
  }
  node->kind = JN_SET_BLOCK;
  GA_TRY(ga_jj_parse_filters(parser, NULL, false, &node->b));
  return parse_to_end(parser, "endset", "set", &node->kids);
}

/* "(a, b=1)" of macro and call. */
static ga_status parse_params(jj_parser *parser, jj_node **kids) {
  bool defaults = false;
  GA_TRY(ga_jj_expect_op(parser, '(', "parameters"));
  for (bool first = true; !ga_jj_at_op(parser, ')'); first = false, kids = &(*kids)->next) {
    if (!first) GA_TRY(ga_jj_expect_op(parser, ',', "parameters"));
    const jj_tok *tok = ga_jj_peek(parser);
    GA_TRY(ga_jj_node_new(parser, JN_PARAM, tok->pos, kids));
    GA_TRY(ga_jj_expect_name(parser, "parameters", &(*kids)->name));
    GA_TRY(check_target_name(parser, tok));
    if (ga_jj_skip_op(parser, '=')) {
      defaults = true;
      GA_TRY(ga_jj_parse_expr(parser, &(*kids)->a));
    } else if (defaults) {
      return ga_jj_fail_at(parser, tok->pos, GA_ERR_FORMAT,
                           "parameters: '%.60s' needs a default, as those before it have one", (*kids)->name->p);
    }
  }
  return ga_jj_expect_op(parser, ')', "parameters");
}

/* Body of a macro or call block: breaks cannot leave it, and what it asks of its caller is noted in node->op. */
static ga_status parse_macro_body(jj_parser *parser, jj_node *node, const char *last, const char *construct) {
  int loops = parser->loops;
  uint8_t *outer = parser->macro_op;
  parser->loops = 0;
  parser->macro_op = &node->op;
  GA_TRY(ga_jj_node_new(parser, JN_BLOCK, node->pos, &node->b));
  ga_status status = parse_to_end(parser, last, construct, &node->b->kids);
  parser->loops = loops;
  parser->macro_op = outer;
  if (outer) *outer |= node->op; /* an inner body may speak of the outer one's */
  return status;
}

static ga_status parse_macro(jj_parser *parser, jj_node *node) {
  const jj_tok *tok = ga_jj_peek(parser);
  GA_TRY(ga_jj_expect_name(parser, "macro", &node->name));
  GA_TRY(check_target_name(parser, tok));
  GA_TRY(parse_params(parser, &node->kids));
  return parse_macro_body(parser, node, "endmacro", "macro");
}

static ga_status parse_call_block(jj_parser *parser, jj_node *node) {
  if (ga_jj_at_op(parser, '(')) GA_TRY(parse_params(parser, &node->kids));
  size_t pos = ga_jj_peek(parser)->pos;
  GA_TRY(ga_jj_parse_expr(parser, &node->a));
  if (node->a->kind != JN_CALL)
    return ga_jj_fail_at(parser, pos, GA_ERR_FORMAT, "call: expected a call such as 'm(x)'");
  return parse_macro_body(parser, node, "endcall", "call");
}

static ga_status parse_filter_block(jj_parser *parser, jj_node *node) {
  GA_TRY(ga_jj_parse_filters(parser, NULL, true, &node->a));
  return parse_to_end(parser, "endfilter", "filter", &node->kids);
}

static ga_status parse_with(jj_parser *parser, jj_node *node) {
  for (jj_node **tail = &node->kids; ga_jj_peek(parser)->kind != JT_BLOCK_END; tail = &(*tail)->next) {
    if (node->kids) GA_TRY(ga_jj_expect_op(parser, ',', "with"));
    GA_TRY(ga_jj_node_new(parser, JN_SET, ga_jj_peek(parser)->pos, tail));
    GA_TRY(parse_target_one(parser, false, &(*tail)->a));
    GA_TRY(ga_jj_expect_op(parser, '=', "with"));
    GA_TRY(ga_jj_parse_expr(parser, &(*tail)->b));
  }
  GA_TRY(ga_jj_node_new(parser, JN_BLOCK, node->pos, &node->b));
  return parse_to_end(parser, "endwith", "with", &node->b->kids);
}

static ga_status parse_generation(jj_parser *parser, jj_node *node) {
  return parse_to_end(parser, "endgeneration", "generation", &node->kids);
}

static ga_status parse_break(jj_parser *parser, jj_node *node) {
  if (!parser->loops)
    return ga_jj_fail_at(parser, node->pos, GA_ERR_FORMAT, "break and continue stand inside a for of the same macro");
  return end_block(parser, "break");
}

static const struct {
  const char *name;
  jj_node_kind kind;
  ga_status (*parse)(jj_parser *, jj_node *);
} statements[] = {
    {"if", JN_IF, parse_if},
    {"for", JN_FOR, parse_for},
    {"set", JN_SET, parse_set},
    {"macro", JN_MACRO, parse_macro},
    {"call", JN_CALL_BLOCK, parse_call_block},
    {"filter", JN_FILTER_BLOCK, parse_filter_block},
    {"with", JN_WITH, parse_with},
    {"generation", JN_SCOPE, parse_generation},
    {"break", JN_BREAK, parse_break},
    {"continue", JN_CONTINUE, parse_break},
};

#define KNOWN_STATEMENTS "if, for, set, macro, call, filter, with, generation, break, continue, raw"

static ga_status parse_statement(jj_parser *parser, const char *construct, jj_node **out) {
  const jj_tok *tok = ga_jj_peek(parser);
  jj_str *name;
  GA_TRY(ga_jj_expect_name(parser, "block", &name));
  for (size_t i = 0; i < GA_COUNT_OF(statements); i++) {
    if (!ga_jj_str_is(name, statements[i].name)) continue;
    if (!parser->depth_left)
      return ga_jj_fail_at(parser, tok->pos, GA_ERR_TIMEOUT, "blocks nested more than %u deep", parser->depth_limit);
    GA_TRY(ga_jj_node_new(parser, statements[i].kind, tok->pos, out));
    parser->depth_left--;
    ga_status status = statements[i].parse(parser, *out);
    parser->depth_left++;
    return status;
  }
  static const char *const legal[] = {"include", "import", "from", "extends", "block", "autoescape", "do", "trans"};
  for (size_t i = 0; i < GA_COUNT_OF(legal); i++)
    if (ga_jj_str_is(name, legal[i]))
      return ga_jj_fail_at(parser, tok->pos, GA_ERR_UNSUPPORTED,
                           "block '%s' is not supported; known are " KNOWN_STATEMENTS, legal[i]);
  return ga_jj_fail_at(parser, tok->pos, GA_ERR_FORMAT, "%s: unknown block '%.60s'; known are " KNOWN_STATEMENTS,
                       construct, name->p);
}

static ga_status parse_output(jj_parser *parser, jj_node **out) {
  GA_TRY(ga_jj_node_new(parser, JN_OUTPUT, ga_jj_peek(parser)->pos, out));
  ga_jj_advance(parser);
  GA_TRY(ga_jj_parse_tuple(parser, false, NULL, false, &(*out)->a));
  if (ga_jj_peek(parser)->kind != JT_VAR_END) return ga_jj_unexpected(parser, "expression", "an operator or '}}'");
  ga_jj_advance(parser);
  return GA_OK;
}

/* Nodes up to one of `until` (NULL: the end of the template), whose name is the current token on return. */
static ga_status parse_body(jj_parser *parser, stops until, const char *construct, jj_node **kids) {
  for (;; kids = &(*kids)->next) {
    const jj_tok *tok = ga_jj_peek(parser);
    if (tok->kind == JT_EOF) {
      if (!until) return GA_OK;
      return ga_jj_fail_at(parser, tok->pos, GA_ERR_FORMAT, "%s: the block that ends it is missing", construct);
    }
    if (tok->kind == JT_DATA) {
      GA_TRY(ga_jj_node_new(parser, JN_TEXT, tok->pos, kids));
      (*kids)->value = (jj_val){.kind = JJ_STR, .u.s = tok->u.s};
      ga_jj_advance(parser);
    } else if (tok->kind == JT_VAR_BEGIN) {
      GA_TRY(parse_output(parser, kids));
    } else {
      ga_jj_advance(parser); /* {% */
      if (until && at_stop(parser, until)) return GA_OK;
      GA_TRY(parse_statement(parser, construct, kids));
    }
  }
}

static ga_status parse_all(jj_parser *parser) {
  ga_template *tpl = parser->tpl;
  tpl->builtins = &ga_jj_builtins;
  GA_TRY(ga_jj_intern(parser, "loop", 4, &tpl->name_loop));
  GA_TRY(ga_jj_intern(parser, "caller", 6, &tpl->name_caller));
  GA_TRY(ga_jj_intern(parser, "varargs", 7, &tpl->name_varargs));
  GA_TRY(ga_jj_intern(parser, "kwargs", 6, &tpl->name_kwargs));
  GA_TRY(ga_jj_lex(parser));
  GA_TRY(ga_jj_node_new(parser, JN_BLOCK, 0, &tpl->root));
  return parse_body(parser, NULL, "template", &tpl->root->kids);
}

ga_status ga_jj_parse(ga_template *tpl, const ga_template_limits *limits) {
  jj_parser parser = {.tpl = tpl,
                      .nodes_left = limits->nodes,
                      .nodes_limit = limits->nodes,
                      .depth_left = limits->depth,
                      .depth_limit = limits->depth};
  ga_arena_init(&parser.scratch, 0);
  ga_status status = parse_all(&parser);
  ga_arena_free(&parser.scratch);
  return status;
}
