/* The template engine of ga/chat.h: values, syntax tree, and the functions that its files share.
 *
 *   source -> jinja_lex.c -> tokens -> jinja_parse.c, jinja_expr.c -> tree (arena of the template, immutable)
 *   tree + context -> jinja_exec.c (statements), jinja_eval.c (expressions) -> text (arena of the rendering)
 *
 * Semantics are of Jinja 3.1 over Python values: str() and repr() print as in Python, lengths and slices count code
 * points. `and`/`or` return operands; there are floor division and chained comparison. The struct jj_run bounds the
 * work of a rendering: every node visited and every element copied is a step, every byte comes from a limited arena.
 */
#ifndef GA_JINJA_JINJA_H
#define GA_JINJA_JINJA_H

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/status.h"
#include "ga/chat.h"

/* Values */

typedef enum jj_kind {
  JJ_MISSING, /* no value: an argument that was not given. Never reaches a template */
  JJ_UNDEF,   /* Jinja's Undefined: prints as "", false, empty; most operations fail. u.s = the undefined name */
  JJ_NONE,
  JJ_BOOL,
  JJ_INT, /* 64 bits; Python's are unbounded: overflow is an error here */
  JJ_FLOAT,
  JJ_STR,
  JJ_LIST,
  JJ_TUPLE,
  JJ_RANGE,
  JJ_VIEW, /* keys(), values(), items() of a dict, copied */
  JJ_GEN,  /* result of lazy filters: always true, no length, read once */
  JJ_DICT,
  JJ_NS, /* namespace(): the one object `set x.y` may change */
  JJ_FUNC,
  JJ_LOOP
} jj_kind;

#define JJ_POINTS_UNKNOWN SIZE_MAX

/* A string. Its bytes never change once shared; slices point into their parent. */
typedef struct jj_str {
  const char *p;
  size_t n;
  size_t points;          /* number of code points, or JJ_POINTS_UNKNOWN until counted. Constants of a template, which
                             threads share, are counted when it is parsed */
  const uint8_t *foreign; /* [n], not 0 where a byte came from a message; NULL: none did. See ga_jj_from_json */
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
    jj_seq *q;  /* LIST TUPLE RANGE VIEW GEN */
    jj_dict *d; /* DICT NS */
    jj_func *fn;
    jj_loop *loop;
  } u;
} jj_val;

struct jj_seq {
  jj_val *v;
  size_t n, cap;
  int64_t start, stop, step; /* RANGE, for printing */
  bool spent;                /* GEN that has been read */
  const char *view;          /* VIEW: "dict_keys", ... */
};

typedef struct jj_entry {
  jj_val key, value;
  uint64_t hash;
} jj_entry;

/* A dict in insertion order. `index` (open addressing, entry + 1) exists for more than JJ_DICT_LINEAR entries. */
struct jj_dict {
  jj_entry *e;
  size_t n, cap;
  uint32_t *index;
  size_t index_cap; /* power of two */
};

#define JJ_DICT_LINEAR 8

/* Syntax tree */

typedef enum jj_node_kind {
  /* expressions */
  JN_CONST,   /* value */
  JN_NAME,    /* name */
  JN_LIST,    /* kids */
  JN_TUPLE,   /* kids */
  JN_DICT,    /* kids: key, value, key, value, ... */
  JN_NOT,     /* a */
  JN_NEG,     /* a */
  JN_POS,     /* a */
  JN_BINARY,  /* op: a, b */
  JN_AND,     /* a, b */
  JN_OR,      /* a, b */
  JN_COMPARE, /* a, kids: JN_OPERAND */
  JN_OPERAND, /* op: a */
  JN_CONCAT,  /* kids */
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
  /* statements */
  JN_TEXT,         /* value */
  JN_OUTPUT,       /* a */
  JN_IF,           /* a, kids; b = next JN_IF or JN_BLOCK or NULL */
  JN_FOR,          /* for a in b if c: kids, else d (JN_BLOCK); op = recursive */
  JN_SET,          /* a = b; a: JN_NAME, JN_TUPLE or JN_ATTR of a JN_NAME */
  JN_SET_BLOCK,    /* a = text of kids through filters b (may be NULL) */
  JN_MACRO,        /* name, kids: JN_PARAM; b = body */
  JN_PARAM,        /* name, a = default or NULL */
  JN_CALL_BLOCK,   /* kids: JN_PARAM of caller; a = JN_CALL, b = body */
  JN_FILTER_BLOCK, /* kids through filters a */
  JN_WITH,         /* kids: JN_SET; b = body */
  JN_SCOPE,        /* kids in a scope of their own: `generation` */
  JN_BLOCK,        /* kids */
  JN_BREAK,
  JN_CONTINUE
} jj_node_kind;

