/* Internals of the parser of tool calls: its state, and helpers for the states of each format. A state says where in
 * the text the next byte is. */
#ifndef GA_SERVE_TOOL_PARSER_H
#define GA_SERVE_TOOL_PARSER_H

#include <jansson.h>

#include "serve/held_text.h"
#include "serve/tool_calls.h"
#include "serve/tool_json.h"

typedef enum tool_state {
  TOOL_CONTENT,   /* in content, perhaps in white space or at the beginning of a marker */
  TOOL_PLAIN,     /* in content, up to the end of the output */
  TOOL_JSON,      /* in a JSON object; parser->after is the state after it */
  HERMES_OPEN,    /* before the JSON object of a call */
  HERMES_CLOSE,   /* hermes: before or in </tool_call> */
  CODER_OPEN,     /* before or in the tag <function= */
  CODER_NAME,     /* in the name of a function, after <function= */
  CODER_BODY,     /* before or in <parameter= or </function> */
  CODER_KEY,      /* in a parameter's name */
  CODER_VALUE,    /* in a parameter's value */
  CODER_CLOSE,    /* qwen3_coder: before or in </tool_call> */
  LLAMA_START,    /* before or in <|python_tag|>, or before the first JSON object */
  LLAMA_OBJECT,   /* before the next JSON object */
  LLAMA_AFTER,    /* after a JSON object */
  MISTRAL_OPEN,   /* before a list of calls or the name of a function */
  MISTRAL_ITEM,   /* before the next JSON object of a list */
  MISTRAL_AFTER,  /* after a JSON object of a list */
  MISTRAL_NAME,   /* in the name of a function, after [TOOL_CALLS] */
  MISTRAL_MARKER, /* in the marker [ARGS] or [CALL_ID] */
  MISTRAL_ID,     /* after [CALL_ID] */
  MISTRAL_ARGS,   /* before the JSON object of the arguments */
} tool_state;

/* The result of handling one byte in a state. */
typedef enum tool_step {
  TOOL_HOLD,         /* the byte may be part of a call, and stays undecided */
  TOOL_FAIL,         /* the undecided bytes are no call, but content */
  TOOL_CALLS,        /* the byte ends the queued calls, which are passed on */
  TOOL_CALLS_BEFORE, /* the queued calls ended before the last white space and the marker that has begun */
} tool_step;

typedef struct tool_queued {
  char *name;
  char *json;         /* JSON text of the arguments; NULL: they are among the undecided bytes */
  size_t from, bytes; /* offset and length of the arguments among the undecided bytes */
} tool_queued;

struct tool_parser {
  tool_format format;
  tool_state state;
  held_text held;
  size_t matched; /* number of bytes at the end of `held` that match the beginning of a marker */
  size_t spaces;  /* number of white-space bytes before the matched bytes, counted from the entry into the state */
  size_t from;    /* index, among the undecided bytes, where the current object, name, key or value starts */
  /* state after the current JSON object. MISTRAL_ARGS: the object has the arguments of a call, and ends the call */
  tool_state after;
  tool_json_scan scan;          /* scanner of the current JSON object */
  char name[TOOL_NAME_MAX + 1]; /* name of the function of the current call, in the formats qwen3_coder and mistral */
  char key[TOOL_NAME_MAX + 1];  /* name of the current parameter, in qwen3_coder */
  json_t *params;               /* arguments of the current call, in qwen3_coder */
  bool is_wrapped;              /* the call is inside of <tool_call>, in qwen3_coder */
  bool call_was_last;           /* no content has come since the last call */
  bool no_memory;               /* memory has run out: a call was lost, and the parser must be destroyed */
  size_t n_queued;
  size_t n_calls; /* number of calls that have been passed to the sink */
  const tool_sink *sink;
  tool_queued queue[TOOL_CALL_LIST_MAX];
};

/* Returns the undecided bytes: the last bytes of the text, which may belong to a call. The current byte is the last of
 * them. */
static inline const char *tool_text(const tool_parser *p) { return p->held.data + p->held.ready; }
/* Returns the number of undecided bytes. */
static inline size_t tool_bytes(const tool_parser *p) { return p->held.bytes - p->held.ready; }

/* Enters a state, in which the next byte begins another part of the markup. Returns TOOL_HOLD. */
tool_step tool_enter(tool_parser *p, tool_state state);
/* Enters a JSON object that the current byte opens; `after` is the state after the object. Returns TOOL_HOLD. */
tool_step tool_enter_json(tool_parser *p, tool_state after);
/* Handles a byte between parts of the markup. At most TOOL_CALL_SPACES_MAX bytes of white space are held there; any
 * other byte gives TOOL_FAIL. */
tool_step tool_space(tool_parser *p, char c);
enum { TOOL_MARKER_BEGUN = -1, TOOL_MARKER_NONE = -2 };
/* Matches the current byte against n markers. Returns the index of the marker that the byte completes. Returns
 * TOOL_MARKER_BEGUN if it continues a marker, and TOOL_MARKER_NONE if no marker matches. */
int tool_match(tool_parser *p, const char *const *markers, int n, char c);
/* Copies the undecided bytes from index p->from on, without the last `but` bytes, to `name`. Returns false if they are
 * no valid name. */
bool tool_take_name(const tool_parser *p, size_t but, char *name);
/* Adds a call to the queue. Its arguments are `json`, which the function always takes over. If json is NULL, they are
 * `bytes` undecided bytes at index `from`. Returns false if the queue is full or memory is short. */
bool tool_queue(tool_parser *p, const char *name, size_t from, size_t bytes, char *json);

/* Handle one byte in the states of one format. */
tool_step coder_step(tool_parser *p, char c);
tool_step mistral_step(tool_parser *p, char c);
tool_step hermes_step(tool_parser *p, char c);
tool_step llama_step(tool_parser *p, char c);

#endif
