/* The template engine of ga/chat.h: values, syntax tree, and the functions that its files share.
 *
 *   source -> jinja_lex.c -> tokens -> jinja_parse.c, jinja_expr.c -> tree (arena of the template, immutable)
 *   tree + context -> jinja_exec.c (statements), jinja_eval.c (expressions) -> text (arena of the rendering)
 *
 * Templates mean the same as in Jinja 3.1 with Python's values. str() and repr() print as in Python; lengths and slices
 * count code points. `and` and `or` return operands; there are floor division and chained comparison. The struct jj_run
 * limits the work of a rendering. Every node visited and every element copied is a step, and every byte comes from a
 * limited arena. */
#ifndef GA_JINJA_JINJA_H
#define GA_JINJA_JINJA_H

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/status.h"
#include "ga/chat.h"

/* --- values --- */

typedef enum jj_kind {
  JJ_MISSING, /* no value: an argument that was not given. Templates never see it */
  JJ_UNDEF,   /* Jinja's Undefined: prints as "", is false and empty; most operations fail. u.s is the undefined name */
  JJ_NONE,
  JJ_BOOL,
  JJ_INT, /* an integer of 64 bits; Python's integers are unbounded, here overflow is an error */
  /* an integer beyond 64 bits: u.s is its decimal text, with a NUL at its end. It can be printed, compared and made a
   * float; integer arithmetic with it fails as an overflow */
  JJ_BIG,
  JJ_FLOAT,
  JJ_STR,
  JJ_LIST,
  JJ_TUPLE,
  JJ_RANGE,
  JJ_VIEW, /* copy of keys(), values() or items() of a dict */
  JJ_GEN,  /* result of a lazy filter: always true, has no length, can be read once */
  JJ_DICT,
  JJ_NS, /* namespace(): the only object that `set x.y` may change */
  JJ_FUNC,
  JJ_LOOP
} jj_kind;

#define JJ_POINTS_UNKNOWN SIZE_MAX

/* A string. Its bytes never change once other values share them; a slice points into the bytes of its parent. */
typedef struct jj_str {
  const char *p;
  size_t n;
  /* number of code points; JJ_POINTS_UNKNOWN until they are counted. Threads share the constants of a template, which
   * are therefore counted when it is parsed */
  size_t points;
  /* [n] marks: not 0 where a byte came from a chat message; NULL: no byte did. See ga_jj_from_json */
  const uint8_t *foreign;
} jj_str;

typedef struct jj_seq jj_seq;
typedef struct jj_dict jj_dict;
typedef struct jj_func jj_func;
typedef struct jj_loop jj_loop;

typedef struct jj_val {
  jj_kind kind;
  union {
    bool b;
    int64_t i;
    double f;
    jj_str *s;
    jj_seq *q;  /* kinds LIST, TUPLE, RANGE, VIEW, GEN */
    jj_dict *d; /* kinds DICT, NS */
    jj_func *fn;
    jj_loop *loop;
  } u;
} jj_val;

struct jj_seq {
  jj_val *v;
  size_t n, cap;
  int64_t start, stop, step; /* RANGE: bounds of the range, for printing */
  bool spent;                /* GEN: the elements have been read */
  const char *view;          /* VIEW: type name for printing, such as "dict_keys" */
};

typedef struct jj_entry {
  jj_val key, value;
  uint64_t hash;
} jj_entry;

/* A dict in the order of insertion. With more than JJ_DICT_LINEAR entries it has `index`: a hash table with open
 * addressing, whose slots hold the number of an entry + 1. */
struct jj_dict {
  jj_entry *e;
  size_t n, cap;
  uint32_t *index;
  size_t index_cap; /* number of slots of index, a power of two */
};

#define JJ_DICT_LINEAR 8

/* --- syntax tree --- */

