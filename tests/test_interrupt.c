/* Ctrl-C: the first is a flag and stops long calls of the library, the second ends the process; the abort callback. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "cmdline/interrupt.h"
#include "ga/attn.h"
#include "ga/chat.h"

/* --- signals, each in a process of its own --- */

typedef int (*child_fn)(void);

static int status_of(child_fn run) {
  int status = 0;
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) _exit(run());
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return status;
}

static int once(void) {
  listen_for_interrupt();
  if (interrupted()) return 1;
  (void)raise(SIGINT);
  return interrupted() ? 7 : 2;
}
static int twice(void) {
  (void)once();
  (void)raise(SIGINT);
  return 3;
}
static int cleared_between(void) {
  (void)once();
  clear_interrupt();
  if (interrupted()) return 4;
  (void)raise(SIGINT);
  return interrupted() ? 7 : 5;
}
static int many_at_prompt(void) {
  listen_for_interrupt();
  interrupts_at_prompt(true);
  for (int i = 0; i < 3; i++) (void)raise(SIGINT);
  interrupts_at_prompt(false);
  clear_interrupt();
  return once();
}

static void test_signals(void **state) {
  (void)state;
  int s = status_of(once);
  assert_true(WIFEXITED(s) && WEXITSTATUS(s) == 7);
  s = status_of(twice);
  assert_true(WIFSIGNALED(s) && WTERMSIG(s) == SIGINT);
  s = status_of(cleared_between);
  assert_true(WIFEXITED(s) && WEXITSTATUS(s) == 7);
  s = status_of(many_at_prompt);
  assert_true(WIFEXITED(s) && WEXITSTATUS(s) == 7);
}

/* --- the abort callback in tokenizers --- */

static int stop_at(void *user) {
  int *left = user;
  return --*left < 0;
}

static const char *const letters[] = {"<unk>", "a", "b", " ", "ab", "aba", "\xE2\x96\x81"};
enum { N_TOKENS = GA_COUNT_OF(letters), TEXT = 1 << 18 };

static ga_tokenizer *make(ga_tok_kind kind) {
  static const ga_text merges[] = {{"a b", 3}, {"ab a", 4}};
  ga_text tokens[N_TOKENS];
  ga_vocab v = GA_VOCAB_INIT;
  ga_tokenizer *tok;
  for (size_t i = 0; i < N_TOKENS; i++) tokens[i] = (ga_text){letters[i], strlen(letters[i])};
  v.kind = kind;
  v.n_tokens = N_TOKENS;
  v.tokens = tokens;
  v.unk = 0;
  v.cls = v.sep = 0;
  if (kind == GA_TOK_BPE) {
    v.n_merges = GA_COUNT_OF(merges);
    v.merges = merges;
  }
  if (ga_tokenizer_create(&v, &tok) != GA_OK) fail_msg("%s", ga_error_text());
  return tok;
}

/* Wherever in the work it is asked to, each kind stops: with nothing given, and the next call is a whole one. */
static void stops(ga_tok_kind kind, const char *text) {
  ga_tokenizer *tok = make(kind);
  int32_t *ids = malloc(TEXT * sizeof *ids);
  size_t n, whole;
  int asked = 1 << 30;
  assert_non_null(ids);
  ga_abort_set(stop_at, &asked);
  assert_int_equal(ga_tokenize(tok, text, TEXT, 0, ids, TEXT, &whole), GA_OK);
  const int polls = (1 << 30) - asked;
  assert_true(polls > TEXT / (1 << 16) + 8); /* also behind the checks and the search for special tokens */
  for (int at = 0; at < polls; at += 1 + polls / 6) {
    asked = at;
    ids[0] = -7;
    assert_int_equal(ga_tokenize(tok, text, TEXT, 0, ids, TEXT, &n), GA_ERR_CANCELLED);
    assert_string_equal(ga_error_text(), "tokenize: stopped");
    assert_int_equal(asked, -1); /* not asked again */
    assert_int_equal(n, 0);
    assert_int_equal(ids[0], -7);
  }
  ga_abort_set(NULL, NULL);
  assert_int_equal(ga_tokenize(tok, text, TEXT, 0, ids, TEXT, &n), GA_OK);
  assert_int_equal(n, whole);
  free(ids);
  ga_tokenizer_destroy(tok);
}

static void test_tokenizers(void **state) {
  (void)state;
  char *one_word = malloc(TEXT), *words = malloc(TEXT);
  assert_true(one_word && words);
  for (size_t i = 0; i < TEXT; i++) one_word[i] = "ab"[i % 7 > 3];
  for (size_t i = 0; i < TEXT; i++) words[i] = "ab aab "[i % 7];
  stops(GA_TOK_SPM, one_word);
  stops(GA_TOK_SPM, words);
  stops(GA_TOK_BPE, one_word);
  stops(GA_TOK_BPE, words);
  stops(GA_TOK_WPM, words);
  stops(GA_TOK_UGM, one_word);
  stops(GA_TOK_UGM, words);
  free(one_word);
  free(words);
}

