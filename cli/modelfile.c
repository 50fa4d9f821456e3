#include "cli/modelfile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmdline/error.h"

#define QUOTES "\"\"\""

/* --- parameters --- */

typedef struct parameter {
  const char *name;
  size_t offset;
  bool is_whole;
  double min, max;
} parameter;

static const parameter parameters[] = {
    {"temperature", offsetof(modelfile, temperature), false, 0, 100},
    {"top_k", offsetof(modelfile, top_k), true, 0, 1e9},
    {"top_p", offsetof(modelfile, top_p), false, 1e-6, 1},
    {"min_p", offsetof(modelfile, min_p), false, 0, 0.999999},
    {"repeat_penalty", offsetof(modelfile, repeat), false, 1e-3, 100},
    {"repeat_last_n", offsetof(modelfile, repeat_last), true, -1, 1e9},
    {"presence_penalty", offsetof(modelfile, presence), false, -2, 2},
    {"frequency_penalty", offsetof(modelfile, frequency), false, -2, 2},
    {"seed", offsetof(modelfile, seed), true, -1, 9e18},
    {"num_predict", offsetof(modelfile, max_tokens), true, -2, 1e9},
    {"num_ctx", offsetof(modelfile, context), true, 1, 1e9},
};

static double *float_at(const modelfile *m, const parameter *p) {
  return (double *)(void *)((char *)(uintptr_t)m + p->offset);
}
static int64_t *whole_at(const modelfile *m, const parameter *p) {
  return (int64_t *)(void *)((char *)(uintptr_t)m + p->offset);
}

static bool is_given(const modelfile *m, const parameter *p) {
  return p->is_whole ? *whole_at(m, p) != MODELFILE_NONE : !isnan(*float_at(m, p));
}

/* --- one at a time --- */

modelfile modelfile_empty(void) {
  modelfile m = {0};
  for (size_t i = 0; i < COUNT_OF(parameters); i++) {
    if (parameters[i].is_whole)
      *whole_at(&m, &parameters[i]) = MODELFILE_NONE;
    else
      *float_at(&m, &parameters[i]) = NAN;
  }
  return m;
}

void modelfile_free(modelfile *m) {
  free(m->from);
  free(m->system);
  free(m->chat_template);
  free(m->licence);
  for (size_t i = 0; i < m->n_stop; i++) free(m->stop[i]);
  *m = modelfile_empty();
}

static void inherit_text(char **to, char **from) {
  if (*to) return;
  *to = *from;
  *from = NULL;
}

void modelfile_inherit(modelfile *m, modelfile *base) {
  free(m->from);
  m->from = base->from;
  base->from = NULL;
  inherit_text(&m->system, &base->system);
  inherit_text(&m->chat_template, &base->chat_template);
  inherit_text(&m->licence, &base->licence);
  for (size_t i = 0; i < COUNT_OF(parameters); i++) {
    const parameter *p = &parameters[i];
    if (is_given(m, p)) continue;
    if (p->is_whole)
      *whole_at(m, p) = *whole_at(base, p);
    else
      *float_at(m, p) = *float_at(base, p);
  }
  if (m->n_stop) return;
  memcpy(m->stop, base->stop, sizeof m->stop);
  m->n_stop = base->n_stop;
  base->n_stop = 0;
}

/* --- reading --- */

typedef struct reader {
  const char *label, *at, *end;
  int line;       /* number of the line of the instruction */
  int lines_more; /* lines that its text goes on over */
} reader;

static ga_status refuse_at(const reader *r, const char *why) {
  return ga_error_set(GA_ERR_FORMAT, "%s, line %d: %s", r->label, r->line, why);
}

static char *copy_bytes(const char *p, size_t n) {
  char *text = malloc(n + 1);
  if (!text) return NULL;
  memcpy(text, p, n);
  text[n] = 0;
  return text;
}

/* Copies n bytes without blanks at both ends. */
static char *copy_trimmed(const char *p, size_t n) {
  while (n && strchr(" \t", *p)) p++, n--;
  while (n && strchr(" \t", p[n - 1])) n--;
  return copy_bytes(p, n);
}

/* Takes the text between three quotes on each side. r->at is after the opening quotes, and then at the line's end. */
static ga_status take_quoted(reader *r, char **out) {
  if (*r->at == '\n') r->at++, r->lines_more++; /* the text may begin on a line of its own */
  const char *end = strstr(r->at, QUOTES);
  if (!end) return refuse_at(r, "the three quotes that end the text are missing");
  const char *rest = end + strlen(QUOTES), *stop = rest + strcspn(rest, "\n");
  if (rest + strspn(rest, " \t") < stop) return refuse_at(r, "there is text after the three quotes that end it");
  const size_t n = (size_t)(end - r->at);
  *out = copy_bytes(r->at, n);
  for (const char *p = r->at; p < end; p++) r->lines_more += *p == '\n';
  r->at = stop;
  return *out ? GA_OK : fail_nomem(r->label, n);
}