typedef enum jj_node_kind {
  /* Expressions. `a`, `b`, `c`, `d`, `kids`, `name`, `op` and `value` are fields of jj_node. */
  JN_CONST,   /* the constant `value` */
  JN_NAME,    /* the variable `name` */
  JN_LIST,    /* a list of the values of `kids` */
  JN_TUPLE,   /* a tuple of the values of `kids` */
  JN_DICT,    /* a dict; `kids` are key, value, key, value, ... */
  JN_NOT,     /* not a */
  JN_NEG,     /* -a */
  JN_POS,     /* +a */
  JN_BINARY,  /* the binary operation `op` on a and b */
  JN_AND,     /* a and b */
  JN_OR,      /* a or b */
  JN_COMPARE, /* a compared with `kids`, a chain of JN_OPERAND */
  JN_OPERAND, /* one comparison of a chain: the operator `op` and its right operand a */
  JN_CONCAT,  /* the concatenation of the texts of `kids` (operator ~) */
  JN_COND,    /* b if a else c (c may be NULL) */
  JN_ATTR,    /* a.name */
  JN_ITEM,    /* a[b] */
  JN_SLICE,   /* a:b:c, each may be NULL; only as b of JN_ITEM */
  JN_CALL,    /* a(kids) */
  JN_FILTER,  /* a|name(kids); a == NULL stands for the text of a block */
  JN_TEST,    /* a is name(kids) */
  JN_KWARG,   /* name=a, in kids of calls */
  JN_STAR,    /* *a, in kids of calls */
  JN_STAR2,   /* **a, in kids of calls */
  /* Statements. They use the same fields of jj_node. */
  JN_TEXT,       /* prints the text `value` */
  JN_OUTPUT,     /* prints a */
  JN_IF,         /* if a, runs `kids`; else runs b: the JN_IF of an elif, the JN_BLOCK of an else, or NULL */
  JN_FOR,        /* for a in b if c: runs `kids`, or d (JN_BLOCK) if nothing was run; op: the loop is recursive */
  JN_SET,        /* sets a, a JN_NAME, JN_TUPLE or JN_ATTR of a JN_NAME, to b */
  JN_SET_BLOCK,  /* sets a to the text of `kids`, filtered by b (may be NULL) */
  JN_MACRO,      /* defines the macro `name` with the parameters `kids` (JN_PARAM) and the body b */
  JN_PARAM,      /* the parameter `name` of a macro, with the default a (may be NULL) */
  JN_CALL_BLOCK, /* calls a (JN_CALL) with a macro `caller` that has the parameters `kids` (JN_PARAM) and the body b */
  JN_FILTER_BLOCK, /* prints the text of `kids`, filtered by a */
  JN_WITH,         /* runs b in a scope with the variables that `kids` (JN_SET) set */
  JN_SCOPE,        /* runs `kids` in a scope of their own, as {% generation %} does */
  JN_BLOCK,        /* runs `kids` one after the other */
  JN_BREAK,
  JN_CONTINUE
} jj_node_kind;

/* Operators of JN_BINARY, of JN_OPERAND and of operator tokens. An operator of one character is that character; other
 * operators have a letter. */
typedef enum jj_op {
  JO_ADD = '+',
  JO_SUB = '-',
  JO_MUL = '*',
  JO_DIV = '/',
  JO_MOD = '%',
  JO_TILDE = '~',
  JO_LT = '<',
  JO_GT = '>',
  JO_ASSIGN = '=',
  JO_FLOORDIV = 'd',
  JO_POW = 'p',
  JO_EQ = 'e',
  JO_NE = 'n',
  JO_LE = 'l',
  JO_GE = 'g',
  JO_IN = 'i',
  JO_NOT_IN = 'x'
} jj_op;

#define JJ_MACRO_VARARGS 1
#define JJ_MACRO_KWARGS  2
#define JJ_MACRO_CALLER  4

typedef struct jj_def jj_def;
typedef struct jj_node jj_node;
struct jj_node {
  uint8_t kind; /* jj_node_kind */
  uint8_t op;   /* jj_op, or flags that depend on the kind */
  uint32_t pos; /* offset in the source in bytes, for error texts */
  jj_str *name; /* name in the source, interned: equal names have equal pointers */
  /* JN_FILTER, JN_TEST: definition of the filter or test; NULL: its name is unknown, which is an error only if the node
   * is evaluated */
  const jj_def *def;
  jj_node *a, *b, *c, *d;
  jj_node *kids, *next;
  jj_val value;
};

