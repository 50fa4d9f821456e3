#include "cli/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "cmdline/error.h"
#include "cmdline/words.h"
#include "names/names.h"

/* --- messages --- */

ga_status chat_push(chat *c, const char *role, const char *text) {
  if (c->n_messages == c->capacity) {
    size_t capacity = c->capacity ? c->capacity * 2 : 16;
    void *p = realloc(c->messages, capacity * sizeof *c->messages);
    if (!p) return fail_nomem("messages", capacity * sizeof *c->messages);
    c->messages = p;
    c->capacity = capacity;
  }
  char *copy = strdup(text);
  if (!copy) return fail_nomem("message", strlen(text) + 1);
  c->messages[c->n_messages++] = (ga_chat_message){.role = role, .content = copy};
  return GA_OK;
}

static void free_content(const ga_chat_message *m) { free((void *)(uintptr_t)m->content); }

static void pop_message(chat *c) { free_content(&c->messages[--c->n_messages]); }

void chat_clear(chat *c, size_t keep) {
  while (c->n_messages > keep) pop_message(c);
  if (c->left_out > keep) c->left_out = 0;
  if (c->n_messages <= chat_has_system(c)) c->left_out = 0;
}

bool chat_has_system(const chat *c) { return c->n_messages && !strcmp(c->messages[0].role, "system"); }

ga_status chat_set_system(chat *c, const char *text) {
  const bool had = chat_has_system(c);
  if (had && *text) {
    char *copy = strdup(text);
    if (!copy) return fail_nomem("message", strlen(text) + 1);
    free_content(&c->messages[0]);
    c->messages[0].content = copy;
  } else if (had) {
    free_content(&c->messages[0]);
    memmove(c->messages, c->messages + 1, --c->n_messages * sizeof *c->messages);
  } else if (*text) {
    TRY(chat_push(c, "system", text));
    const ga_chat_message system = c->messages[c->n_messages - 1];
    memmove(c->messages + 1, c->messages, (c->n_messages - 1) * sizeof system);
    c->messages[0] = system;
  }
  return GA_OK;
}

/* --- the model --- */

/* What the command line asked for, and for the rest what the model says. The numbers drawn go on. */
static ga_status take_sampling(chat *c) {
  c->sampling = c->asked;
  TRY(sampling_fill(&c->sampling, c->o.path, &c->o.named, true));
  const uint64_t seed = c->options.seed;
  const bool goes_on = c->options.struct_size != 0;
  c->options = (ga_generate_options)GA_GENERATE_OPTIONS_INIT;
  c->sample = (ga_sample_desc)GA_SAMPLE_DESC_INIT;
  sampling_apply(&c->sampling, &c->options, &c->sample);
  if (goes_on) c->options.seed = seed;
  return GA_OK;
}

ga_status chat_set_temperature(chat *c, double temperature) {
  c->asked.temperature = temperature;
  return take_sampling(c);
}

static ga_status prepare_model(chat *c) {
  c->ids = malloc(((size_t)ga_session_context(c->o.session) + 1) * sizeof *c->ids);
  c->n_ids = 0;
  if (!c->ids) return fail_nomem("conversation", 0);
  if (!chat_template(&c->o)) TRY(chat_ids(&c->o, NULL, 0, &(int32_t *){NULL}, &(size_t){0})); /* tells why */
  c->left_out = 0;
  return take_sampling(c);
}

ga_status chat_open(chat *c, const open_args *open) {
  chat next = *c;
  next.open = *open;
  next.o = (opened){0};
  next.ids = NULL;
  ga_status status = open_model(&next.open, true, &next.o);
  if (status == GA_OK) status = prepare_model(&next);
  if (status == GA_OK) {
    close_model(&c->o);
    free(c->ids);
    *c = next;
    c->options.sample = &c->sample;
    if (!c->stop_text) chat_set_stops(c, &c->sampling.stop);
    return chat_has_system(c) || !c->o.named.system ? GA_OK : chat_set_system(c, c->o.named.system);
  }
  close_model(&next.o);
  free(next.ids);
  return status;
}