/* Takes the value that follows on the line, or between three quotes, without its quotes. r->at is then at the line's
 * end. */
static ga_status take_modelfile_value(reader *r, char **out) {
  r->at += strspn(r->at, " \t");
  if (!strncmp(r->at, QUOTES, strlen(QUOTES))) {
    r->at += strlen(QUOTES);
    return take_quoted(r, out);
  }
  char *text = *out = copy_trimmed(r->at, strcspn(r->at, "\n"));
  r->at += strcspn(r->at, "\n");
  if (!text) return fail_nomem(r->label, 0);
  const size_t n = strlen(text);
  if (*text == '"') {
    if (n < 2 || strchr(text + 1, '"') != text + n - 1)
      return refuse_at(r, "quotes inside of quotes, or one that is not closed; three quotes take any text");
    memmove(text, text + 1, n - 2);
    text[n - 2] = 0;
  }
  if (strstr(text, QUOTES)) return refuse_at(r, "a text has no three quotes in it");
  return *text ? GA_OK : refuse_at(r, "the value is missing");
}

static ga_status take_once(reader *r, char **out) {
  if (*out) return refuse_at(r, "this instruction stands there twice");
  return take_modelfile_value(r, out);
}

/* Several licences are one text. */
static ga_status take_licence(reader *r, modelfile *m) {
  char *more = NULL;
  sv_text t = {0};
  const ga_status status = take_modelfile_value(r, &more);
  if (status == GA_OK && m->licence) {
    sv_putf(&t, "%s\n%s", m->licence, more);
    free(more);
    more = t.p;
  }
  if (status != GA_OK || t.failed) {
    free(more);
    return t.failed ? fail_nomem(r->label, t.n) : status;
  }
  free(m->licence);
  m->licence = more;
  return GA_OK;
}

static ga_status refuse_parameter(const reader *r, const char *name, const char *value, const parameter *p) {
  char list[256] = "";
  if (p)
    return ga_error_set(GA_ERR_FORMAT, "%s, line %d: PARAMETER %s is '%.60s'; it must be a%s number from %g to %g",
                        r->label, r->line, name, value, p->is_whole ? " whole" : "", p->min, p->max);
  for (size_t i = 0, n = 0; i < COUNT_OF(parameters); i++)
    n += (size_t)snprintf(list + n, sizeof list - n, "%s, ", parameters[i].name);
  return ga_error_set(GA_ERR_FORMAT, "%s, line %d: PARAMETER %.60s is not supported; there are %sstop", r->label,
                      r->line, name, list);
}

static ga_status store_parameter(const reader *r, modelfile *m, const char *name, const char *value) {
  for (size_t i = 0; i < COUNT_OF(parameters); i++) {
    const parameter *p = &parameters[i];
    char *end;
    if (strcasecmp(p->name, name)) continue;
    if (is_given(m, p)) return refuse_at(r, "this parameter stands there twice");
    errno = 0;
    const double v = strtod(value, &end);
    const bool is_number = end != value && !*end && !errno && v >= p->min && v <= p->max;
    if (!is_number || (p->is_whole && v != floor(v))) return refuse_parameter(r, p->name, value, p);
    if (p->offset == offsetof(modelfile, max_tokens) && v == 0) return refuse_at(r, "PARAMETER num_predict is 0");
    if (p->is_whole)
      *whole_at(m, p) = (int64_t)v;
    else
      *float_at(m, p) = v;
    return GA_OK;
  }
  return refuse_parameter(r, name, value, NULL);
}

static ga_status take_parameter(reader *r, modelfile *m) {
  r->at += strspn(r->at, " \t");
  const size_t n = strcspn(r->at, " \t\n");
  char *name = copy_bytes(r->at, n), *value = NULL;
  if (!name) return fail_nomem(r->label, n);
  r->at += n;
  ga_status status = *name ? take_modelfile_value(r, &value) : refuse_at(r, "PARAMETER has no name");
  if (status == GA_OK && !*value) status = refuse_at(r, "the value is missing");
  if (status == GA_OK && !strcasecmp(name, "stop")) {
    if (m->n_stop == MODELFILE_STOPS) status = refuse_at(r, "there are more than 16 stop texts");
    if (status == GA_OK) m->stop[m->n_stop++] = value, value = NULL;
  } else if (status == GA_OK) {
    status = store_parameter(r, m, name, value);
  }
  free(name);
  free(value);
  return status;
}

