/* The roles that a conversation may have: those that every interface knows, and those that the template compares a
 * role with, such as Llama 3.1's "ipython". A template that nowhere has the text "developer" knows no such role. */
#include "jinja/jinja.h"

enum { ROLE_BYTES = 64, ROLE_DEPTH = 1000 };

static const char *const common_roles[] = {"system", "developer", "user", "assistant", "tool", "function"};

/* Roles hold what cannot be part of a marker by itself. */
static bool is_role_name(const jj_str *s) {
  for (size_t i = 0; i < s->n; i++) {
    const char c = s->p[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
      return false;
  }
  return s->n && s->n <= ROLE_BYTES;
}

static bool is_text(const jj_node *node, const char *text) {
  return node && node->kind == JN_CONST && node->value.kind == JJ_STR && ga_jj_str_is(node->value.u.s, text);
}

/* message.role, message['role'], a variable such as `role`, and these through a filter. */
static bool is_role(const jj_node *node) {
  while (node && node->kind == JN_FILTER) node = node->a;
  if (!node) return false;
  switch (node->kind) {
  case JN_ATTR: return ga_jj_str_is(node->name, "role");
  case JN_ITEM: return is_text(node->b, "role");
  case JN_NAME:
    return node->name->n >= 4 && ga_jj_str_is(&(jj_str){.p = node->name->p + node->name->n - 4, .n = 4}, "role");
  default: return false;
  }
}

static ga_status add_role(ga_template *tpl, const jj_str *s) {
  void *p;
  if (!is_role_name(s)) return GA_OK;
  for (jj_role *r = tpl->roles; r; r = r->next)
    if (!strcmp(r->name, s->p)) return GA_OK;
  GA_TRY(ga_arena_alloc(&tpl->arena, sizeof(jj_role) + s->n + 1, &p));
  jj_role *role = p, **last = &tpl->roles;
  memcpy(role->name, s->p, s->n);
  while (*last) last = &(*last)->next;
  *last = role;
  return GA_OK;
}

/* A text, or all texts of a list. */
static ga_status add_literals(ga_template *tpl, const jj_node *node) {
  if (!node) return GA_OK;
  if (node->kind == JN_CONST && node->value.kind == JJ_STR) return add_role(tpl, node->value.u.s);
  if (node->kind != JN_LIST && node->kind != JN_TUPLE) return GA_OK;
  for (const jj_node *one = node->kids; one; one = one->next)
    if (one->kind == JN_CONST && one->value.kind == JJ_STR) GA_TRY(add_role(tpl, one->value.u.s));
  return GA_OK;
}

/* a == 'x', 'x' == a, a in ['x', 'y'], with any number of operands. */
static ga_status take_compare(ga_template *tpl, const jj_node *node) {
  bool asks = is_role(node->a);
  for (const jj_node *operand = node->kids; operand; operand = operand->next) asks |= is_role(operand->a);
  if (!asks) return GA_OK;
  GA_TRY(add_literals(tpl, node->a));
  for (const jj_node *operand = node->kids; operand; operand = operand->next) GA_TRY(add_literals(tpl, operand->a));
  return GA_OK;
}

/* a is eq('x'); selectattr('role', 'equalto', 'x'). */
static ga_status take_arguments(ga_template *tpl, const jj_node *node) {
  const bool is_filter = node->kind == JN_FILTER;
  if (is_filter ? !is_text(node->kids, "role") : !is_role(node->a)) return GA_OK;
  const jj_node *first = is_filter && node->kids->next ? node->kids->next->next : is_filter ? NULL : node->kids;
  for (const jj_node *kid = first; kid; kid = kid->next) GA_TRY(add_literals(tpl, kid));
  return GA_OK;
}

static ga_status walk_list(ga_template *tpl, const jj_node *node, int depth);

static ga_status walk_node(ga_template *tpl, const jj_node *node, int depth) {
  if (!node || depth > ROLE_DEPTH) return GA_OK;
  if (is_text(node, "developer")) tpl->knows_developer = true;
  if (node->kind == JN_COMPARE) GA_TRY(take_compare(tpl, node));
  if (node->kind == JN_TEST || node->kind == JN_FILTER) GA_TRY(take_arguments(tpl, node));
  GA_TRY(walk_list(tpl, node->a, depth + 1));
  GA_TRY(walk_list(tpl, node->c, depth + 1));
  GA_TRY(walk_list(tpl, node->d, depth + 1));
  GA_TRY(walk_list(tpl, node->kids, depth + 1));
  return walk_list(tpl, node->b, depth + 1);
}

static ga_status walk_list(ga_template *tpl, const jj_node *node, int depth) {
  for (; node; node = node->next) GA_TRY(walk_node(tpl, node, depth));
  return GA_OK;
}

ga_status ga_jj_find_roles(ga_template *tpl) {
  for (size_t i = 0; i < sizeof common_roles / sizeof *common_roles; i++) {
    const jj_str name = {.p = common_roles[i], .n = strlen(common_roles[i])};
    GA_TRY(add_role(tpl, &name));
  }
  return walk_list(tpl, tpl->root, 0);
}

bool ga_jj_is_known_role(const ga_template *tpl, const char *role, size_t bytes) {
  for (const jj_role *r = tpl->roles; r; r = r->next)
    if (strlen(r->name) == bytes && !memcmp(r->name, role, bytes)) return true;
  return false;
}

const char *ga_template_role(const ga_template *tpl, int32_t index) {
  const jj_role *r = tpl && index >= 0 ? tpl->roles : NULL;
  while (r && index--) r = r->next;
  return r ? r->name : NULL;
}