const char *chat_model_name(const chat *c) { return c->open.model ? c->open.model : ga_known_models[0].name; }

void chat_set_stops(chat *c, const cmd_texts *list) {
  c->stops.n = list ? list->n : 0;
  for (size_t i = 0; i < c->stops.n; i++) c->stop[i] = (ga_text){list->item[i], strlen(list->item[i])};
  c->stops.stop = c->stop;
}

void chat_close(chat *c) {
  chat_clear(c, 0);
  free(c->messages);
  free(c->ids);
  sv_text_free(&c->answer);
  sv_stops_free(&c->stops);
  free(c->model_name);
  free(c->stop_text);
  close_model(&c->o);
}

/* --- one turn --- */

/* What the stop strings let through goes to the answer and to the screen. */
static bool show_answer(chat *c, size_t from) {
  return !c->answer.failed && render_put(&c->render, c->answer.p + from, c->answer.n - from);
}

static int on_text(void *user, int32_t id, const char *text, size_t bytes) {
  chat *c = user;
  const size_t from = c->answer.n;
  if (interrupted()) return 1;
  if (id != GA_TOK_NONE) c->ids[c->n_ids++] = id;
  c->stopped_by_text = sv_stops_push(&c->stops, text, bytes, &c->answer) >= 0;
  return (c->answer.n > from && !show_answer(c, from)) ||
         c->stopped_by_text; /* the end of the program tells of the former */
}

static int on_prompt(void *user, uint64_t done, uint64_t total) {
  (void)user;
  if (total > 512) cmd_progress("reading", done, total);
  return interrupted();
}

/* Rewinds the session to the longest common start of what it holds and what it must hold; at least one id is left. */
static ga_status reuse_prefix(chat *c, const int32_t *ids, size_t n, size_t *same) {
  size_t held = (size_t)ga_session_length(c->o.session), i = 0;
  if (held > c->n_ids) held = c->n_ids;
  while (i < held && i + 1 < n && c->ids[i] == ids[i]) i++;
  *same = i;
  return ga_session_rewind(c->o.session, (int32_t)i);
}

static ga_status finish_answer(chat *c, ga_status status, const ga_generate_result *r) {
  const size_t from = c->answer.n;
  const bool ended = status == GA_OK && c->stopped_by_text;
  cmd_progress_clear();
  if (!c->stopped_by_text) sv_stops_flush(&c->stops, &c->answer);
  if (interrupted()) clearerr(stdout); /* a write that Ctrl-C cut short */
  if (c->answer.n > from) (void)show_answer(c, from);
  (void)render_end(&c->render);
  if (!ended && (status == GA_ERR_CANCELLED || (status == GA_OK && r->finish == GA_FINISH_STOPPED))) {
    (void)fprintf(stderr, "(stopped)\n");
    return c->answer.n ? GA_OK : GA_ERR_CANCELLED;
  }
  if (status != GA_OK) return status;
  c->last = *r;
  print_cut(r);
  if (c->stats) print_speed(r);
  return GA_OK;
}

static ga_status answer(chat *c, const int32_t *ids, size_t n) {
  size_t same;
  ga_generate_result r = GA_GENERATE_RESULT_INIT;
  TRY(reuse_prefix(c, ids, n, &same));
  memcpy(c->ids, ids, n * sizeof *ids);
  c->n_ids = n;
  c->answer.n = 0;
  sv_text_drop(&c->stops.held, c->stops.held.n);
  c->stopped_by_text = false;
  c->options.text = on_text;
  c->options.progress = on_prompt;
  c->options.user = c;
  render_begin(&c->render, stdout);
  const ga_status status = ga_generate(c->o.session, ids + same, (int32_t)(n - same), &c->options, &r);
  c->options.seed++; /* the next answer does not draw the same numbers */
  return finish_answer(c, status, &r);
}

