/* Model files changed by structure (mutate.h): each mutant is opened, read, tokenises a text and gives one token, or is
 * refused. A finding is a signal, a sanitizer's report, more than MUTANT_SECONDS or MUTANT_BYTES, or an error without a
 * text. Usage: mutate_models COUNT [SEED]: mutants SEED to SEED + COUNT - 1; one SEED alone shows one finding again.
 * All files lie in a folder of the working directory. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/fuzz/fuzz_encode.h"
#include "tests/fuzz/walk_model.h"
#include "tests/mutate.h"
#include "tests/tiny_model.h"

#define MUTANT_SECONDS 20
#define MUTANT_BYTES   ((int64_t)384 << 20) /* more than before; sanitizers' own memory is not counted */
#define BATCH          64                   /* mutants a process */

#if defined(__SANITIZE_ADDRESS__)
#define MEASURED 0
#else
#define MEASURED 1
#endif

typedef enum form { FORM_GGUF, FORM_TENSORS, FORM_CONFIG, FORM_TOKENIZER, FORM_SPLIT, FORMS } form;
static const char *const form_names[] = {"gguf", "safetensors", "config.json", "tokenizer.json", "split gguf"};

enum { SHARDS = 2 };
static char folder[] = "mutants-XXXXXX";
static blob seeds[FORMS + SHARDS];
static spots found[FORMS + SHARDS];

/* What a process tells the one that started it. */
static struct shared {
  uint64_t seed;
  int64_t opened, loaded, generated;
} * shared;

static const char *const tokenizer_json =
    "{\"added_tokens\":[{\"id\":7,\"content\":\"<x>\",\"special\":true},{\"id\":8,\"content\":\"bb\"}],"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<x>\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"<x>\":{\"id\":\"<x>\",\"ids\":[7],"
    "\"tokens\":[\"<x>\"]}}},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"1\":3,\"\\u0120\":4,\"11\":5,\"H\":6},"
    "\"merges\":[\"a b\",[\"1\",\"1\"]]}}";

static const char *in(const char *name) {
  static char path[4][256];
  static int at;
  at = (at + 1) % 4;
  (void)snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
  return path[at];
}

static void die(const char *what) {
  (void)fprintf(stderr, "mutate_models: %s: %s\n", what, ga_error_text());
  exit(2);
}

static blob take_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f || fseek(f, 0, SEEK_END)) die(path);
  blob b = {NULL, (size_t)ftell(f)};
  rewind(f);
  b.data = malloc(b.n + 1);
  if (!b.data || fread(b.data, 1, b.n, f) != b.n) die(path);
  (void)fclose(f);
  return b;
}

static void write_bytes_as(const char *name, const blob *b) {
  FILE *f = fopen(in(name), "wb");
  if (!f || fwrite(b->data, 1, b->n, f) != b->n || fclose(f)) die(name);
}

/* --- the valid files --- */

static const char *const shard_names[SHARDS] = {"s-00001-of-00002.gguf", "s-00002-of-00002.gguf"};

/* The tensors of the GGUF file in two. */
static void write_shards(void) {
  ga_model_file *file;
  if (ga_model_file_open(tiny_path, &file) != GA_OK) die("the GGUF file");
  const int64_t n = ga_model_file_tensor_count(file);
  for (int i = 0; i < SHARDS; i++) {
    ga_gguf_writer *w;
    if (ga_gguf_writer_create(3, 0, &w) != GA_OK) die("a shard");
    for (int64_t m = 0; i == 0 && m < ga_model_file_meta_count(file); m++)
      ga_gguf_put_meta(w, ga_model_file_meta_at(file, m));
    ga_gguf_put_int(w, "split.no", GA_META_U16, i);
    ga_gguf_put_int(w, "split.count", GA_META_U16, SHARDS);
    ga_gguf_put_int(w, "split.tensors.count", GA_META_I32, n);
    for (int64_t t = n * i / SHARDS; t < n * (i + 1) / SHARDS; t++) {
      const ga_model_tensor *tensor = ga_model_file_tensor_at(file, t);
      ga_gguf_put_tensor(w, tensor->name, &tensor->view);
    }
    if (ga_gguf_writer_finish(w, in(shard_names[i])) != GA_OK) die("a shard");
    ga_gguf_writer_destroy(w);
    seeds[FORMS + i] = take_file(in(shard_names[i]));
    note_gguf(&seeds[FORMS + i], &found[FORMS + i]);
  }
  ga_model_file_destroy(file);
}

