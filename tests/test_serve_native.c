/* llama-server's /completion: what is read of a body, what is refused with which text, and how answers look. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/native.h"
#include "serve/native_request.h"

enum { VOCAB = 1000, BOS = 999 };

/* A token a byte, BOS in front where asked for; '!' cannot be encoded. */
static bool encode_each_byte(const void *user, const char *text, size_t bytes, uint32_t flags, int32_t **ids, size_t *n,
                             sv_fail *fail) {
  const size_t special = flags & GA_TOK_ADD_SPECIAL ? 1 : 0;
  (void)user;
  if (bytes && text[0] == '!') return sv_refuse(fail, 400, NULL, "prompt", "cannot be encoded");
  int32_t *p = malloc((bytes + 1) * sizeof *p);
  assert_non_null(p);
  if (special) p[0] = BOS;
  for (size_t i = 0; i < bytes; i++) p[special + i] = (unsigned char)text[i];
  *ids = p;
  *n = bytes + special;
  return true;
}

static bool read_native(const char *text, sv_request *r, sv_fail *fail) {
  const sv_encoder encoder = {encode_each_byte, NULL, 300};
  json_t *body;
  *fail = (sv_fail){0};
  assert_true(sv_body_parse(text, strlen(text), &body, fail));
  return sv_request_native(&encoder, body, VOCAB, r, fail);
}

/* `fields` stand behind a prompt. */
static void native_refuses(const char *fields, int http, const char *param, const char *says) {
  char text[2048];
  sv_request r;
  sv_fail fail;
  (void)snprintf(text, sizeof text, fields[0] == '{' ? "%s" : "{\"prompt\":\"a\",%s}", fields);
  if (read_native(text, &r, &fail)) fail_msg("accepted: %s", text);
  if (fail.http != http || strcmp(fail.param, param) != 0 || !strstr(fail.message, says))
    fail_msg("%s: %d %s: %s", text, fail.http, fail.param, fail.message);
  sv_request_free(&r);
}

static void native_reads(const char *text, sv_request *r) {
  sv_fail fail;
  if (!read_native(text, r, &fail)) fail_msg("%s: %d %s: %s", text, fail.http, fail.param, fail.message);
}

static void test_native_defaults(void **state) {
  (void)state;
  sv_request r;
  native_reads("{\"prompt\":\"hi\"}", &r);
  const ga_sample_desc *s = &r.p.sample;
  assert_true(s->temperature == 0.8f && s->top_k == 40 && s->top_p == 0.95f && s->min_p == 0.05f);
  assert_true(s->typical_p == 1.0f && s->repetition_penalty == 1.0f && r.p.penalty_last == 64);
  assert_int_equal(r.p.max_tokens, SV_NO_LIMIT);
  assert_true(r.p.logprobs == -1 && r.p.seed == -1 && r.p.n == 1 && r.p.min_tokens == 0);
  assert_false(r.p.stream || r.p.return_ids || r.p.no_cache || r.p.timings_per_token || r.p.ignore_eos);
  assert_true(r.clips_length && !r.is_chat && r.n_prompts == 1);
  sv_request_free(&r);
}

