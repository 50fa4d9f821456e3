/* A model's answers on two sides, for machines with a GPU: usage: tokens MODEL TEXT DEVICES [PROMPT [TOKENS [OPTIONS]]]
 *
 * The first PROMPT (default 700) tokens of TEXT are evaluated on the CPU and on DEVICES, then TOKENS (64) more,
 * greedily: each side is given what the CPU chose. DEVICES: "cuda:0", or "cuda:0,cuda:1" for layers shared among these.
 * Printed: the places of the layers, where the choices part, by how much the devices' logits prefer their own (a gap
 * within the noise of rounding is no fault), and the largest and mean difference of logits. Exit 1: a choice parts by
 * more than 0.1, or a mean difference above 0.05. OPTIONS, with commas between: "batch=64", "layers=10" (--gpu-layers)
 * of the devices' session; "kv=q8_0" of both; "beside=cuda:0": that device in the CPU's place; "equal": exit 1 unless
 * all logits are equal (one GPU beside two of a kind: the same kernels). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ga/llm.h"

enum { MOST = 8 };

typedef struct side {
  ga_ctx *ctx[MOST]; /* the last one has the head */
  int32_t n;
  ga_model *model;
  ga_session *session;
  float *logits;
} side;

static void fail(const char *what) {
  fprintf(stderr, "tokens: %s: %s\n", what, ga_error_text());
  exit(2);
}

/* The value of "name=" up to a comma; NULL when it is not among the options. */
static const char *option(const char *options, const char *name, char *text, size_t capacity) {
  const size_t length = strlen(name);
  for (const char *at = options; *at; at += strcspn(at, ","), at += *at == ',') {
    if (strncmp(at, name, length)) continue;
    (void)snprintf(text, capacity, "%.*s", (int)(strcspn(at, ",") - length), at + length);
    return text;
  }
  return NULL;
}

static void open_contexts(side *s, const char *devices) {
  for (const char *at = devices; *at; at += strcspn(at, ","), at += *at == ',') {
    ga_ctx_options co = GA_CTX_OPTIONS_INIT;
    char name[32];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
    co.device = name;
    if (s->n == MOST || ga_ctx_create(&co, &s->ctx[s->n++])) fail(devices);
  }
  if (!s->n) fail("no device");
}

static void print_model_placements(const ga_model *model) {
  for (int32_t i = 0; i < ga_model_placement_count(model); i++) {
    const ga_model_placement *p = ga_model_placement_at(model, i);
    printf("%s%s: %d layers from %d on", i ? "; " : "", p->device, p->n_layers, p->first_layer);
  }
  printf("\n");
}

static void open_side(side *s, const char *devices, const char *path, int32_t context, const char *options) {
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  char text[32];
  so.context = context;
  if (option(options, "batch=", text, sizeof text)) so.batch = atoi(text);
  if (option(options, "kv=", text, sizeof text)) so.kv_dtype = (int32_t)ga_dtype_from_name(text);
  if (option(options, "layers=", text, sizeof text)) mo.gpu_layers = atoi(text);
  open_contexts(s, devices);
  mo.more = s->ctx;
  mo.n_more = s->n - 1;
  mo.session = &so;
  if (ga_model_load(s->ctx[s->n - 1], path, &mo, &s->model) || ga_session_create(s->model, &so, &s->session))
    fail(devices);
  s->logits = malloc((size_t)ga_model_get_info(s->model)->vocab * sizeof(float));
  if (!s->logits) fail("memory");
  print_model_placements(s->model);
}

static void close_side(side *s) {
  ga_session_destroy(s->session);
  ga_model_destroy(s->model);
  for (int32_t i = 0; i < s->n; i++) ga_ctx_destroy(s->ctx[i]);
  free(s->logits);
}

static int32_t *read_ids(const ga_model *model, const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  char *text = malloc(1 << 20);
  int32_t *ids = malloc((1 << 20) * sizeof *ids);
  if (!f || !text || !ids) fail(path);
  const size_t bytes = fread(text, 1, 1 << 20, f);
  fclose(f);
  if (ga_tokenize(ga_model_tokenizer(model), text, bytes, GA_TOK_ADD_SPECIAL, ids, 1 << 20, n)) fail("tokenize");
  free(text);
  return ids;
}

static int32_t best_token(const float *x, int32_t n) {
  int32_t best = 0;
  for (int32_t i = 1; i < n; i++)
    if (x[i] > x[best]) best = i;
  return best;
}

/* What is found over the tokens. */
typedef struct tally {
  int parted;
  double gap, most, sum; /* gap: the largest; most, sum: of differences of logits */
  int64_t n;
} tally;

static int32_t compare_step(const side *cpu, const side *gpu, int step, tally *t) {
  const int32_t vocab = ga_model_get_info(cpu->model)->vocab;
  const int32_t a = best_token(cpu->logits, vocab), b = best_token(gpu->logits, vocab);
  for (int32_t i = 0; i < vocab; i++) {
    const double d = fabs((double)cpu->logits[i] - (double)gpu->logits[i]);
    if (!(d <= t->most)) t->most = d; /* NaN too */
    t->sum += d;
    t->n++;
  }
  if (a == b) return a;
  const double gap = (double)gpu->logits[b] - (double)gpu->logits[a];
  printf("token %d: the first side's choice is %d, the other's %d, which it prefers by %.5f\n", step, a, b, gap);
  t->parted++;
  if (!(gap <= t->gap)) t->gap = gap;
  return a;
}

static void eval_side(side *s, const int32_t *ids, int32_t n) {
  if (ga_session_eval(s->session, ids, n, s->logits, 1, NULL, NULL)) fail(ga_ctx_device_name(s->ctx[s->n - 1]));
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: tokens MODEL TEXT DEVICES [PROMPT [TOKENS [OPTIONS]]]\n");
    return 2;
  }
  const int32_t prompt = argc > 4 ? atoi(argv[4]) : 700, tokens = argc > 5 ? atoi(argv[5]) : 64;
  side cpu = {0}, gpu = {0};
  tally t = {0};
  size_t n;
  const char *options = argc > 6 ? argv[6] : "";
  char beside[32], type[32], kv[40] = "", none[8];
  if (option(options, "kv=", type, sizeof type)) (void)snprintf(kv, sizeof kv, "kv=%s", type);
  open_side(&cpu, option(options, "beside=", beside, sizeof beside) ? beside : "cpu", argv[1], prompt + tokens + 1, kv);
  open_side(&gpu, argv[3], argv[1], prompt + tokens + 1, options);
  int32_t *ids = read_ids(cpu.model, argv[2], &n);
  if (prompt < 1 || n < (size_t)prompt) fail("the text is too short");
  eval_side(&cpu, ids, prompt);
  eval_side(&gpu, ids, prompt);
  for (int i = 0; i < tokens; i++) {
    const int32_t next = compare_step(&cpu, &gpu, i, &t);
    eval_side(&cpu, &next, 1);
    eval_side(&gpu, &next, 1);
  }
  const double mean = t.sum / (double)t.n;
  printf("%s on %s, prompt of %d: %d of %d tokens part, by %.5f at most; logits differ by %.5f at most, %.6f in the "
         "mean\n",
         ga_model_get_info(cpu.model)->name, argv[3], prompt, t.parted, tokens, t.gap, t.most, mean);
  free(ids);
  close_side(&gpu);
  close_side(&cpu);
  if (option(options, "equal", none, sizeof none) && !(t.most == 0)) return 1;
  return !(t.gap <= 0.1 && mean <= 0.05);
}