typedef struct jj_role {
  struct jj_role *next;
  char name[];
} jj_role;

enum { JJ_TABLES = 2 }; /* Largest number of tables of one kind of built-ins. */
/* The filters, tests, functions and methods that a template can use. Each element is NULL, or a table that ends with a
 * NULL name. Evaluation finds built-ins through these tables only, since built-ins call evaluation. */
typedef struct jj_builtins {
  const jj_def *filters[JJ_TABLES], *tests[JJ_TABLES], *globals[JJ_TABLES];
  const jj_def *methods[JJ_LOOP + 1][JJ_TABLES]; /* methods of each kind of value, indexed by jj_kind */
} jj_builtins;

struct ga_template {
  ga_arena arena;
  const char *source; /* [n] source of the template with normalised newlines, without the last newline */
  size_t n;
  jj_node *root; /* the whole template, a JN_BLOCK */
  const jj_builtins *builtins;
  jj_str *name_loop, *name_caller, *name_varargs, *name_kwargs;
  /* the template contains the text "developer", so it knows that role. In other templates messages with that role
   * become system messages */
  bool knows_developer;
  jj_role *roles; /* roles that the template knows; any other role of a message is treated as text of the message */
};

/* --- rendering --- */

typedef struct jj_var {
  struct jj_var *next;
  const jj_str *name; /* name of the variable, interned */
  jj_val value;
} jj_var;

typedef struct jj_scope {
  struct jj_scope *parent;
  jj_var *vars;
} jj_scope;

typedef struct jj_buf {
  char *p;
  size_t n, cap;
  uint8_t *foreign; /* [cap] marks: not 0 where a byte came from a message; NULL: no byte did */
} jj_buf;

typedef enum jj_flow { JJ_FLOW_NEXT, JJ_FLOW_BREAK, JJ_FLOW_CONTINUE } jj_flow;

typedef struct jj_run {
  const ga_template *tpl;
  ga_arena arena;
  jj_dict *context;
  jj_buf *out;
  uint64_t steps_left, steps_limit;
  uint64_t output_limit;
  uint32_t depth_left, depth_limit;
  int64_t now;
  jj_flow flow;
  bool located; /* the error text already has line and column in the template */
  bool trace;   /* bytes that come from messages are marked (jj_str.foreign) */
} jj_run;

typedef struct jj_kw {
  const jj_str *name;
  jj_val value;
} jj_kw;

typedef struct jj_args {
  jj_val *pos;
  size_t n_pos;
  jj_kw *kw;
  size_t n_kw;
} jj_args;

#define JJ_MAX_PARAMS 6

/* Arguments of one call of a built-in. `v` has the values of the parameters in the order of the definition; JJ_MISSING:
 * a parameter was not given. */
typedef struct jj_call {
  jj_val self; /* the value that is filtered or tested, or whose method is called */
  jj_val v[JJ_MAX_PARAMS];
  const jj_args *args; /* arguments as the template has them, for definitions whose params are "*" */
  const jj_def *def;
} jj_call;

typedef ga_status (*jj_fn)(jj_run *run, const jj_call *call, jj_val *out);

/* Definition of a built-in: a row of the tables of filters, tests, methods and functions. params: names of parameters,
 * such as "old new count?", where `?` marks an optional one. "/old new": the parameters cannot be given by name. "*":
 * the function reads call->args itself. */
struct jj_def {
  const char *name;
  const char *params;
  jj_fn fn;
};

struct jj_func {
  const jj_def *def;    /* definition of a built-in; NULL: a macro */
  jj_val self;          /* object to which a method belongs, or state of a built-in object */
  const jj_node *macro; /* JN_MACRO or JN_CALL_BLOCK node of a macro; NULL: a built-in */
  jj_scope *scope;      /* scope in which the macro was defined */
};