/* Operators of JN_BINARY and JN_OPERAND; also the characters of operator tokens (two-character ones get a letter). */
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
  uint8_t kind;      /* jj_node_kind */
  uint8_t op;        /* jj_op, or flags of the kind */
  uint32_t pos;      /* byte in the source, for messages */
  jj_str *name;      /* interned: equal names are equal pointers */
  const jj_def *def; /* JN_FILTER, JN_TEST; NULL when unknown, which fails only if it is run */
  jj_node *a, *b, *c, *d;
  jj_node *kids, *next;
  jj_val value;
};

typedef struct jj_role {
  struct jj_role *next;
  char name[];
} jj_role;

/* The filters, tests, functions and methods that a template can use: tables that end with a NULL name, unused places
 * NULL. Evaluation reaches built-ins through these tables alone, since built-ins call evaluation. */
enum { JJ_TABLES = 2 };
typedef struct jj_builtins {
  const jj_def *filters[JJ_TABLES], *tests[JJ_TABLES], *globals[JJ_TABLES];
  const jj_def *methods[JJ_LOOP + 1][JJ_TABLES]; /* by jj_kind of the value */
} jj_builtins;

struct ga_template {
  ga_arena arena;
  const char *source; /* newlines normalised, the last one removed */
  size_t n;
  jj_node *root; /* JN_BLOCK */
  const jj_builtins *builtins;
  jj_str *name_loop, *name_caller, *name_varargs, *name_kwargs;
  jj_role *roles; /* that messages may have; all others are plain text */
};

/* Rendering */

typedef struct jj_var {
  struct jj_var *next;
  const jj_str *name; /* interned */
  jj_val value;
} jj_var;

typedef struct jj_scope {
  struct jj_scope *parent;
  jj_var *vars;
} jj_scope;

