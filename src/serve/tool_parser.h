/* Inside of the parser of tool calls: its state, and what the states of a format are made of. */
#ifndef GA_SERVE_TOOL_PARSER_H
#define GA_SERVE_TOOL_PARSER_H

#include <jansson.h>

#include "serve/held_text.h"
#include "serve/tool_calls.h"
#include "serve/tool_json.h"

typedef enum tool_state {
  TOOL_CONTENT,   /* text, perhaps white space and the beginning of a marker */
  TOOL_PLAIN,     /* text, to the end */
  TOOL_JSON,      /* in an object; parser->after comes next */
  HERMES_OPEN,    /* before the object */
  HERMES_CLOSE,   /* before or in </tool_call> */
  CODER_OPEN,     /* before or in <function= */
  CODER_NAME,     /* in a function's name */
  CODER_BODY,     /* before or in <parameter= or </function> */
  CODER_KEY,      /* in a parameter's name */
  CODER_VALUE,    /* in a parameter's value */
  CODER_CLOSE,    /* before or in </tool_call> */
  LLAMA_START,    /* before or in the tag, or before the first object */
  LLAMA_OBJECT,   /* before an object */
  LLAMA_AFTER,    /* behind an object */
  MISTRAL_OPEN,   /* before a list or a name */
  MISTRAL_ITEM,   /* before an object of a list */
  MISTRAL_AFTER,  /* behind an object of a list */
  MISTRAL_NAME,   /* in a function's name */
  MISTRAL_MARKER, /* in [ARGS] or [CALL_ID] */
  MISTRAL_ID,     /* behind [CALL_ID] */
  MISTRAL_ARGS,   /* before the object of the arguments */
} tool_state;

/* What a byte did in a state of a format. */
typedef enum tool_step {
  TOOL_HOLD,         /* it is part of a call, so far */
  TOOL_FAIL,         /* there is no call */
  TOOL_CALLS,        /* it ends the calls that are queued */
  TOOL_CALLS_BEFORE, /* they ended before the last white space and the marker begun */
} tool_step;

typedef struct tool_queued {
  char *name;
  char *json;         /* the arguments; NULL: they stand in the bytes not decided, */
  size_t from, bytes; /* here */
} tool_queued;

struct tool_parser {
  tool_format format;
  tool_state state;
  held_text held;
  size_t matched;               /* bytes of a marker at the end of what is held */
  size_t spaces;                /* white space before them, since the state was entered */
  size_t from;                  /* of the object, name, key or value at hand, in the bytes not decided */
  tool_state after;             /* the object at hand; MISTRAL_ARGS: it is that of arguments, and ends the call */
  tool_json_scan scan;          /* of the object at hand */
  char name[TOOL_NAME_MAX + 1]; /* of the call at hand: qwen3_coder, mistral */
  char key[TOOL_NAME_MAX + 1];  /* of the parameter at hand */
  json_t *params;               /* of the call at hand: qwen3_coder */
  bool is_wrapped;              /* in <tool_call>: qwen3_coder */
  bool call_was_last;           /* no content since the last call */
  bool no_memory;               /* a call was lost: the parser is of no further use */
  size_t n_queued;
  size_t n_calls; /* given out */
  const tool_sink *sink;
  tool_queued queue[TOOL_CALL_LIST_MAX];
};

/* The bytes that are not decided, and their number. The byte at hand is the last of them. */
static inline const char *tool_text(const tool_parser *p) { return p->held.data + p->held.ready; }
static inline size_t tool_bytes(const tool_parser *p) { return p->held.bytes - p->held.ready; }

/* The next byte begins another part of the markup. */
tool_step tool_enter(tool_parser *p, tool_state state);
/* The byte at hand opens an object, behind which `after` comes. */
tool_step tool_enter_json(tool_parser *p, tool_state after);
/* The byte stands between parts: held if it is one of not too many spaces. */
tool_step tool_space(tool_parser *p, char c);
/* The byte may be one of a marker: the index of the one of `n` that it ends, or: */
enum { TOOL_MARKER_BEGUN = -1, TOOL_MARKER_NONE = -2 };
int tool_match(tool_parser *p, const char *const *markers, int n, char c);
/* The bytes since p->from without the last `but` as a name. False: they are none. */
bool tool_take_name(const tool_parser *p, size_t but, char *name);
/* Queues a call whose arguments stand at `from`, or are `json` (taken over in any case). False: no room. */
bool tool_queue(tool_parser *p, const char *name, size_t from, size_t bytes, char *json);

/* A byte in the states of a format. */
tool_step coder_step(tool_parser *p, char c);
tool_step mistral_step(tool_parser *p, char c);
tool_step hermes_step(tool_parser *p, char c);
tool_step llama_step(tool_parser *p, char c);

#endif