struct jj_loop {
  const jj_val *items;
  size_t n, index;
  int depth0;
  const jj_node *node; /* JN_FOR node of a recursive loop, which loop(...) runs again; else NULL */
  jj_scope *scope;
  jj_val changed; /* argument of the last call of loop.changed */
};

/* Renders a template as ga_template_render does, and also returns marks of the text (chat.c). *text and *foreign have n
 * bytes. A mark is not 0 where the byte came from a message. The caller frees both with ga_mem_free. */
GA_NODISCARD ga_status ga_jj_render_traced(const ga_template *tpl, const char *json_context, size_t bytes,
                                           const ga_template_limits *limits_or_null, char **text, uint8_t **foreign,
                                           size_t *n);
/* Writes the variables that a template needs for a list of messages, as JSON text. The caller frees *json with free. */
GA_NODISCARD ga_status ga_jj_chat_context(const ga_chat_message *messages, size_t n, const ga_chat_options *options,
                                          char **json);

/* Parses tpl->source and sets tpl->root (jinja_lex.c, jinja_parse.c). */
GA_NODISCARD ga_status ga_jj_parse(ga_template *tpl, const ga_template_limits *limits);
/* Finds the line and the column of byte `pos` of the template's source. Both count from 1; columns count code
 * points. */
void ga_jj_where(const ga_template *tpl, size_t pos, unsigned *line, unsigned *column);

/* jinja_value.c: values, steps, buffers */
GA_NODISCARD ga_status ga_jj_step(jj_run *run, uint64_t n); /* Counts n steps of work; fails beyond the run's limit. */
/* Enters one level of nesting; fails beyond the run's limit of depth. The caller leaves the level by
 * run->depth_left++. */
GA_NODISCARD ga_status ga_jj_enter(jj_run *run);
GA_NODISCARD ga_status ga_jj_alloc(jj_run *run, size_t count, size_t each, void **out);
/* Makes a string from a copy of n bytes that come from the engine itself, not from a jj_str. Functions whose names end
 * in _part copy bytes of a jj_str, and keep their marks. */
GA_NODISCARD ga_status ga_jj_str_new(jj_run *run, const char *p, size_t n, jj_val *out);
GA_NODISCARD ga_status ga_jj_buf_put(jj_run *run, jj_buf *buf, const char *p, size_t n);
GA_NODISCARD ga_status ga_jj_buf_puts(jj_run *run, jj_buf *buf, const char *text);
/* Makes a string of the bytes [at, at + n) of s, without a copy. */
GA_NODISCARD ga_status ga_jj_str_part(jj_run *run, const jj_str *s, size_t at, size_t n, jj_val *out);
GA_NODISCARD ga_status ga_jj_buf_part(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, size_t n);
/* Appends n bytes that replace the byte at offset `at` of s, such as an escape sequence or its upper case. They get the
 * mark of that byte. */
GA_NODISCARD ga_status ga_jj_buf_stand(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, const char *p, size_t n);
GA_NODISCARD ga_status ga_jj_buf_str(jj_run *run, const jj_buf *buf, jj_val *out);
GA_NODISCARD ga_status ga_jj_seq_new(jj_run *run, jj_kind kind, size_t cap, jj_val *out);
GA_NODISCARD ga_status ga_jj_seq_push(jj_run *run, jj_seq *seq, jj_val v);
/* Lists the elements of an iterable value: a sequence's elements, a string's code points, a dict's keys. An undefined
 * value has none. */
GA_NODISCARD ga_status ga_jj_items(jj_run *run, jj_val v, const jj_val **items, size_t *n);
bool ga_jj_truth(jj_val v);
const char *ga_jj_type(jj_val v); /* Returns Python's name of the value's type. */
/* Fails if v is undefined; the error text has the name of the undefined variable. */
GA_NODISCARD ga_status ga_jj_need_defined(jj_val v);

