/* A conversation with a model: messages, which of them the model sees, and the tokens that its session holds. */
#ifndef GA_CLI_CONVERSATION_H
#define GA_CLI_CONVERSATION_H

#include "cli/render.h"
#include "cli/sampling.h"
#include "serve/stops.h"

typedef struct chat {
  open_args open;                /* what the model was opened with */
  sampling_args sampling, asked; /* in force, and as the command line gave them: another model has other defaults */
  opened o;
  char path[4096]; /* of the model; its name may mean another one by now */
  ga_generate_options options;
  ga_sample_desc sample;
  ga_chat_message *messages; /* texts are malloc'd */
  size_t n_messages, capacity;
  size_t left_out; /* messages, the oldest behind the system's, that no longer fit */
  int32_t *ids;    /* what the session holds */
  size_t n_ids;
  sv_text answer; /* of this turn */
  sv_stops stops;
  ga_text stop[16];
  ga_generate_result last; /* the last answer's figures; n_generated 0: none yet */
  render render;
  bool stats, failed, stopped_by_text;
  char *model_name, *stop_text; /* of /model and /stop */
  char saved[4096];             /* the file of the last /save or /load, which /save may write again; "" */
} chat;

/* Takes the model that `open` names into c; on failure what was open before goes on. */
ga_status chat_open(chat *c, const open_args *open);
/* From now on, also with another model. */
ga_status chat_set_temperature(chat *c, double temperature);
/* `text` must live as long as c, as those of the command line do; NULL: none. */
void chat_set_stops(chat *c, const cmd_texts *list);
void chat_close(chat *c);

ga_status chat_push(chat *c, const char *role, const char *text);
/* Forgets all messages behind the first `keep`. */
void chat_clear(chat *c, size_t keep);
bool chat_has_system(const chat *c);
/* "": none. What was said stays. */
ga_status chat_set_system(chat *c, const char *text);
/* Sends a user's message. When there is no answer the message is taken back: the conversation is as before. */
ga_status chat_turn(chat *c, const char *text);
/* The last message again, with another seed. */
ga_status chat_retry(chat *c);

/* A JSON object {"messages": [{"role": ..., "content": ...}]}; the file is for its owner alone. `replace`: one that is
 * there is written over. */
ga_status chat_save(chat *c, const char *path, bool replace);
/* In the place of the conversation; on failure that stays. */
ga_status chat_load(chat *c, const char *path);

/* A line that begins with /. True = leave. */
bool chat_command(chat *c, const char *line, ga_status *status);

#endif
