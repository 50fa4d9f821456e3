/* Files of the program whose every allocation fails in turn: input and output of ga batch, conversations. Each time an
 * error that says so, nothing lost, and nothing half read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/batch_file.h"
#include "cli/conversation.h"
#include "cli/modelfile.h"
#include "tests/alloc_faults.h"

static char path[] = "/tmp/ga-cli-memory-XXXXXX";

/* In the place of conversation.c, which needs a model. */
void chat_clear(chat *c, size_t keep) {
  while (c->n_messages > keep) free((char *)(uintptr_t)c->messages[--c->n_messages].content);
}

ga_status chat_push(chat *c, const char *role, const char *text) {
  ga_chat_message *more = realloc(c->messages, (c->n_messages + 1) * sizeof *more);
  if (more) c->messages = more;
  char *copy = more ? strdup(text) : NULL;
  if (!copy) return ga_error_set(GA_ERR_NOMEM, "conversation: out of memory");
  c->messages[c->n_messages++] = (ga_chat_message){role, copy};
  return GA_OK;
}

static void write_cli_file(const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

/* Calls until nothing fails; each failure must be one of memory. */
static void sweep_call(const char *what, ga_status (*call)(void)) {
  for (int later = 0; later < 2; later++) {
    for (long n = 1;; n++) {
      faults_after(n, later);
      const ga_status status = call();
      const bool done = !atomic_load(&faults_made);
      faults_after(0, false);
      if (done ? status != GA_OK : status != GA_ERR_NOMEM)
        fail_msg("%s, allocation %ld: %d %s", what, n, (int)status, ga_error_text());
      if (done) break;
      assert_true(n < 10000);
    }
  }
}

#define LINE(id) \
  "{\"custom_id\":\"" id "\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"a\\n\"}}\n"

static ga_status read_batch(void) {
  int64_t n = 0;
  batch_in in;
  ga_status status = batch_in_open(path, &in);
  if (status != GA_OK) return status;
  status = batch_in_check(&in, &n);
  if (status == GA_OK) assert_int_equal(n, 2);
  batch_in_close(&in);
  return status;
}

static ga_status put_answer(void) {
  static const char body[] = "{\"id\":\"cmpl-1\",\"choices\":[{\"text\":\"x\",\"n\":1.5}]}";
  batch_in in;
  batch_out out;
  batch_line line = {0};
  char output[sizeof path + 8];
  (void)snprintf(output, sizeof output, "%s.out", path);
  ga_status status = batch_in_open(path, &in);
  if (status != GA_OK) return status;
  status = batch_in_next(&in, &line);
  if (status == GA_OK && (status = batch_out_open(output, &out)) == GA_OK) {
    status = batch_out_put(&out, &line, 200, body, strlen(body));
    batch_out_close(&out);
  }
  batch_line_free(&line);
  batch_in_close(&in);
  return status;
}

/* Every answer that was written is whole. */
static void check_answers(void) {
  char output[sizeof path + 8], text[4096];
  (void)snprintf(output, sizeof output, "%s.out", path);
  FILE *f = fopen(output, "r");
  assert_non_null(f);
  while (fgets(text, sizeof text, f)) {
    json_t *v = json_loads(text, 0, NULL), *answer = json_object_get(json_object_get(v, "response"), "body");
    assert_true(json_is_object(answer) && json_object_get(v, "custom_id"));
    json_decref(v);
  }
  assert_int_equal(fclose(f), 0);
  assert_int_equal(unlink(output), 0);
}

static void test_batch_files(void **state) {
  (void)state;
  write_cli_file(LINE("one") "\n" LINE("two"));
  sweep_call("input", read_batch);
  sweep_call("output", put_answer);
  check_answers();
}

static chat talk;

static ga_status save_talk(void) { return chat_save(&talk, path, true); }

static ga_status load_talk(void) {
  const ga_status status = chat_load(&talk, path);
  assert_int_equal(talk.n_messages, 3); /* as before, or as in the file */
  assert_string_equal(talk.messages[1].content, "b \"quoted\"\n");
  return status;
}

static void test_conversation_files(void **state) {
  (void)state;
  assert_int_equal(chat_push(&talk, "system", "a"), GA_OK);
  assert_int_equal(chat_push(&talk, "user", "b \"quoted\"\n"), GA_OK);
  assert_int_equal(chat_push(&talk, "assistant", "c"), GA_OK);
  sweep_call("/save", save_talk);
  sweep_call("/load", load_talk);
  chat_clear(&talk, 0);
  free(talk.messages);
}

#define MODELFILE                                                                                           \
  "FROM a\nSYSTEM \"\"\"b\nc\"\"\"\nTEMPLATE plain\nPARAMETER seed 1\nPARAMETER stop x\nPARAMETER stop y\n" \
  "LICENSE d\nLICENSE e\n"

static ga_status read_and_print(void) {
  modelfile m, base = modelfile_empty();
  sv_text text = {0};
  ga_status status = modelfile_parse(MODELFILE, strlen(MODELFILE), "Modelfile", &m);
  if (status == GA_OK) status = modelfile_parse("FROM z\nSYSTEM o\n", 16, "base", &base);
  if (status == GA_OK) {
    modelfile_inherit(&m, &base);
    modelfile_print(&m, &text);
    if (text.failed) status = ga_error_set(GA_ERR_NOMEM, "text: out of memory");
    if (status == GA_OK)
      assert_string_equal(text.p, "FROM z\nSYSTEM \"\"\"b\nc\"\"\"\nTEMPLATE plain\nPARAMETER seed 1\nPARAMETER stop "
                                  "x\nPARAMETER stop y\nLICENSE \"\"\"d\ne\"\"\"\n");
  }
  modelfile_free(&base);
  modelfile_free(&m);
  sv_text_free(&text);
  return status;
}

static void test_modelfiles(void **state) {
  (void)state;
  sweep_call("Modelfile", read_and_print);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_batch_files), cmocka_unit_test(test_conversation_files),
                                     cmocka_unit_test(test_modelfiles)};
  const int fd = mkstemp(path);
  if (fd < 0) return 1;
  (void)close(fd);
  faults_install();
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  (void)unlink(path);
  return failed;
}