static void test_native_fields(void **state) {
  (void)state;
  sv_request r;
  native_reads(
      "{\"prompt\":\"hi\",\"temperature\":0,\"top_k\":0,\"top_p\":1,\"min_p\":0,\"typical_p\":0.5,\"repeat_penalty\":2,"
      "\"repeat_last_n\":-1,\"presence_penalty\":1,\"frequency_penalty\":-1,\"seed\":4,\"n_predict\":7,\"n_cmpl\":3,"
      "\"n_probs\":20,\"return_tokens\":true,\"timings_per_token\":true,\"cache_prompt\":false,\"ignore_eos\":true,"
      "\"stop\":[\"x\"],\"min_tokens\":7,\"id_slot\":2,\"n_keep\":-1,\"response_fields\":[\"content\"],\"unknown\":1}",
      &r);
  const ga_sample_desc *s = &r.p.sample;
  assert_true(s->temperature == 0 && s->top_k == 0 && s->top_p == 1 && s->min_p == 0 && s->typical_p == 0.5f);
  assert_true(s->repetition_penalty == 2 && s->presence_penalty == 1 && s->frequency_penalty == -1);
  assert_true(r.p.penalty_last == -1 && r.p.seed == 4 && r.p.max_tokens == 7 && r.p.n == 3 && r.p.logprobs == 20);
  assert_true(r.p.return_ids && r.p.timings_per_token && r.p.no_cache && r.p.ignore_eos && r.p.n_stop == 1);
  sv_request_free(&r);
  native_reads("{\"prompt\":\"hi\",\"n_indent\":4,\"t_max_predict_ms\":500,\"t_max_prompt_ms\":9}", &r);
  assert_true(r.p.n_indent == 4 && r.p.predict_seconds == 0.5 && !r.has_gap);
  sv_request_free(&r);
  /* What is off is no reason to refuse. */
  native_reads(
      "{\"prompt\":\"hi\",\"grammar\":\"\",\"json_schema\":null,\"lora\":[],\"image_data\":[],\"samplers\":[],"
      "\"mirostat\":0,\"mirostat_tau\":5,\"dry_multiplier\":0.0,\"dry_base\":1.75,\"xtc_probability\":0,"
      "\"xtc_threshold\":0.1,\"dynatemp_range\":0,\"top_n_sigma\":-1,\"adaptive_target\":-1.0,\"min_keep\":0,"
      "\"n_indent\":0,\"n_cache_reuse\":0,\"t_max_predict_ms\":-1,\"post_sampling_probs\":false,"
      "\"return_progress\":false,\"backend_sampling\":false,\"speculative.n_max\":0,\"speculative.types\":\"none\","
      "\"echo\":false,\"suffix\":\"\",\"logprobs\":null,\"stream\":true}",
      &r);
  assert_true(r.p.stream && r.p.return_ids);
  sv_request_free(&r);
}

static void test_limits(void **state) {
  (void)state;
  static const struct {
    const char *fields;
    int64_t most;
  } cases[] = {{"\"n_predict\":0", 0},
               {"\"n_predict\":-1", SV_NO_LIMIT},
               {"\"n_predict\":null", SV_NO_LIMIT},
               {"\"max_tokens\":5", 5},
               {"\"max_completion_tokens\":6", 6},
               {"\"n_predict\":4,\"max_tokens\":5,\"max_completion_tokens\":6", 4},
               {"\"n_predict\":-1,\"max_tokens\":5", SV_NO_LIMIT},
               {"\"min_tokens\":100", SV_NO_LIMIT}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[128];
    sv_request r;
    (void)snprintf(text, sizeof text, "{\"prompt\":\"a\",%s}", cases[i].fields);
    native_reads(text, &r);
    assert_int_equal(r.p.max_tokens, cases[i].most);
    sv_request_free(&r);
  }
}

static void test_penalties(void **state) {
  (void)state;
  sv_request r;
  native_reads(
      "{\"prompt\":\"a\",\"repeat_last_n\":0,\"repeat_penalty\":2,\"presence_penalty\":1,\"frequency_penalty\":1}", &r);
  assert_true(r.p.sample.repetition_penalty == 1 && r.p.sample.presence_penalty == 0);
  assert_true(r.p.sample.frequency_penalty == 0 && r.p.penalty_last > 0); /* 0 would be 64 */
  sv_request_free(&r);
}

/* The ids of a prompt, or its text in quotes. */
static void prompt_is(const sv_prompt *p, const char *want) {
  char seen[256] = "";
  if (p->text) (void)snprintf(seen, sizeof seen, "'%s'", p->text);
  for (size_t i = 0; !p->text && i < p->n_ids; i++)
    (void)snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s%d", i ? " " : "", p->ids[i]);
  assert_string_equal(seen, want);
}

