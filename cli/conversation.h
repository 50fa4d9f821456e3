/* A conversation with a model: all messages, the ones that the model sees, and the tokens in its session. */
#ifndef GA_CLI_CONVERSATION_H
#define GA_CLI_CONVERSATION_H

#include "cli/render.h"
#include "cli/sampling.h"
#include "serve/stops.h"

typedef struct chat {
  open_args open;         /* options of the open model */
  sampling_args sampling; /* options in use */
  sampling_args asked;    /* options of the command line: another model has other defaults for those not given */
  opened o;
  char path[4096]; /* path of the open model, since its name may meanwhile mean another model */
  ga_generate_options options;
  ga_sample_desc sample;
  ga_chat_message *messages; /* [n_messages] messages, whose texts are malloc'd */
  size_t n_messages, capacity;
  /* number of messages that the model does not see because they no longer fit: the oldest ones after the system's */
  size_t left_out;
  int32_t *ids; /* [n_ids] tokens in the session */
  size_t n_ids;
  sv_text answer; /* text of the current answer */
  sv_stops stops;
  ga_text stop[16];
  ga_generate_result last; /* figures of the last answer; n_generated is 0 if there is none */
  render render;
  bool stats, failed, stopped_by_text;
  char *model_name, *stop_text; /* set by /model and /stop */
  char saved[4096];             /* file of the last /save or /load, which /save may overwrite; "" = none */
} chat;

/* Opens the model of `open` in c. On failure the model that is open stays open. */
ga_status chat_open(chat *c, const open_args *open);
/* Sets the temperature, also for models opened later. */
ga_status chat_set_temperature(chat *c, double temperature);
/* Sets the stop strings, whose texts must outlive c; NULL: none. */
void chat_set_stops(chat *c, const cmd_texts *list);
void chat_close(chat *c);

ga_status chat_push(chat *c, const char *role, const char *text);
/* Removes all messages after the first `keep`. */
void chat_clear(chat *c, size_t keep);
bool chat_has_system(const chat *c);
/* Sets the system message; "": none. Other messages stay. */
ga_status chat_set_system(chat *c, const char *text);
/* Sends a user's message. Without an answer the message is removed: the conversation is as before. */
ga_status chat_turn(chat *c, const char *text);
/* Sends the last message again, with another seed. */
ga_status chat_retry(chat *c);

/* Writes a JSON object {"messages": [{"role": ..., "content": ...}]} to a file that only its owner can read. replace:
 * overwrites an existing file. */
ga_status chat_save(chat *c, const char *path, bool replace);
/* Replaces the conversation by the one in a file. On failure the conversation does not change. */
ga_status chat_load(chat *c, const char *path);

/* Runs a line that begins with /. Returns true if the program should end. */
bool chat_command(chat *c, const char *line, ga_status *status);

#endif