static ga_status refuse_instruction(const reader *r, const char *word) {
  static const struct {
    const char *name, *why;
  } others[] = {{"ADAPTER", "is not supported yet: merge the adapter into the model before"},
                {"MESSAGE", "is not supported: ga chat --load FILE begins with a conversation"},
                {"REQUIRES", "is not supported: it names a version of Ollama"}};
  for (size_t i = 0; i < COUNT_OF(others); i++)
    if (!strcasecmp(word, others[i].name))
      return ga_error_set(GA_ERR_UNSUPPORTED, "%s, line %d: %s %s", r->label, r->line, others[i].name, others[i].why);
  return ga_error_set(GA_ERR_FORMAT,
                      "%s, line %d: '%.60s' is no instruction; there are FROM, SYSTEM, TEMPLATE, PARAMETER, LICENSE",
                      r->label, r->line, word);
}

static ga_status take_instruction(reader *r, modelfile *m) {
  char word[64];
  const size_t n = strcspn(r->at, " \t\n");
  (void)snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), r->at);
  r->at += n;
  if (!strcasecmp(word, "FROM")) return take_once(r, &m->from);
  if (!strcasecmp(word, "SYSTEM")) return take_once(r, &m->system);
  if (!strcasecmp(word, "TEMPLATE")) return take_once(r, &m->chat_template);
  if (!strcasecmp(word, "PARAMETER")) return take_parameter(r, m);
  if (!strcasecmp(word, "LICENSE")) return take_licence(r, m);
  return refuse_instruction(r, word);
}

/* Replaces the line ends of Windows by line feeds. */
static void drop_returns(char *text) {
  char *to = text;
  for (const char *p = text; *p; p++)
    if (*p != '\r' || p[1] != '\n') *to++ = *p;
  *to = 0;
}

static ga_status take_lines(const char *text, const char *label, modelfile *out) {
  reader r = {.label = label, .at = text, .line = 1};
  for (const char *p = text; *p; p++) {
    if ((unsigned char)*p < 0x20 && *p != '\t' && *p != '\n') return refuse_at(&r, "there is a control character");
    r.line += *p == '\n';
  }
  r.line = 1;
  if (!strncmp(text, "\xef\xbb\xbf", 3)) r.at += 3;
  while (*r.at) {
    r.at += strspn(r.at, " \t");
    if (*r.at == '#') r.at += strcspn(r.at, "\n");
    if (*r.at && *r.at != '\n') TRY(take_instruction(&r, out));
    r.line += 1 + r.lines_more;
    r.lines_more = 0;
    if (*r.at) r.at++;
  }
  return GA_OK;
}

ga_status modelfile_parse(const char *text, size_t bytes, const char *label, modelfile *out) {
  *out = modelfile_empty();
  REQUIRE(bytes <= MODELFILE_BYTES, GA_ERR_FORMAT, "%s: %zu bytes; at most %d", label, bytes, (int)MODELFILE_BYTES);
  REQUIRE(strlen(text) == bytes && sv_is_utf8(text, bytes), GA_ERR_FORMAT, "%s: must be text in UTF-8", label);
  char *lines = strdup(text);
  if (!lines) return fail_nomem(label, bytes);
  drop_returns(lines);
  const ga_status status = take_lines(lines, label, out);
  free(lines);
  TRY(status);
  REQUIRE(out->from, GA_ERR_FORMAT, "%s: there is no FROM, which names the model that it is made of", label);
  return GA_OK;
}

/* --- writing --- */

static void put_modelfile_value(sv_text *out, const char *before, const char *name, const char *value) {
  const size_t n = strlen(value);
  const bool is_plain = n && !strchr(value, '\n') && !strchr("\" \t", *value) && !strchr(" \t", value[n - 1]);
  sv_putf(out, "%s%s ", before, name);
  if (is_plain)
    sv_putf(out, "%s\n", value);
  else /* a line end directly after the opening quotes is dropped by the reader */
    sv_putf(out, QUOTES "%s%s%s" QUOTES "\n", *value == '\n' ? "\n" : "", value,
            n && value[n - 1] == '"' ? "\n" : ""); /* licences that were joined may end with a quote */
}

void modelfile_print_parameters(const modelfile *m, const char *before, sv_text *out) {
  for (size_t i = 0; i < COUNT_OF(parameters); i++) {
    const parameter *p = &parameters[i];
    if (!is_given(m, p)) continue;
    if (p->is_whole)
      sv_putf(out, "%s%s %lld\n", before, p->name, (long long)*whole_at(m, p));
    else
      sv_putf(out, "%s%s %.9g\n", before, p->name, *float_at(m, p));
  }
  for (size_t i = 0; i < m->n_stop; i++) put_modelfile_value(out, before, "stop", m->stop[i]);
}

void modelfile_print(const modelfile *m, sv_text *out) {
  put_modelfile_value(out, "", "FROM", m->from);
  if (m->system) put_modelfile_value(out, "", "SYSTEM", m->system);
  if (m->chat_template) put_modelfile_value(out, "", "TEMPLATE", m->chat_template);
  modelfile_print_parameters(m, "PARAMETER ", out);
  if (m->licence) put_modelfile_value(out, "", "LICENSE", m->licence);
}
