/* A conversation: each turn renders all messages by the model's chat template and evaluates them.
 *   cc -std=c11 chat.c -o chat $(pkg-config --cflags --libs ga)
 *   ./chat MODEL.gguf    one message a line on standard input */
#include <stdio.h>
#include <string.h>

#include <ga/llm.h>

enum { MESSAGES = 64, TEXT = 16384 };
static char reply[TEXT], texts[MESSAGES][TEXT];

static int show(void *user, int32_t id, const char *piece, size_t bytes) {
  size_t *n = user;
  (void)id;
  if (*n + bytes >= sizeof reply || fwrite(piece, 1, bytes, stdout) != bytes || fflush(stdout)) return 1; /* stops */
  memcpy(reply + *n, piece, bytes);
  reply[ *n += bytes] = 0;
  return 0;
}

static ga_status answer_turn(ga_model *model, ga_session *session, const ga_chat_message *messages, size_t n) {
  ga_chat_options chat = GA_CHAT_OPTIONS_INIT;
  ga_sample_desc sample = GA_SAMPLE_DESC_INIT;
  ga_generate_options go = GA_GENERATE_OPTIONS_INIT;
  ga_generate_result result = GA_GENERATE_RESULT_INIT;
  int32_t *ids = NULL;
  size_t n_ids = 0, bytes = 0;
  chat.add_generation_prompt = true;
  sample.temperature = 0.7f, sample.top_p = 0.9f, sample.repetition_penalty = 1.1f;
  go.sample = &sample, go.seed = n, go.text = show, go.user = &bytes;
  reply[0] = 0;
  ga_status status =
      ga_chat_encode(ga_model_template(model), ga_model_tokenizer(model), messages, n, &chat, &ids, &n_ids);
  if (status == GA_OK) status = ga_session_rewind(session, 0); /* ga chat rewinds only to the common prefix */
  if (status == GA_OK) status = ga_generate(session, ids, (int32_t)n_ids, &go, &result);
  ga_chat_ids_free(ids);
  return status;
}

int main(int argc, char **argv) {
  ga_ctx *ctx = NULL;
  ga_model *model = NULL;
  ga_session *session = NULL;
  ga_chat_message messages[MESSAGES];
  char line[4096];
  size_t n = 0;
  if (argc != 2) return 2;
  ga_status status = ga_ctx_create(NULL, &ctx);
  if (status == GA_OK) status = ga_model_load(ctx, argv[1], NULL, &model);
  if (status == GA_OK) status = ga_session_create(model, NULL, &session);
  while (status == GA_OK && n < MESSAGES && fgets(line, sizeof line, stdin)) {
    messages[n] = (ga_chat_message){.role = "user", .content = strcpy(texts[n], line)};
    status = answer_turn(model, session, messages, ++n);
    messages[n] = (ga_chat_message){.role = "assistant", .content = strcpy(texts[n], reply)};
    n++, printf("\n");
  }
  if (status != GA_OK) fprintf(stderr, "%s\n", ga_error_text());
  ga_session_destroy(session), ga_model_destroy(model), ga_ctx_destroy(ctx);
  return status != GA_OK;
}
