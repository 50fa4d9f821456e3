#include "cli/rewrite.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cli/open.h"
#include "cmdline/error.h"
#include "ga/quantize.h"

enum { MOST_TYPES = 64 };

typedef struct type_sum {
  int64_t from_count, to_count;
  uint64_t from_bytes, to_bytes;
} type_sum;

typedef struct rewrite_sums {
  const rewrite_args *args;
  type_sum types[MOST_TYPES]; /* by ga_dtype */
  uint64_t from_bytes, to_bytes;
  int64_t tensors, left_out, weighted, fallbacks, requantised;
  json_t *each; /* JSON only */
  char left_out_name[128];
} rewrite_sums;

static bool is_block_type(int32_t dtype) { return ga_dtype_info((ga_dtype)dtype)->is_quant; }

static json_t *tensor_json(const ga_quantize_tensor *t) {
  return json_pack("{s:o, s:s, s:s, s:I, s:I, s:b, s:b}", "name", cmd_json_text(t->name, strlen(t->name)), "from",
                   ga_dtype_name((ga_dtype)t->from), "to", t->left_out ? "none" : ga_dtype_name((ga_dtype)t->to),
                   "bytes_from", (json_int_t)t->bytes_from, "bytes_to", (json_int_t)t->bytes_to, "fallback",
                   t->to != t->wanted && !t->left_out, "weighted", t->weighted);
}

static void print_tensor(const ga_quantize_tensor *t) {
  cmd_put_text(stderr, t->name, strlen(t->name));
  (void)fprintf(stderr, "  %lld x %lld  %s", (long long)t->rows, (long long)t->cols, ga_dtype_name((ga_dtype)t->from));
  if (t->left_out)
    (void)fprintf(stderr, "  left out: no part of the architecture\n");
  else if (t->to != t->wanted)
    (void)fprintf(stderr, " -> %s, since rows hold no whole blocks of %s\n", ga_dtype_name((ga_dtype)t->to),
                  ga_dtype_name((ga_dtype)t->wanted));
  else
    (void)fprintf(stderr, " -> %s%s\n", ga_dtype_name((ga_dtype)t->to), t->weighted ? ", weighted" : "");
}

static void count_tensor(void *user, const ga_quantize_tensor *t) {
  rewrite_sums *s = user;
  if (s->args->json) (void)json_array_append_new(s->each, tensor_json(t));
  if (s->args->each) print_tensor(t);
  if (t->left_out) {
    if (!s->left_out++) (void)snprintf(s->left_out_name, sizeof s->left_out_name, "%s", t->name);
    return;
  }
  s->tensors++;
  s->types[t->from].from_count++;
  s->types[t->from].from_bytes += t->bytes_from;
  s->types[t->to].to_count++;
  s->types[t->to].to_bytes += t->bytes_to;
  s->from_bytes += t->bytes_from;
  s->to_bytes += t->bytes_to;
  s->weighted += t->weighted != 0;
  s->fallbacks += t->to != t->wanted;
  s->requantised += is_block_type(t->from) && is_block_type(t->to) && t->from != t->to;
}

static int show_bytes(void *user, uint64_t done, uint64_t total) {
  (void)user;
  cmd_progress("writing", done, total + 1); /* the last step is the end of the file */
  return interrupted();
}

static double to_mib(uint64_t bytes) { return (double)bytes / 1048576; }

static void print_sums(const rewrite_sums *s, double seconds) {
  printf("%-8s %8s %12s    %8s %12s\n", "type", "before", "MiB", "now", "MiB");
  for (int i = 0; i < MOST_TYPES; i++) {
    const type_sum *t = &s->types[i];
    if (t->from_count || t->to_count)
      printf("%-8s %8lld %12.2f    %8lld %12.2f\n", ga_dtype_name((ga_dtype)i), (long long)t->from_count,
             to_mib(t->from_bytes), (long long)t->to_count, to_mib(t->to_bytes));
  }
  printf("%-8s %8lld %12.2f    %8lld %12.2f   %.1f s\n", "all", (long long)s->tensors, to_mib(s->from_bytes),
         (long long)s->tensors, to_mib(s->to_bytes), seconds);
}