static inline jj_str ga_jj_part(const jj_str *s, size_t at, size_t n) {
  return (jj_str){s->p + at, n, JJ_POINTS_UNKNOWN, s->foreign ? s->foreign + at : NULL};
}
static inline jj_val ga_jj_none(void) { return (jj_val){.kind = JJ_NONE}; }
static inline jj_val ga_jj_undef(jj_str *name) { return (jj_val){.kind = JJ_UNDEF, .u.s = name}; }
static inline jj_val ga_jj_bool(bool b) { return (jj_val){.kind = JJ_BOOL, .u.b = b}; }
static inline jj_val ga_jj_int(int64_t i) { return (jj_val){.kind = JJ_INT, .u.i = i}; }
static inline jj_val ga_jj_float(double f) { return (jj_val){.kind = JJ_FLOAT, .u.f = f}; }
static inline bool ga_jj_is_seq(jj_val v) { return v.kind >= JJ_LIST && v.kind <= JJ_GEN; }
static inline bool ga_jj_is_num(jj_val v) { return v.kind >= JJ_BOOL && v.kind <= JJ_FLOAT; }
/* Sets *i to a BOOL or INT as an integer. Returns false for other kinds. */
static inline bool ga_jj_as_int(jj_val v, int64_t *i) {
  if (v.kind != JJ_INT && v.kind != JJ_BOOL) return false;
  *i = v.kind == JJ_INT ? v.u.i : v.u.b;
  return true;
}
double ga_jj_big_as_double(const jj_str *digits);
static inline double ga_jj_as_double(jj_val v) {
  if (v.kind == JJ_BIG) return ga_jj_big_as_double(v.u.s);
  return v.kind == JJ_FLOAT ? v.u.f : v.kind == JJ_INT ? (double)v.u.i : (double)v.u.b;
}
static inline bool ga_jj_str_is(const jj_str *s, const char *text) {
  size_t n = strlen(text);
  return s->n == n && !memcmp(s->p, text, n);
}
static inline bool ga_jj_str_eq(const jj_str *a, const jj_str *b) {
  return a == b || (a->n == b->n && !memcmp(a->p, b->p, a->n));
}

/* jinja_dict.c: dicts, equality, order */
GA_NODISCARD ga_status ga_jj_dict_new(jj_run *run, size_t cap, jj_val *out);
GA_NODISCARD ga_status ga_jj_dict_set(jj_run *run, jj_dict *d, jj_val key, jj_val value);
/* Finds the value of a key in d; *out is NULL if d does not have the key. Fails for keys that Python cannot hash. */
GA_NODISCARD ga_status ga_jj_dict_find(jj_run *run, const jj_dict *d, jj_val key, jj_val **out);
GA_NODISCARD ga_status ga_jj_dict_find_text(jj_run *run, const jj_dict *d, const jj_str *key, jj_val **out);
GA_NODISCARD ga_status ga_jj_dict_remove(jj_run *run, jj_dict *d, const jj_val *found);
GA_NODISCARD ga_status ga_jj_equal(jj_run *run, jj_val a, jj_val b, bool *out);
/* Compares a and b: *out is < 0, 0 or > 0 if a is less than, equal to or greater than b. Fails for types that Python
 * does not order. */
GA_NODISCARD ga_status ga_jj_order(jj_run *run, jj_val a, jj_val b, int *out);
/* Sorts n values, and their keys, by the keys. The sort is stable. */
GA_NODISCARD ga_status ga_jj_sort(jj_run *run, jj_val *keys, jj_val *values, size_t n, bool reverse);