typedef struct jj_buf {
  char *p;
  size_t n, cap;
  uint8_t *foreign; /* [cap] as in jj_str, or NULL */
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
  bool located; /* the error text already has line and column */
  bool trace;   /* mark the bytes that come from messages */
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

/* One call of a built-in: `v` holds the parameters in the order of the definition, JJ_MISSING where not given. */
typedef struct jj_call {
  jj_val self; /* the value that is filtered or tested, or whose method is called */
  jj_val v[JJ_MAX_PARAMS];
  const jj_args *args; /* as written, for definitions whose params are "*" */
  const jj_def *def;
} jj_call;

typedef ga_status (*jj_fn)(jj_run *run, const jj_call *call, jj_val *out);

/* A row of the tables of filters, tests, methods and functions. params: "old new count?", where `?` marks an optional
 * one; "/old new" for parameters that Python takes by position only; "*": arguments as written. */
struct jj_def {
  const char *name;
  const char *params;
  jj_fn fn;
};

struct jj_func {
  const jj_def *def;    /* built-in, or NULL */
  jj_val self;          /* of a method, or the state of a built-in object */
  const jj_node *macro; /* JN_MACRO or JN_CALL_BLOCK */
  jj_scope *scope;      /* where the macro was defined */
};

struct jj_loop {
  const jj_val *items;
  size_t n, index;
  int depth0;
  const jj_node *node; /* JN_FOR when recursive, for loop(...) */
  jj_scope *scope;
  jj_val changed; /* last argument of loop.changed */
};

/* chat.c: ga_template_render that also gives marks: *foreign has n bytes, not 0 where the text came from a message.
 * Release both with ga_mem_free. */
GA_NODISCARD ga_status ga_jj_render_traced(const ga_template *tpl, const char *json_context, size_t bytes,
                                           const ga_template_limits *limits_or_null, char **text, uint8_t **foreign,
                                           size_t *n);
/* Writes the context of plain messages as JSON, malloc'd. */
GA_NODISCARD ga_status ga_jj_chat_context(const ga_chat_message *messages, size_t n, const ga_chat_options *options,
                                          char **json);

/* jinja_lex.c, jinja_parse.c */
GA_NODISCARD ga_status ga_jj_parse(ga_template *tpl, const ga_template_limits *limits);
/* Line and column (from 1, in code points) of a byte of the source. */
void ga_jj_where(const ga_template *tpl, size_t pos, unsigned *line, unsigned *column);

/* jinja_value.c: values, steps, buffers */
GA_NODISCARD ga_status ga_jj_step(jj_run *run, uint64_t n);
GA_NODISCARD ga_status ga_jj_enter(jj_run *run); /* pairs with run->depth_left++ */
GA_NODISCARD ga_status ga_jj_alloc(jj_run *run, size_t count, size_t each, void **out);
/* For text of the engine's own. Bytes of a string go through the _part forms, which keep their marks. */
GA_NODISCARD ga_status ga_jj_str_new(jj_run *run, const char *p, size_t n, jj_val *out); /* copies */
GA_NODISCARD ga_status ga_jj_buf_put(jj_run *run, jj_buf *buf, const char *p, size_t n);
GA_NODISCARD ga_status ga_jj_buf_puts(jj_run *run, jj_buf *buf, const char *text);
/* Takes bytes [at, at + n) of s, not copied. */
GA_NODISCARD ga_status ga_jj_str_part(jj_run *run, const jj_str *s, size_t at, size_t n, jj_val *out);
GA_NODISCARD ga_status ga_jj_buf_part(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, size_t n);
/* Appends n bytes in place of the byte at `at` of s, with its mark: an escape, upper case. */
GA_NODISCARD ga_status ga_jj_buf_stand(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, const char *p, size_t n);
GA_NODISCARD ga_status ga_jj_buf_str(jj_run *run, const jj_buf *buf, jj_val *out);
GA_NODISCARD ga_status ga_jj_seq_new(jj_run *run, jj_kind kind, size_t cap, jj_val *out);
GA_NODISCARD ga_status ga_jj_seq_push(jj_run *run, jj_seq *seq, jj_val v);
/* Gives the elements of an iterable value: sequences as stored, strings by code point, dicts by key, none for
 * undefined. */
GA_NODISCARD ga_status ga_jj_items(jj_run *run, jj_val v, const jj_val **items, size_t *n);
bool ga_jj_truth(jj_val v);
const char *ga_jj_type(jj_val v); /* Python's name of the type */
/* Fails for undefined values; the text has the name. */
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
/* Reads BOOL or INT as an integer; false for other kinds. */
static inline bool ga_jj_as_int(jj_val v, int64_t *i) {
  if (v.kind != JJ_INT && v.kind != JJ_BOOL) return false;
  *i = v.kind == JJ_INT ? v.u.i : v.u.b;
  return true;
}
static inline double ga_jj_as_double(jj_val v) {
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
/* Finds a value by key; *out = NULL when the key is absent. Fails for keys Python cannot hash. */
GA_NODISCARD ga_status ga_jj_dict_find(jj_run *run, const jj_dict *d, jj_val key, jj_val **out);
GA_NODISCARD ga_status ga_jj_dict_find_text(jj_run *run, const jj_dict *d, const jj_str *key, jj_val **out);
GA_NODISCARD ga_status ga_jj_dict_remove(jj_run *run, jj_dict *d, const jj_val *found);
GA_NODISCARD ga_status ga_jj_equal(jj_run *run, jj_val a, jj_val b, bool *out);
/* Compares: *out < 0, 0, > 0 as a is before, equal to or after b. Fails for types Python does not order. */
GA_NODISCARD ga_status ga_jj_order(jj_run *run, jj_val a, jj_val b, int *out);
/* Stable merge sort of n values by keys, both permuted alike. */
GA_NODISCARD ga_status ga_jj_sort(jj_run *run, jj_val *keys, jj_val *values, size_t n, bool reverse);

/* jinja_text.c: UTF-8 */
bool ga_jj_utf8_ok(const char *p, size_t n);
size_t ga_jj_points(const char *p, size_t n);
size_t ga_jj_str_points(jj_str *s);
/* Code point at p (valid UTF-8), its length in *len. */
int32_t ga_jj_decode(const char *p, const char *end, size_t *len);
size_t ga_jj_encode(int32_t point, char out[4]);
/* Byte where code point number `point` starts; s->n at the end. */
size_t ga_jj_offset(jj_str *s, size_t point);
bool ga_jj_is_space(int32_t point);
bool ga_jj_is_word(int32_t point); /* letters, marks, digits, underscore */
bool ga_jj_is_printable(int32_t point);
typedef enum jj_case { JJ_LOWER, JJ_UPPER, JJ_CAPITALIZE, JJ_TITLE, JJ_SWAP } jj_case;
GA_NODISCARD ga_status ga_jj_recase(jj_run *run, const jj_str *s, jj_case to, jj_val *out);
#define JJ_STRIP_LEFT  1
#define JJ_STRIP_RIGHT 2
/* Strips the code points of `chars` (NULL: white space) from the ends. Costs s->n * chars->n, which callers count as
 * steps. */
jj_str ga_jj_strip(const jj_str *s, const jj_str *chars, int sides);
/* Offset of the first occurrence at or after `from` (find), or of the last one (rfind); SIZE_MAX when there is none. */
size_t ga_jj_find(const jj_str *s, const jj_str *what, size_t from);
GA_NODISCARD ga_status ga_jj_rfind(jj_run *run, const jj_str *s, const jj_str *what, size_t *out);

/* jinja_repr.c, jinja_json.c: to and from text */
GA_NODISCARD ga_status ga_jj_put_str(jj_run *run, jj_buf *buf, jj_val v);  /* str(v) */
GA_NODISCARD ga_status ga_jj_put_repr(jj_run *run, jj_buf *buf, jj_val v); /* repr(v) */
GA_NODISCARD ga_status ga_jj_to_str(jj_run *run, jj_val v, jj_val *out);   /* v itself when it is a string */
#define JJ_FLOAT_BYTES 40
size_t ga_jj_format_float(double f, char out[JJ_FLOAT_BYTES]); /* repr(float) */
/* Reads a whole Python float literal; white space around it is allowed. */
bool ga_jj_read_float(const char *p, size_t n, double *out);
/* jinja_role.c: fills tpl->roles. */
GA_NODISCARD ga_status ga_jj_find_roles(ga_template *tpl);
bool ga_jj_is_known_role(const ga_template *tpl, const char *role, size_t bytes);

/* Reads the context into run->context. With run->trace all its strings and keys are marked foreign, with two
 * exceptions: top-level keys that end in _token, and the roles of messages that are in tpl->roles. */
GA_NODISCARD ga_status ga_jj_from_json(jj_run *run, const char *json, size_t n);
GA_NODISCARD ga_status ga_jj_tojson(jj_run *run, const jj_call *call, jj_val *out);

/* jinja_ops.c: operators and access */
GA_NODISCARD ga_status ga_jj_binary(jj_run *run, jj_op op, jj_val a, jj_val b, jj_val *out);
GA_NODISCARD ga_status ga_jj_compare(jj_run *run, jj_op op, jj_val a, jj_val b, bool *out);
GA_NODISCARD ga_status ga_jj_negate(jj_run *run, jj_val a, jj_val *out);

/* jinja_access.c */
GA_NODISCARD ga_status ga_jj_attr(jj_run *run, jj_val v, jj_str *name, jj_val *out); /* v.name */
GA_NODISCARD ga_status ga_jj_item(jj_run *run, jj_val v, jj_val key, jj_val *out);   /* v[key] */
/* v[start:stop:step]; a bound is JJ_NONE where not given. */
GA_NODISCARD ga_status ga_jj_slice(jj_run *run, jj_val v, const jj_val bounds[3], jj_val *out);
/* Follows a filter's path such as "a.b.0": attributes and indices of attributes. `fallback`, unless it is none,
 * replaces each undefined one. */
GA_NODISCARD ga_status ga_jj_path(jj_run *run, jj_val v, jj_val path, jj_val fallback, jj_val *out);

/* jinja_eval.c, jinja_exec.c */
GA_NODISCARD ga_status ga_jj_eval(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out);
/* Applies the filters of a block; the innermost JN_FILTER has no operand and takes `text`. */
GA_NODISCARD ga_status ga_jj_eval_filters(jj_run *run, jj_scope *scope, const jj_node *node, jj_val text, jj_val *out);
GA_NODISCARD ga_status ga_jj_eval_args(jj_run *run, jj_scope *scope, const jj_node *kids, jj_args *args);
GA_NODISCARD ga_status ga_jj_call_value(jj_run *run, jj_val fn, const jj_args *args, jj_val *out);
GA_NODISCARD ga_status ga_jj_call_def(jj_run *run, const jj_def *def, jj_val self, const jj_args *args, jj_val *out);
GA_NODISCARD ga_status ga_jj_exec(jj_run *run, jj_scope *scope, const jj_node *list);
GA_NODISCARD ga_status ga_jj_call_macro(jj_run *run, const jj_func *fn, const jj_args *args, jj_val *out);
GA_NODISCARD ga_status ga_jj_call_loop(jj_run *run, jj_loop *loop, const jj_args *args, jj_val *out);
GA_NODISCARD ga_status ga_jj_scope_new(jj_run *run, jj_scope *parent, jj_scope **out);
GA_NODISCARD ga_status ga_jj_scope_set(jj_run *run, jj_scope *scope, const jj_str *name, jj_val value);
/* Puts "line L, column C" before the error text, once. Returns status. */
ga_status ga_jj_locate(jj_run *run, const jj_node *node, ga_status status);

/* jinja_filter*.c, jinja_test.c, jinja_method*.c, jinja_global.c: tables that end with a NULL name. Only jinja_tables.c
 * names them. */
extern const jj_def ga_jj_filters_text[], ga_jj_filters_seq[], ga_jj_tests[], ga_jj_globals[];
extern const jj_def ga_jj_methods_str[], ga_jj_methods_str2[], ga_jj_methods_list[], ga_jj_methods_dict[],
    ga_jj_methods_loop[];
extern const jj_builtins ga_jj_builtins; /* jinja_tables.c */

/* jinja_builtin.c: look up a name in the tables of a template; NULL when it is not there. */
const jj_def *ga_jj_filter(const ga_template *tpl, const jj_str *name);
const jj_def *ga_jj_test(const ga_template *tpl, const jj_str *name);
const jj_def *ga_jj_method(const ga_template *tpl, jj_val self, const jj_str *name);
const jj_def *ga_jj_global(const ga_template *tpl, const jj_str *name);
/* Fail with "<what> '<name>' is not known; known are ...". */
ga_status ga_jj_unknown_filter(const ga_template *tpl, const jj_str *name);
ga_status ga_jj_unknown_test(const ga_template *tpl, const jj_str *name);
ga_status ga_jj_unknown_method(const ga_template *tpl, jj_val self, const jj_str *name);

/* jinja_format.c: "%s" % x and "{}".format(x) */
GA_NODISCARD ga_status ga_jj_percent(jj_run *run, const jj_str *format, jj_val args, jj_val *out);
GA_NODISCARD ga_status ga_jj_brace_format(jj_run *run, const jj_call *call, jj_val *out);

/* Read a parameter of a built-in, or its default; the error text names the parameter. */
GA_NODISCARD ga_status ga_jj_param_int(const jj_call *call, int index, int64_t fallback, int64_t *out);
GA_NODISCARD ga_status ga_jj_param_str(const jj_call *call, int index, jj_str **out); /* NULL when missing or none */
bool ga_jj_param_flag(const jj_call *call, int index);

#endif