static void test_prompts(void **state) {
  (void)state;
  static const struct {
    const char *prompt, *want[4];
  } cases[] = {{"\"hi\"", {"'hi'"}},
               {"[1,2.0]", {"1 2"}},
               {"[1,\"b\",2]", {"1 98 2"}},
               {"[\"b\",2]", {"999 98 2"}},
               {"{\"prompt_string\":\"x\",\"multimodal_data\":[]}", {"'x'"}},
               {"[\"a\"]", {"'a'"}},
               {"[[1,2],\"a\",{\"prompt_string\":\"b\"},[3,\"c\"]]", {"1 2", "'a'", "'b'", "3 99"}},
               {"[[\"a\",\"b\"]]", {"999 97 98"}}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[256];
    sv_request r;
    size_t n = 0;
    (void)snprintf(text, sizeof text, "{\"prompt\":%s}", cases[i].prompt);
    native_reads(text, &r);
    while (n < 4 && cases[i].want[n]) n++;
    assert_int_equal(r.n_prompts, n);
    for (size_t k = 0; k < n; k++) prompt_is(&r.prompts[k], cases[i].want[k]);
    sv_request_free(&r);
  }
}

static void test_bias(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "{\"prompt\":\"a\",\"logit_bias\":[[7,false],[\"b\",1.5],[7.0,2],[7,false]]}",
      "{\"prompt\":\"a\",\"logit_bias\":{\"7\":false,\"b\":1.5}}",
  };
  for (size_t i = 0; i < 2; i++) {
    sv_request r;
    native_reads(bodies[i], &r);
    assert_int_equal(r.p.n_bias, 2);
    const ga_logit_bias *seven = &r.p.bias[r.p.bias[0].id == 7 ? 0 : 1], *b = &r.p.bias[r.p.bias[0].id == 7 ? 1 : 0];
    assert_true(seven->id == 7 && isinf(seven->bias) && seven->bias < 0);
    assert_true(b->id == 'b' && b->bias == 1.5f);
    sv_request_free(&r);
  }
}

static void test_native_refused(void **state) {
  (void)state;
  static const char *const numbers[] = {"mirostat",    "dry_multiplier",  "xtc_probability", "dynatemp_range",
                                        "top_n_sigma", "adaptive_target", "min_keep",        "n_cache_reuse"};
  static const char *const switches[] = {
      "samplers", "post_sampling_probs", "return_progress", "backend_sampling", "echo", "suffix",
      "logprobs", "top_logprobs",        "prompt_logprobs", "best_of"};
  static const char *const later[] = {"grammar", "json_schema", "lora", "image_data", "speculative.n_max"};
  static const char *const values[] = {"2", "true", "\"x\"", "{}", "[1]"};
  char field[64];
  for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
      (void)snprintf(field, sizeof field, "\"%s\":%s", numbers[i], values[v]);
      native_refuses(field, 400, numbers[i], "must be ");
    }
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
      (void)snprintf(field, sizeof field, "\"%s\":%s", switches[i], values[v]);
      native_refuses(field, 400, switches[i], "must be ");
    }
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
      (void)snprintf(field, sizeof field, "\"%s\":%s", later[i], values[v]);
      native_refuses(field, 422, later[i], "must be ");
    }
  }
  native_refuses("\"n_indent\":-1", 400, "n_indent", "from 0 to 65536");
  native_refuses("\"n_indent\":4,\"stream\":true", 400, "n_indent", "cannot be given together");
  native_refuses("\"t_max_predict_ms\":\"1\"", 400, "t_max_predict_ms", "a number");
  native_refuses("\"adaptive_target\":0", 400, "adaptive_target", "below 0");
  native_refuses("\"response_format\":{\"type\":\"json_object\"}", 422, "response_format", "json_object");
  native_refuses("\"n_predict\":-2", 400, "n_predict", "from -1 to 2147483647");
  native_refuses("\"n_predict\":1.5", 400, "n_predict", "is 1.5");
  native_refuses("\"max_tokens\":\"x\"", 400, "max_tokens", "is \"x\"");
  native_refuses("\"max_completion_tokens\":-3", 400, "max_completion_tokens", "is -3");
  native_refuses("\"n_cmpl\":0", 400, "n_cmpl", "from 1 to 128");
  native_refuses("\"n\":129", 400, "n", "from 1 to 128");
  native_refuses("\"n_probs\":21", 400, "n_probs", "from 0 to 20");
  native_refuses("\"n_probs\":-1", 400, "n_probs", "from 0 to 20");
  native_refuses("\"repeat_penalty\":0", 400, "repeat_penalty", "a number from 0.001 to 100");
  native_refuses("\"repeat_last_n\":-2", 400, "repeat_last_n", "from -1");
  native_refuses("\"temperature\":-1", 400, "temperature", "from 0 to 100");
  native_refuses("\"top_k\":\"40\"", 400, "top_k", "a whole number");
  native_refuses("\"top_p\":2", 400, "top_p", "to 1");
  native_refuses("\"min_p\":-0.1", 400, "min_p", "from 0 to 1");
  native_refuses("\"typical_p\":-1", 400, "typical_p", "to 1");
  native_refuses("\"presence_penalty\":3", 400, "presence_penalty", "from -2 to 2");
  native_refuses("\"frequency_penalty\":-3", 400, "frequency_penalty", "from -2 to 2");
  native_refuses("\"seed\":1.5", 400, "seed", "a whole number");
  native_refuses("\"id_slot\":-2", 400, "id_slot", "from -1");
  native_refuses("\"n_keep\":\"all\"", 400, "n_keep", "from -1");
  native_refuses("\"n_predict\":3,\"min_tokens\":4", 400, "min_tokens", "at most max_tokens");
  native_refuses("\"stop\":[5]", 400, "stop", "up to 1024");
  native_refuses("\"stream\":1", 400, "stream", "true or false");
  native_refuses("\"ignore_eos\":\"yes\"", 400, "ignore_eos", "true or false");
  native_refuses("\"return_tokens\":1", 400, "return_tokens", "true or false");
  native_refuses("\"timings_per_token\":1", 400, "timings_per_token", "true or false");
  native_refuses("\"cache_prompt\":0", 400, "cache_prompt", "true or false");
  native_refuses("\"response_fields\":\"content\"", 400, "response_fields", "an array of names");
  native_refuses("\"response_fields\":[\"content\",5]", 400, "response_fields", "an array of names");
  native_refuses("\"logit_bias\":5", 400, "logit_bias", "an array of up to 4096 pairs");
  native_refuses("\"logit_bias\":[5]", 400, "logit_bias", "is 5");
  native_refuses("\"logit_bias\":[[5]]", 400, "logit_bias", "an array of 1");
  native_refuses("\"logit_bias\":[[5,true]]", 400, "logit_bias", "or false");
  native_refuses("\"logit_bias\":[[5,-101]]", 400, "logit_bias", "from -100");
  native_refuses("\"logit_bias\":[[1000,1]]", 400, "logit_bias", "from 0 to 999");
  native_refuses("\"logit_bias\":[[-1,1]]", 400, "logit_bias", "from 0 to 999");
  native_refuses("\"logit_bias\":[[\"!\",1]]", 400, "prompt", "cannot be encoded");
}