static void make_seeds(void) {
  if (!mkdtemp(folder)) die(folder);
  (void)snprintf(tiny_path, sizeof tiny_path, "%s/m.gguf", folder);
  if (tiny_make("llama", TINY_VOCAB) != GA_OK) die("tests/data/arch/llama");
  seeds[FORM_GGUF] = take_file(tiny_path);
  note_gguf(&seeds[FORM_GGUF], &found[FORM_GGUF]);
  write_shards();
  seeds[FORM_TENSORS] = take_file(GA_TEST_DATA "/arch/llama/model.safetensors");
  note_json(&seeds[FORM_TENSORS], 8, 8 + (size_t)blob_le(&seeds[FORM_TENSORS], 0, 8), &found[FORM_TENSORS]);
  seeds[FORM_CONFIG] = take_file(GA_TEST_DATA "/arch/llama/config.json");
  note_json(&seeds[FORM_CONFIG], 0, seeds[FORM_CONFIG].n, &found[FORM_CONFIG]);
  const blob json = {(uint8_t *)(uintptr_t)tokenizer_json, strlen(tokenizer_json)};
  blob_copy(&seeds[FORM_TOKENIZER], &json);
  note_json(&json, 0, json.n, &found[FORM_TOKENIZER]);
}

static const char *const names[] = {"m.gguf", "model.safetensors", "config.json", "tokenizer.json"};

/* The valid files, but for one; the path to open. changes 0: that one too. */
static const char *write_mutant(form f, int changes, ga_rng *rng) {
  const int shard = (int)draw_below(rng, SHARDS), of = f == FORM_SPLIT ? FORMS + shard : (int)f;
  blob b;
  blob_copy(&b, &seeds[of]);
  for (int i = 0; i < changes; i++) {
    if (f == FORM_GGUF || f == FORM_SPLIT)
      mutate_gguf(&b, &found[of], rng);
    else if (f == FORM_TENSORS && b.n > 8)
      mutate_safetensors(&b, &found[of], rng);
    else
      mutate_json(&b, &found[of], rng);
  }
  for (int i = FORM_TENSORS; i <= FORM_TOKENIZER && f != FORM_GGUF && f != FORM_SPLIT; i++)
    write_bytes_as(names[i], i == (int)f ? &b : &seeds[i]);
  for (int i = 0; i < SHARDS && f == FORM_SPLIT; i++)
    write_bytes_as(shard_names[i], i == shard ? &b : &seeds[FORMS + i]);
  if (f == FORM_GGUF) write_bytes_as(names[f], &b);
  free(b.data);
  return f == FORM_GGUF ? in(names[f]) : f == FORM_SPLIT ? in(shard_names[0]) : folder;
}

/* --- one mutant --- */

static void is_refused(const char *by) {
  if (ga_error_text()[0]) return;
  (void)fprintf(stderr, "%s: refused without a text\n", by);
  abort();
}

static const char text[] = "Hello <s> ab11 \xC3\xA9\xFF\n  <x>bb";

static void use_tokenizer(const ga_tokenizer *tok) { fuzz_encode(tok, text, sizeof text - 1, 3); }

static void read_bytes_of(const char *path) {
  ga_model_file *file;
  ga_tokenizer *tok;
  if (ga_model_file_open(path, &file) != GA_OK) {
    is_refused("ga_model_file_open");
    return;
  }
  shared->opened++;
  walk_model(file);
  if (ga_tokenizer_from_model(file, &tok) == GA_OK)
    use_tokenizer(tok);
  else
    is_refused("ga_tokenizer_from_model");
  ga_tokenizer_destroy(tok);
  ga_model_file_destroy(file);
}