static void print_remarks(const char *name, const rewrite_sums *s) {
  if (s->fallbacks)
    (void)fprintf(stderr,
                  "ga %s: %lld %s rows that hold no whole blocks of their type, and got another; "
                  "--each shows which\n",
                  name, (long long)s->fallbacks, s->fallbacks == 1 ? "tensor has" : "tensors have");
  if (s->requantised)
    (void)fprintf(stderr, "ga %s: %lld %s quantised already: errors add up; a source in bf16 or f16 is better\n", name,
                  (long long)s->requantised, s->requantised == 1 ? "tensor was" : "tensors were");
  if (s->left_out) {
    (void)fprintf(stderr, "ga %s: %lld tensors that the architecture does not use are left out: ", name,
                  (long long)s->left_out);
    cmd_put_text(stderr, s->left_out_name, strlen(s->left_out_name));
    (void)fprintf(stderr, "%s\n", s->left_out > 1 ? " and others" : "");
  }
  if (s->args->importance)
    (void)fprintf(stderr, "ga %s: %lld tensors are weighted by %s\n", name, (long long)s->weighted,
                  s->args->importance);
}

static ga_status print_json(rewrite_sums *s, double seconds) {
  json_t *tensors = s->each;
  s->each = NULL;
  return cmd_print_json(json_pack("{s:o, s:s, s:I, s:I, s:f, s:I, s:I, s:I, s:o}", "out",
                                  cmd_json_text(s->args->out, strlen(s->args->out)), "type", s->args->type,
                                  "bytes_from", (json_int_t)s->from_bytes, "bytes_to", (json_int_t)s->to_bytes,
                                  "seconds", seconds, "fallbacks", (json_int_t)s->fallbacks, "left_out",
                                  (json_int_t)s->left_out, "weighted", (json_int_t)s->weighted, "tensors", tensors),
                        JSON_INDENT(1));
}

static double now_in_seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ga_status write_model_file(const rewrite_args *a, rewrite_sums *s) {
  char path[4096];
  ga_quantize_options o = GA_QUANTIZE_OPTIONS_INIT;
  TRY(find_model(a->in, path, sizeof path));
  o.type = a->type;
  o.importance = a->importance;
  o.tensor_types = a->tensor_types.item;
  o.n_tensor_types = (int32_t)a->tensor_types.n;
  o.n_threads = (int32_t)a->threads;
  o.overwrite = a->force;
  o.pure = a->pure;
  o.dry_run = a->dry_run;
  o.tensor = count_tensor;
  o.progress = show_bytes;
  o.user = s;
  const double begin = now_in_seconds();
  const ga_status status = ga_quantize_file(path, a->out, &o);
  cmd_progress("writing", 1, 1);
  TRY(status);
  if (a->json) return print_json(s, now_in_seconds() - begin);
  print_sums(s, now_in_seconds() - begin);
  return GA_OK;
}

/* EXIT_OK, or EXIT_USAGE with a text. */
static int check_tensor_types(const char *name, const cmd_texts *types) {
  for (size_t i = 0; i < types->n; i++) {
    const char *text = types->item[i], *equals = strrchr(text, '=');
    if (!equals || equals == text || !equals[1])
      return cmd_usage_error(name, "--tensor-type '%s'; must be NAME=TYPE", text);
    if (!ga_quantize_known(ga_dtype_from_name(equals + 1)))
      return cmd_usage_error(name,
                             "--tensor-type '%s': the type must be f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k "
                             "to q6_k, iq4_nl, iq4_xs or mxfp4",
                             text);
  }
  return EXIT_OK;
}

int rewrite_model(const char *name, const rewrite_args *a) {
  bool known = false;
  if (check_tensor_types(name, &a->tensor_types)) return EXIT_USAGE;
  for (int32_t i = 0; ga_quantize_type_at(i); i++) known |= !strcasecmp(a->type, ga_quantize_type_at(i));
  if (!known) return cmd_usage_error(name, "type '%s' is not known; allowed: " REWRITE_TYPES, a->type);
  if (cmd_check_out(name, a->out)) return EXIT_USAGE;
  rewrite_sums s = {.args = a, .each = a->json ? json_array() : NULL};
  listen_for_interrupt();
  const ga_status status = write_model_file(a, &s);
  json_decref(s.each);
  if (status != GA_OK) return cmd_fail(name);
  print_remarks(name, &s);
  return EXIT_OK;
}
