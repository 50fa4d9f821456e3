/* A conversation with a model in `ga chat`: all messages, the messages that the model sees, and the tokens in its
 * session. */
#ifndef GA_CLI_CONVERSATION_H
#define GA_CLI_CONVERSATION_H

#include "cli/render.h"
#include "cli/sampling.h"
#include "serve/stops.h"

typedef struct chat {
  open_args open;         /* options with which the model was opened */
  sampling_args sampling; /* sampling options in use */
  /* sampling options of the command line. Options that were not given keep the values that sampling_args reserves for
   * this, because their defaults depend on the model */
  sampling_args asked;
  opened o;
  ga_generate_options options;
  ga_sample_desc sample;
  ga_chat_message *messages; /* [n_messages] messages, whose texts are allocated with malloc */
  size_t n_messages, capacity;
  /* number of messages that the model does not see because they no longer fit into its context: the oldest after the
   * system message */
  size_t left_out;
  int32_t *ids; /* [n_ids] tokens that the session has evaluated */
  size_t n_ids;
  sv_text answer; /* text of the current answer so far */
  sv_stops stops;
  ga_text stop[16];
  ga_generate_result last; /* figures of the last answer; n_generated is 0 if there is none */
  render render;
  bool stats, failed, stopped_by_text;
  char *model_name, *stop_text; /* texts given to the commands /model and /stop, allocated with malloc */
  char saved[4096];             /* path of the file of the last /save or /load, which /save may overwrite; "" = none */
} chat;

/* Opens the model that `open` names. On failure the model that was open before stays open. */
ga_status chat_open(chat *c, const open_args *open);
/* Returns the name or path by which the open model was given. */
const char *chat_model_name(const chat *c);
/* Sets the temperature, also for models that are opened later. */
ga_status chat_set_temperature(chat *c, double temperature);
/* Sets the stop strings, whose texts must outlive c. list NULL: there are none. */
void chat_set_stops(chat *c, const cmd_texts *list);
void chat_close(chat *c);

ga_status chat_push(chat *c, const char *role, const char *text);
/* Removes all messages except the first `keep`. */
void chat_clear(chat *c, size_t keep);
bool chat_has_system(const chat *c);
/* Sets the system message; "" removes it. Other messages stay. */
ga_status chat_set_system(chat *c, const char *text);
/* Sends a message of the user and prints the model's answer. If there is no answer, the message is removed again. */
ga_status chat_turn(chat *c, const char *text);
/* Sends the last message of the user again, with another seed. */
ga_status chat_retry(chat *c);

/* Writes the messages to a file as JSON: {"messages": [{"role": ..., "content": ...}]}. Only its owner can read it.
 * replace: an existing file is overwritten. */
ga_status chat_save(chat *c, const char *path, bool replace);
/* Replaces all messages by the messages of a file that chat_save has written. On failure nothing changes. */
ga_status chat_load(chat *c, const char *path);

/* Runs a command line, which begins with /. Returns true if the program should end. *status: GA_OK, or the command's
 * error. */
bool chat_command(chat *c, const char *line, ga_status *status);

#endif