static void test_refused_prompts(void **state) {
  (void)state;
  native_refuses("{}", 400, "prompt", "missing");
  native_refuses("{\"prompt\":null}", 400, "prompt", "missing");
  native_refuses("{\"prompt\":[]}", 400, "prompt", "0 entries");
  native_refuses("{\"prompt\":5}", 400, "prompt", "is 5"); /* no prompt of one id */
  native_refuses("{\"prompt\":true}", 400, "prompt", "is true");
  native_refuses("{\"prompt\":[null]}", 400, "prompt", "is null");
  native_refuses("{\"prompt\":[[1],true]}", 400, "prompt", "is true");
  native_refuses("{\"prompt\":[1,[2]]}", 400, "prompt", "an array of 1");
  native_refuses("{\"prompt\":[1,\"a\",{}]}", 400, "prompt", "an object");
  native_refuses("{\"prompt\":[1000]}", 400, "prompt", "is 1000");
  native_refuses("{\"prompt\":[\"a\",-1]}", 400, "prompt", "is -1");
  native_refuses("{\"prompt\":[1,\"!\"]}", 400, "prompt", "cannot be encoded");
  native_refuses("{\"prompt\":{}}", 400, "prompt", "prompt_string");
  native_refuses("{\"prompt\":{\"prompt_string\":5}}", 400, "prompt", "prompt_string");
  native_refuses("{\"prompt\":{\"prompt_string\":\"a\",\"multimodal_data\":[\"x\"]}}", 422, "multimodal_data",
                 "only text");
  native_refuses("{\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"n\":128}", 400, "n", "640 choices");
  char *many = malloc(2000);
  char text[1100];
  memset(text, 'x', sizeof text);
  assert_non_null(many);
  (void)snprintf(many, 2000, "{\"prompt\":[\"a\"");
  for (int i = 0; i < 256; i++) strcat(many, ",\"a\"");
  strcat(many, "]}");
  sv_request r;
  sv_fail fail;
  assert_false(read_native(many, &r, &fail));
  assert_non_null(strstr(fail.message, "257 entries"));
  sv_request_free(&r);
  /* Work is bounded: ids that cannot fit, long texts of logit_bias. */
  (void)snprintf(many, 2000, "{\"prompt\":[1,\"%.300s\",2]}", text);
  native_refuses(many, 400, "prompt", "300 tokens");
  (void)snprintf(many, 2000, "{\"prompt\":[1");
  for (int i = 0; i < 300; i++) strcat(many, ",\"\"");
  strcat(many, "]}");
  native_refuses(many, 400, "prompt", "300 tokens");
  (void)snprintf(many, 2000, "{\"prompt\":\"a\",\"logit_bias\":[[\"%.1025s\",1]]}", text);
  native_refuses(many, 400, "logit_bias", "1025 bytes");
  free(many);
}

