/* Options of llama.cpp, Ollama and vLLM (docs/guide/coming-from.md): those that mean the same as one of ours are taken,
 * and those that GA lacks are answered with the reason. */
#ifndef GA_CMDLINE_FOREIGN_H
#define GA_CMDLINE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

/* Kinds of options of other programs. */
typedef enum foreign_kind {
  FOREIGN_SAME,   /* it is one of ours under another name */
  FOREIGN_ALWAYS, /* a flag for what GA does anyway: nothing is to be done */
  FOREIGN_ON,     /* the same with an optional value: on, auto, 1 or true; other values are refused */
  FOREIGN_LAYERS, /* a number of layers on the GPU; 99 and more, all, auto and -1 stand for as many as fit */
  FOREIGN_HUB,    /* the name of a repository of the hub, which is a model of ours behind "hf:" */
  FOREIGN_NONE    /* GA has nothing of the kind */
} foreign_kind;

typedef struct foreign_option {
  const char *name; /* with its dashes */
  foreign_kind kind;
  /* [2] long names of our options that mean the same; the first that the command has is set. NULL = none */
  const char *ours[2];
  const char *note; /* the reason for FOREIGN_NONE; else what GA does anyway. It ends without a full stop */
} foreign_option;

/* Returns the entry whose name is `arg`, up to a '='; NULL: no entry has it. *value: text after the '=', or NULL. */
const foreign_option *foreign_find(const char *arg, const char **value);
/* Returns the reason why GA lacks a command of Ollama; NULL: Ollama has no such command, or GA has it. */
const char *foreign_command(const char *name);

#endif
