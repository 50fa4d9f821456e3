/* Tests: what stands after `is`. */
#include <math.h>

#include <utf8proc.h>

#include "jinja/jinja_builtin.h"

#define JJ_TEST(name, condition)  \
  JJ_BUILTIN(name) {              \
    (void)run;                    \
    *out = ga_jj_bool(condition); \
    return GA_OK;                 \
  }

JJ_TEST(test_boolean, call->self.kind == JJ_BOOL)
JJ_TEST(test_callable, call->self.kind == JJ_FUNC || call->self.kind == JJ_LOOP || call->self.kind == JJ_UNDEF)
JJ_TEST(test_defined, call->self.kind != JJ_UNDEF)
JJ_TEST(test_undefined, call->self.kind == JJ_UNDEF)
JJ_TEST(test_false, call->self.kind == JJ_BOOL && !call->self.u.b)
JJ_TEST(test_true, call->self.kind == JJ_BOOL && call->self.u.b)
JJ_TEST(test_float, call->self.kind == JJ_FLOAT)
JJ_TEST(test_integer, call->self.kind == JJ_INT || call->self.kind == JJ_BIG)
JJ_TEST(test_number, ga_jj_is_num(call->self))
JJ_TEST(test_mapping, call->self.kind == JJ_DICT)
JJ_TEST(test_none, call->self.kind == JJ_NONE)
JJ_TEST(test_string, call->self.kind == JJ_STR)
JJ_TEST(test_iterable, call->self.kind == JJ_UNDEF || call->self.kind == JJ_STR || call->self.kind == JJ_LOOP ||
                           (call->self.kind >= JJ_LIST && call->self.kind <= JJ_DICT))
JJ_TEST(test_sequence, call->self.kind == JJ_UNDEF || call->self.kind == JJ_STR || call->self.kind == JJ_LIST ||
                           call->self.kind == JJ_TUPLE || call->self.kind == JJ_RANGE || call->self.kind == JJ_DICT)
JJ_TEST(test_filter, call->self.kind == JJ_STR && ga_jj_filter(run->tpl, call->self.u.s))
JJ_TEST(test_test, call->self.kind == JJ_STR && ga_jj_test(run->tpl, call->self.u.s))

static ga_status modulo(jj_run *run, const jj_call *call, jj_val divisor, int64_t wanted, jj_val *out) {
  jj_val rest;
  bool same;
  GA_TRY(ga_jj_binary(run, JO_MOD, call->self, divisor, &rest));
  GA_TRY(ga_jj_equal(run, rest, ga_jj_int(wanted), &same));
  *out = ga_jj_bool(same);
  return GA_OK;
}

JJ_BUILTIN(test_even) { return modulo(run, call, ga_jj_int(2), 0, out); }
JJ_BUILTIN(test_odd) { return modulo(run, call, ga_jj_int(2), 1, out); }
JJ_BUILTIN(test_divisibleby) { return modulo(run, call, call->v[0], 0, out); }

static ga_status comparison(jj_run *run, const jj_call *call, jj_op op, jj_val *out) {
  bool yes;
  GA_TRY(ga_jj_compare(run, op, call->self, call->v[0], &yes));
  *out = ga_jj_bool(yes);
  return GA_OK;
}

JJ_BUILTIN(test_eq) { return comparison(run, call, JO_EQ, out); }
JJ_BUILTIN(test_ne) { return comparison(run, call, JO_NE, out); }
JJ_BUILTIN(test_lt) { return comparison(run, call, JO_LT, out); }
JJ_BUILTIN(test_le) { return comparison(run, call, JO_LE, out); }
JJ_BUILTIN(test_gt) { return comparison(run, call, JO_GT, out); }
JJ_BUILTIN(test_ge) { return comparison(run, call, JO_GE, out); }
JJ_BUILTIN(test_in) { return comparison(run, call, JO_IN, out); }

/* `is` of Python: the same object; for values without identity here, the same type and value. */
JJ_BUILTIN(test_sameas) {
  jj_val a = call->self, b = call->v[0];
  bool same = a.kind == b.kind;
  if (same && a.kind >= JJ_LIST)
    same = a.u.d == b.u.d;
  else if (same)
    GA_TRY(ga_jj_equal(run, a, b, &same));
  *out = ga_jj_bool(same);
  return GA_OK;
}

/* str.islower(), str.isupper(): letters with case, all of one. */
static ga_status one_case(jj_run *run, const jj_call *call, utf8proc_category_t wanted, jj_val *out) {
  jj_str *s;
  size_t len;
  bool any = false, all = true;
  GA_TRY(ga_jj_self_str(run, call, &s));
  GA_TRY(ga_jj_step(run, s->n / 16));
  for (size_t at = 0; at < s->n; at += len) {
    utf8proc_category_t k = utf8proc_category(ga_jj_decode(s->p + at, s->p + s->n, &len));
    if (k != UTF8PROC_CATEGORY_LU && k != UTF8PROC_CATEGORY_LL && k != UTF8PROC_CATEGORY_LT) continue;
    any = true;
    all = all && k == wanted;
  }
  *out = ga_jj_bool(any && all);
  return GA_OK;
}

JJ_BUILTIN(test_lower) { return one_case(run, call, UTF8PROC_CATEGORY_LL, out); }
JJ_BUILTIN(test_upper) { return one_case(run, call, UTF8PROC_CATEGORY_LU, out); }

const jj_def ga_jj_tests[] = {
    {"boolean", "", test_boolean},
    {"callable", "", test_callable},
    {"defined", "", test_defined},
    {"divisibleby", "num", test_divisibleby},
    {"eq", "other", test_eq},
    {"equalto", "other", test_eq},
    {"==", "other", test_eq},
    {"even", "", test_even},
    {"false", "", test_false},
    {"filter", "", test_filter},
    {"float", "", test_float},
    {"ge", "other", test_ge},
    {">=", "other", test_ge},
    {"greaterthan", "other", test_gt},
    {"gt", "other", test_gt},
    {">", "other", test_gt},
    {"in", "seq", test_in},
    {"integer", "", test_integer},
    {"iterable", "", test_iterable},
    {"le", "other", test_le},
    {"<=", "other", test_le},
    {"lessthan", "other", test_lt},
    {"lower", "", test_lower},
    {"lt", "other", test_lt},
    {"<", "other", test_lt},
    {"mapping", "", test_mapping},
    {"ne", "other", test_ne},
    {"!=", "other", test_ne},
    {"none", "", test_none},
    {"number", "", test_number},
    {"odd", "", test_odd},
    {"sameas", "other", test_sameas},
    {"sequence", "", test_sequence},
    {"string", "", test_string},
    {"test", "", test_test},
    {"true", "", test_true},
    {"undefined", "", test_undefined},
    {"upper", "", test_upper},
    {NULL, NULL, NULL},
};