/* jinja_text.c: UTF-8 */
bool ga_jj_utf8_ok(const char *p, size_t n);
size_t ga_jj_points(const char *p, size_t n);
size_t ga_jj_str_points(jj_str *s);
/* Returns the code point at p, in valid UTF-8. Sets *len to its number of bytes. */
int32_t ga_jj_decode(const char *p, const char *end, size_t *len);
size_t ga_jj_encode(int32_t point, char out[4]);
/* Returns the offset in bytes of code point number `point` of s, or s->n if s has fewer code points. */
size_t ga_jj_offset(jj_str *s, size_t point);
bool ga_jj_is_space(int32_t point);
bool ga_jj_is_word(int32_t point); /* Returns whether a code point is a letter, mark, digit or underscore. */
bool ga_jj_is_printable(int32_t point);
typedef enum jj_case { JJ_LOWER, JJ_UPPER, JJ_CAPITALIZE, JJ_TITLE, JJ_SWAP } jj_case;
GA_NODISCARD ga_status ga_jj_recase(jj_run *run, const jj_str *s, jj_case to, jj_val *out);
#define JJ_STRIP_LEFT  1
#define JJ_STRIP_RIGHT 2
/* Returns s without the code points of `chars` (NULL: white space) at the given ends. The search takes s->n * chars->n
 * steps, which callers count. */
jj_str ga_jj_strip(const jj_str *s, const jj_str *chars, int sides);
/* Returns the offset in bytes of the first occurrence of `what` in s at or after `from`; SIZE_MAX: there is none. */
size_t ga_jj_find(const jj_str *s, const jj_str *what, size_t from);
/* Finds the offset in bytes of the last occurrence of `what` in s; SIZE_MAX: there is none. */
GA_NODISCARD ga_status ga_jj_rfind(jj_run *run, const jj_str *s, const jj_str *what, size_t *out);

/* jinja_repr.c, jinja_json.c: conversion of values to text and back */
GA_NODISCARD ga_status ga_jj_put_str(jj_run *run, jj_buf *buf, jj_val v);  /* appends str(v) */
GA_NODISCARD ga_status ga_jj_put_repr(jj_run *run, jj_buf *buf, jj_val v); /* appends repr(v) */
/* computes str(v); *out is v itself if it is a string */
GA_NODISCARD ga_status ga_jj_to_str(jj_run *run, jj_val v, jj_val *out);
#define JJ_FLOAT_BYTES 40
size_t ga_jj_format_float(double f, char out[JJ_FLOAT_BYTES]); /* writes repr(f); returns its number of bytes */
/* Reads a text that is a float literal of Python, with white space around it allowed. Returns false for other texts. */
bool ga_jj_read_float(const char *p, size_t n, double *out);
/* Sets tpl->roles to the roles that the template knows (jinja_role.c). */
GA_NODISCARD ga_status ga_jj_find_roles(ga_template *tpl);
bool ga_jj_is_known_role(const ga_template *tpl, const char *role, size_t bytes);

/* Reads the template's variables from JSON into run->context. With run->trace all their strings and keys are marked as
 * foreign, with two exceptions. These are top-level keys that end in _token, and roles of messages that are in
 * tpl->roles. */
GA_NODISCARD ga_status ga_jj_from_json(jj_run *run, const char *json, size_t n);
GA_NODISCARD ga_status ga_jj_tojson(jj_run *run, const jj_call *call, jj_val *out);

/* jinja_ops.c: operators and access */
GA_NODISCARD ga_status ga_jj_binary(jj_run *run, jj_op op, jj_val a, jj_val b, jj_val *out);
GA_NODISCARD ga_status ga_jj_compare(jj_run *run, jj_op op, jj_val a, jj_val b, bool *out);
GA_NODISCARD ga_status ga_jj_negate(jj_run *run, jj_val a, jj_val *out);

/* jinja_access.c: attributes, indices and slices */
GA_NODISCARD ga_status ga_jj_attr(jj_run *run, jj_val v, jj_str *name, jj_val *out); /* computes v.name */
GA_NODISCARD ga_status ga_jj_item(jj_run *run, jj_val v, jj_val key, jj_val *out);   /* computes v[key] */
/* Computes v[start:stop:step] for the three `bounds`; a bound that is not given is JJ_NONE. */
GA_NODISCARD ga_status ga_jj_slice(jj_run *run, jj_val v, const jj_val bounds[3], jj_val *out);
/* Computes v.a.b[0] for a filter's argument `path` such as "a.b.0". Unless fallback is none, it replaces each undefined
 * value on the way. */
GA_NODISCARD ga_status ga_jj_path(jj_run *run, jj_val v, jj_val path, jj_val fallback, jj_val *out);