static void generate_token(ga_model *model) {
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  ga_generate_options go = GA_GENERATE_OPTIONS_INIT;
  ga_generate_result result = GA_GENERATE_RESULT_INIT;
  ga_session *session;
  const int32_t ids[] = {0, 1, 2};
  so.context = 16;
  so.batch = 4;
  go.max_tokens = 1;
  go.ignore_eog = true;
  if (ga_session_create(model, &so, &session) != GA_OK) {
    is_refused("ga_session_create");
    return;
  }
  if (ga_generate(session, ids, 3, &go, &result) == GA_OK)
    shared->generated++;
  else
    is_refused("ga_generate");
  ga_session_destroy(session);
}

static void load_file(ga_ctx *ctx, const char *path, bool no_mmap) {
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  ga_model *model;
  so.context = 16;
  so.batch = 4;
  o.session = &so;
  o.no_mmap = no_mmap;
  if (ga_model_load(ctx, path, &o, &model) != GA_OK) {
    is_refused("ga_model_load");
    return;
  }
  shared->loaded++;
  if (ga_model_tokenizer(model)) use_tokenizer(ga_model_tokenizer(model));
  generate_token(model);
  ga_model_destroy(model);
}

static int64_t peak_bytes(void) {
  struct rusage r;
  (void)getrusage(RUSAGE_SELF, &r);
  return (int64_t)r.ru_maxrss * 1024;
}

/* Mutants [seed, end), in a process of their own. seed 0 and those below FORMS: the valid files. */
static int run_batch(uint64_t seed, uint64_t end) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_ctx *ctx;
  o.device = "cpu";
  o.threads = 1;
  if (ga_ctx_create(&o, &ctx) != GA_OK) die("cpu");
  const int64_t before = peak_bytes();
  for (; seed < end; seed++) {
    ga_rng rng;
    ga_rng_seed(&rng, seed);
    shared->seed = seed;
    (void)alarm(MUTANT_SECONDS);
    const char *path = write_mutant((form)(seed % FORMS), seed < FORMS ? 0 : 1 + (int)draw_below(&rng, 3), &rng);
    read_bytes_of(path);
    load_file(ctx, path, draw_below(&rng, 2));
    if (MEASURED && peak_bytes() - before > MUTANT_BYTES) {
      (void)fprintf(stderr, "%lld MiB\n", (long long)((peak_bytes() - before) >> 20));
      return 1;
    }
  }
  (void)alarm(0);
  ga_ctx_destroy(ctx);
  return 0;
}

static bool batch_passes(uint64_t seed, uint64_t end) {
  int status;
  (void)fflush(stdout);
  const pid_t pid = fork();
  if (pid < 0) die("fork");
  if (!pid) exit(run_batch(seed, end));
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) die("waitpid");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  (void)printf("seed %llu (%s): %s %d\n", (unsigned long long)shared->seed, form_names[shared->seed % FORMS],
               WIFSIGNALED(status) ? "signal" : "exit status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return false;
}

static void clean_up(void) {
  static const char *const more[] = {"m.gguf", "model.safetensors", "config.json", "tokenizer.json"};
  for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) (void)unlink(in(more[i]));
  for (int i = 0; i < SHARDS; i++) (void)unlink(in(shard_names[i]));
  (void)rmdir(folder);
  for (int i = 0; i < FORMS + SHARDS; i++) free(seeds[i].data);
}

int main(int argc, char **argv) {
  const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 200,
                 first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  int failures = 0;
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) die("mmap");
  make_seeds();
  if (!batch_passes(0, FORMS) || shared->generated != FORMS) {
    (void)printf("of the %d valid files %lld gave a token\n", FORMS, (long long)shared->generated);
    clean_up();
    return 1;
  }
  *shared = (struct shared){0};
  for (uint64_t seed = first < FORMS ? FORMS : first, end = seed + count; seed < end && failures < 20;) {
    const uint64_t to = end - seed < BATCH ? end : seed + BATCH;
    const bool passed = batch_passes(seed, to);
    failures += !passed;
    seed = passed ? to : shared->seed + 1;
  }
  (void)printf("%llu mutants: %lld opened, %lld loaded, %lld gave a token, %d failures\n", (unsigned long long)count,
               (long long)shared->opened, (long long)shared->loaded, (long long)shared->generated, failures);
  clean_up();
  return failures > 0;
}
