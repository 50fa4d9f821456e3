/* The rig of tests of answers: a choice that is given events as an engine gives them, with a token for each byte. */
#ifndef GA_TESTS_CHOICE_RIG_H
#define GA_TESTS_CHOICE_RIG_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "serve/answer.h"

/* Makes a tokenizer: ids 0 to 255 are the bytes, 256 ends an answer, 257 is a control token. */
static inline ga_tokenizer *byte_tokenizer(void) {
  static char names[258][8];
  static ga_text tokens[258];
  static int32_t types[258];
  for (int i = 0; i < 258; i++) {
    (void)snprintf(names[i], sizeof names[i], i < 256 ? "<0x%02X>" : i == 256 ? "</s>" : "<c>", (unsigned)i);
    tokens[i] = (ga_text){names[i], strlen(names[i])};
    types[i] = i < 256 ? GA_TOK_BYTE : GA_TOK_CONTROL;
  }
  ga_vocab v = GA_VOCAB_INIT;
  v.kind = GA_TOK_SPM;
  v.n_tokens = 258;
  v.tokens = tokens;
  v.types = types;
  v.eos = 256;
  ga_tokenizer *tok;
  assert_int_equal(ga_tokenizer_create(&v, &tok), GA_OK);
  return tok;
}

typedef struct rig {
  ga_tokenizer *tok;
  sv_request request;
  sv_choice choice;
  sv_answer answer;
} rig;

static inline void open_answer(rig *g, const char *body, bool is_chat) {
  sv_fail fail = {0};
  json_t *json;
  *g = (rig){.tok = byte_tokenizer()};
  assert_true(sv_body_parse(body, strlen(body), &json, &fail));
  assert_true((is_chat ? sv_request_chat : sv_request_completion)(json, 258, &g->request, &fail));
  const ga_text echo = {g->request.n_prompts ? g->request.prompts[0].text : NULL,
                        g->request.n_prompts ? g->request.prompts[0].bytes : 0};
  assert_true(sv_choice_init(&g->choice, &g->request.p, g->tok, g->request.echo ? &echo : NULL, &fail));
  g->answer = (sv_answer){.request = &g->request, .model = "m", .id = "id", .choices = &g->choice, .n = 1};
}

static inline void close_answer(rig *g) {
  sv_choice_free(&g->choice);
  sv_request_free(&g->request);
  ga_tokenizer_destroy(g->tok);
}

static inline void give(rig *g, int32_t event, int32_t id, float logprob) {
  ga_request_output o = GA_REQUEST_OUTPUT_INIT;
  o.event = event;
  o.id = id;
  o.logprob = logprob;
  o.n_top = isnan(logprob) ? 0 : 2;
  o.top[0] = (ga_token_logprob){'z', -0.25f};
  o.top[1] = (ga_token_logprob){0xE2, -INFINITY};
  o.finish = id;
  if (!g->choice.ended) sv_choice_take(&g->choice, &o);
}

static inline void give_text(rig *g, const char *text) {
  for (; *text; text++) give(g, GA_REQUEST_TOKEN, (unsigned char)*text, -1.0f);
}

#endif