/* Broken text is repaired piece by piece: wherever a piece of 1 MiB ends, the ids are those of a short text. */
static void test_pieces_of_broken_text(void **state) {
  (void)state;
  enum { PIECE = 1 << 20, AROUND = 4 };
  static const char *const parts[] = {"\xF0\x9F\x98\x80",     "\xF0\x9F\x98", "\xE2\x82",
                                      "\x80\x80\x80\x80\x80", "\xC3",         "\xF0\x9F\x98\x80\x80\x80"};
  ga_tokenizer *tok = make(GA_TOK_SPM);
  char *text = malloc(PIECE + 64);
  static int32_t ids[2 * PIECE], want[64];
  size_t n, n_want;
  assert_non_null(text);
  for (size_t p = 0; p < GA_COUNT_OF(parts); p++)
    for (size_t before = 0; before <= AROUND; before++) {
      const size_t len = strlen(parts[p]), at = PIECE - before;
      memset(text, 'b', PIECE + 64);
      memcpy(text + at, parts[p], len);
      assert_int_equal(ga_tokenize(tok, text + at, len + 8, 0, want, 64, &n_want), GA_OK);
      assert_int_equal(ga_tokenize(tok, text, at + len + 8, 0, ids, 2 * PIECE, &n), GA_OK);
      assert_int_equal(n, at + n_want);
      assert_memory_equal(ids + at, want, n_want * sizeof *want);
    }
  free(text);
  ga_tokenizer_destroy(tok);
}

/* A conversation as well; then nothing is given. */
static void test_chat(void **state) {
  (void)state;
  static const char source[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
  ga_tokenizer *tok = make(GA_TOK_SPM);
  ga_template *tpl;
  char *text = malloc(TEXT + 1);
  int32_t *ids = (int32_t *)(uintptr_t)1;
  size_t n = 1;
  int asked = 3;
  assert_non_null(text);
  for (size_t i = 0; i < TEXT; i++) text[i] = "ab aab "[i % 7];
  text[TEXT] = 0;
  assert_int_equal(ga_template_compile(source, sizeof source - 1, &tpl), GA_OK);
  ga_abort_set(stop_at, &asked);
  const ga_chat_message m = {"user", text};
  assert_int_equal(ga_chat_encode(tpl, tok, &m, 1, NULL, &ids, &n), GA_ERR_CANCELLED);
  ga_abort_set(NULL, NULL);
  assert_null(ids);
  assert_int_equal(n, 0);
  assert_int_equal(ga_chat_encode(tpl, tok, &m, 1, NULL, &ids, &n), GA_OK);
  assert_true(n > 0);
  ga_chat_ids_free(ids);
  ga_template_destroy(tpl);
  ga_tokenizer_destroy(tok);
  free(text);
}

/* An op stops between pieces of its work, with one thread as with several, and the next one is whole. */
static void test_ops(void **state) {
  (void)state;
  enum { N = 700, WIDTH = 4 * 32 };
  float *x = malloc(4 * N * WIDTH * sizeof *x), *const whole = x + 2 * N * WIDTH, *const o = x + N * WIDTH;
  assert_non_null(x);
  for (int i = 0; i < N * WIDTH; i++) x[i] = (float)(i % 97) / 97;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = N, d.q_heads = d.kv_heads = 4, d.head_dim = 32;
  for (int threads = 1; threads <= 3; threads += 2) {
    ga_ctx_options options = GA_CTX_OPTIONS_INIT;
    ga_ctx *ctx;
    int asked = 2;
    options.device = "cpu", options.threads = threads;
    assert_int_equal(ga_ctx_create(&options, &ctx), GA_OK);
    const ga_attn_io good = {.q = x, .k = x, .v = x, .o = whole}, io = {.q = x, .k = x, .v = x, .o = o};
    assert_int_equal(ga_attn(ctx, &d, &good, NULL), GA_OK);
    ga_abort_ops_set(stop_at, &asked);
    assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_ERR_CANCELLED);
    assert_non_null(strstr(ga_error_text(), "stopped"));
    assert_int_equal(asked, -1); /* not asked again */
    asked = 1 << 30;
    assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
    assert_memory_equal(o, whole, N * WIDTH * sizeof *o);
    assert_true(asked < (1 << 30) - 4);
    ga_abort_ops_set(NULL, NULL);
    ga_ctx_destroy(ctx);
  }
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_signals), cmocka_unit_test(test_tokenizers), cmocka_unit_test(test_pieces_of_broken_text),
      cmocka_unit_test(test_chat),    cmocka_unit_test(test_ops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