/* --- the context --- */

/* Ids of what the model is to see: the system message, and all messages but the left out. */
static ga_status ids_of(const chat *c, int32_t **ids, size_t *n) {
  const size_t first = chat_has_system(c), count = c->n_messages - c->left_out;
  *ids = NULL;
  ga_chat_message *seen = malloc(count * sizeof *seen);
  if (!seen) return fail_nomem("messages", count * sizeof *seen);
  if (first) seen[0] = c->messages[0];
  memcpy(seen + first, c->messages + first + c->left_out, (count - first) * sizeof *seen);
  const ga_status status = chat_ids(&c->o, seen, count, ids, n);
  free(seen);
  return status;
}

/* The oldest question that the model sees leaves, with its answers. False: only the last message is left. */
static bool leave_out_one(chat *c) {
  size_t at = chat_has_system(c) + c->left_out + 1;
  while (at < c->n_messages && strcmp(c->messages[at].role, "user")) at++;
  if (at >= c->n_messages) return false;
  c->left_out = at - chat_has_system(c);
  return true;
}

/* Where an answer would have no room, turns leave until half of the context is free: each time they do, what is left
 * is read anew. */
static ga_status fit(chat *c, int32_t **ids, size_t *n) {
  const size_t context = (size_t)ga_session_context(c->o.session), before = c->left_out;
  const size_t quarter = context / 4, most = (size_t)c->options.max_tokens;
  TRY(ids_of(c, ids, n));
  for (size_t room = context - (most < quarter ? most : quarter); *n > room && leave_out_one(c); room = context / 2) {
    free(*ids);
    TRY(ids_of(c, ids, n));
  }
  REQUIRE(*n > 0 && *n < context, GA_ERR_SHAPE,
          "the message%s has %zu tokens, the context holds %zu; -c N makes it larger",
          chat_has_system(c) ? " with the system message" : "", *n, context);
  if (c->left_out && !before)
    words_print(stderr, 2, "(the context of %zu tokens is full: from now on the oldest turns are left out)\n", context);
  return GA_OK;
}

ga_status chat_turn(chat *c, const char *text) {
  int32_t *ids = NULL;
  size_t n, left_out = c->left_out;
  TRY(chat_push(c, "user", text));
  clear_interrupt();
  ga_status status = fit(c, &ids, &n);
  if (status == GA_OK)
    status = answer(c, ids, n);
  else
    c->left_out = left_out;
  if (status == GA_OK && c->answer.failed) status = fail_nomem("answer", c->answer.n);
  if (status == GA_OK)
    status = chat_push(c, "assistant", c->answer.n ? c->answer.p : "");
  else
    pop_message(c);
  free(ids);
  return status == GA_ERR_CANCELLED ? GA_OK : status;
}

/* A copy of message i, NULL where there is none or no memory. */
static char *copy_of(const chat *c, size_t i) { return i < c->n_messages ? strdup(c->messages[i].content) : NULL; }

ga_status chat_retry(chat *c) {
  size_t last = c->n_messages;
  while (last && strcmp(c->messages[last - 1].role, "user")) last--;
  REQUIRE(last, GA_ERR_STATE, "nothing to answer yet");
  char *text = copy_of(c, last - 1), *before = copy_of(c, last);
  if (!text) return fail_nomem("message", 1);
  chat_clear(c, last - 1);
  ga_status status = chat_turn(c, text);
  if (c->n_messages == last - 1 && before) { /* nothing came: the former answer stays */
    ga_status kept = chat_push(c, "user", text);
    if (kept == GA_OK) kept = chat_push(c, "assistant", before);
    if (status == GA_OK) status = kept;
  } else if (status == GA_OK && c->sample.temperature == 0) {
    words_print(stderr, 2, "(temperature 0 always gives the same answer; /temp 0.7 lets it vary)\n");
  }
  free(text);
  free(before);
  return status;
}