/* jinja_eval.c, jinja_exec.c: evaluation of expressions, execution of statements */
GA_NODISCARD ga_status ga_jj_eval(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out);
/* Applies the filters of a block to `text`. node is the JN_FILTER that is applied last; the JN_FILTER that is applied
 * first has no operand. */
GA_NODISCARD ga_status ga_jj_eval_filters(jj_run *run, jj_scope *scope, const jj_node *node, jj_val text, jj_val *out);
GA_NODISCARD ga_status ga_jj_eval_args(jj_run *run, jj_scope *scope, const jj_node *kids, jj_args *args);
GA_NODISCARD ga_status ga_jj_call_value(jj_run *run, jj_val fn, const jj_args *args, jj_val *out);
GA_NODISCARD ga_status ga_jj_call_def(jj_run *run, const jj_def *def, jj_val self, const jj_args *args, jj_val *out);
GA_NODISCARD ga_status ga_jj_exec(jj_run *run, jj_scope *scope, const jj_node *list);
GA_NODISCARD ga_status ga_jj_call_macro(jj_run *run, const jj_func *fn, const jj_args *args, jj_val *out);
GA_NODISCARD ga_status ga_jj_call_loop(jj_run *run, jj_loop *loop, const jj_args *args, jj_val *out);
GA_NODISCARD ga_status ga_jj_scope_new(jj_run *run, jj_scope *parent, jj_scope **out);
GA_NODISCARD ga_status ga_jj_scope_set(jj_run *run, jj_scope *scope, const jj_str *name, jj_val value);
/* Puts "line L, column C" of the node before the error text, unless the text has them already. Returns status. */
ga_status ga_jj_locate(jj_run *run, const jj_node *node, ga_status status);

/* Tables of the built-ins in jinja_filter*.c, jinja_test.c, jinja_method*.c and jinja_global.c. Each table ends with a
 * NULL name. Only jinja_tables.c refers to them. */
extern const jj_def ga_jj_filters_text[], ga_jj_filters_seq[], ga_jj_tests[], ga_jj_globals[];
extern const jj_def ga_jj_methods_str[], ga_jj_methods_str2[], ga_jj_methods_list[], ga_jj_methods_dict[],
    ga_jj_methods_loop[];
extern const jj_builtins ga_jj_builtins; /* all tables of built-ins, from jinja_tables.c */

/* Return the definition of a built-in by its name, from the tables of a template (jinja_builtin.c); NULL: there is
 * none. */
const jj_def *ga_jj_filter(const ga_template *tpl, const jj_str *name);
const jj_def *ga_jj_test(const ga_template *tpl, const jj_str *name);
const jj_def *ga_jj_method(const ga_template *tpl, jj_val self, const jj_str *name);
const jj_def *ga_jj_global(const ga_template *tpl, const jj_str *name);
/* Fail with the text "<kind> '<name>' is not known; known are ...". */
ga_status ga_jj_unknown_filter(const ga_template *tpl, const jj_str *name);
ga_status ga_jj_unknown_test(const ga_template *tpl, const jj_str *name);
ga_status ga_jj_unknown_method(const ga_template *tpl, jj_val self, const jj_str *name);

/* jinja_format.c: formatting by "%s" % x and "{}".format(x) */
GA_NODISCARD ga_status ga_jj_percent(jj_run *run, const jj_str *format, jj_val args, jj_val *out);
GA_NODISCARD ga_status ga_jj_brace_format(jj_run *run, const jj_call *call, jj_val *out);

/* Read parameter number `index` of a built-in, or its default if it was not given. Error texts name the parameter. */
GA_NODISCARD ga_status ga_jj_param_int(const jj_call *call, int index, int64_t fallback, int64_t *out);
/* reads a string; *out is NULL if the parameter is missing or none */
GA_NODISCARD ga_status ga_jj_param_str(const jj_call *call, int index, jj_str **out);
bool ga_jj_param_flag(const jj_call *call, int index);

#endif