/* --- answers --- */

static void test_answer(void **state) {
  (void)state;
  sv_request r;
  sv_text t = {0};
  native_reads("{\"prompt\":[[5],\"p\"],\"n_predict\":4,\"stop\":[\"END\"],\"logit_bias\":[[5,false]],\"stream\":true}",
               &r);
  sv_choice choices[2] = {{.params = &r.p, .stop_string = 0, .finish = "stop", .n_generated = 2, .ended = true},
                          {.params = &r.p, .stop_string = -1, .finish = "length", .n_generated = 3, .ended = true}};
  sv_answer a = {.request = &r, .model = "m", .choices = choices, .n = 2};
  sv_token token = {.id = 9};
  choices[0].tokens = (sv_tokens){&token, 1, 1};
  sv_puts(&choices[0].text, "x\"\n");
  sv_native_put_answer(&t, &a);
  json_t *json = json_loadb(t.p, t.n, JSON_REJECT_DUPLICATES, NULL);
  assert_int_equal(json_array_size(json), 2);
  const json_t *first = json_array_get(json, 0), *second = json_array_get(json, 1);
  assert_string_equal(json_string_value(json_object_get(first, "content")), "x\"\n");
  assert_string_equal(json_string_value(json_object_get(first, "stop_type")), "word");
  assert_string_equal(json_string_value(json_object_get(first, "stopping_word")), "END");
  assert_int_equal(json_integer_value(json_array_get(json_object_get(first, "tokens"), 0)), 9);
  assert_true(json_is_null(json_object_get(first, "prompt")));
  assert_string_equal(json_string_value(json_object_get(second, "prompt")), "p");
  assert_string_equal(json_string_value(json_object_get(second, "stop_type")), "limit");
  assert_true(json_is_true(json_object_get(second, "truncated"))); /* 3 of 4: the context was full */
  const json_t *bias = json_object_get(json_object_get(first, "generation_settings"), "logit_bias");
  assert_true(json_is_false(json_object_get(json_array_get(bias, 0), "bias")));
  json_decref(json);
  /* As events: the text, then the end, once. */
  sv_text_drop(&t, t.n);
  sv_native_put_events(&t, &a);
  const size_t n = t.n;
  sv_native_put_events(&t, &a);
  assert_int_equal(t.n, n);
  size_t events = 0;
  for (const char *p = t.p; (p = strstr(p, "data: ")); p++) events++;
  assert_int_equal(events, 3);
  assert_int_equal(choices[0].text.n, 0);
  sv_text_free(&choices[0].text);
  sv_text_free(&t);
  sv_request_free(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_native_defaults), cmocka_unit_test(test_native_fields),   cmocka_unit_test(test_limits),
      cmocka_unit_test(test_penalties),       cmocka_unit_test(test_prompts),         cmocka_unit_test(test_bias),
      cmocka_unit_test(test_native_refused),  cmocka_unit_test(test_refused_prompts), cmocka_unit_test(test_answer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
