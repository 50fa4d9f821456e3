#include "serve/reasoning.h"

#include <stdlib.h>
#include <string.h>

#include "serve/held_text.h"

#define OPEN_TAG  "<think>"
#define CLOSE_TAG "</think>"

/* White space held back while a tag may follow it; longer runs are given out as they are. */
enum { SPACE_MAX = 64 };

typedef enum reasoning_state {
  BEFORE,  /* nothing but white space yet */
  OPENED,  /* white space behind the opening tag */
  INSIDE,  /* reasoning */
  CLOSED,  /* white space behind the closing tag */
  OUTSIDE, /* content, to the end */
} reasoning_state;

struct reasoning_splitter {
  held_text held;
  reasoning_state state;
  bool starts_inside;
  size_t matched; /* bytes of a tag at the end of what is held */
  size_t spaces;  /* before them */
};

bool reasoning_detect(const char *text, size_t bytes) {
  return memmem(text, bytes, OPEN_TAG, strlen(OPEN_TAG)) || memmem(text, bytes, CLOSE_TAG, strlen(CLOSE_TAG));
}

bool reasoning_is_open(const char *prompt, size_t bytes) {
  const size_t tag = strlen(OPEN_TAG);
  while (bytes && is_json_space(prompt[bytes - 1])) bytes--;
  return bytes >= tag && !memcmp(prompt + bytes - tag, OPEN_TAG, tag);
}

static void reasoning_restart(reasoning_splitter *s) {
  held_text_drop(&s->held);
  s->state = s->starts_inside ? OPENED : BEFORE;
  s->matched = s->spaces = 0;
}

ga_status reasoning_create(bool starts_inside, reasoning_splitter **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return ga_error_set(GA_ERR_NOMEM, "reasoning_create: out of memory, %zu bytes asked for", sizeof **out);
  (*out)->starts_inside = starts_inside;
  reasoning_restart(*out);
  return GA_OK;
}

void reasoning_destroy(reasoning_splitter *s) {
  if (!s) return;
  held_text_clear(&s->held);
  free(s);
}

static void give_decided(reasoning_splitter *s, const reasoning_sink *sink) {
  const bool thinks = s->state == OPENED || s->state == INSIDE;
  held_text_flush(&s->held, thinks ? sink->reasoning : sink->content, sink->user);
}

/* What is held is plain text of the state. */
static void decide_plain(reasoning_splitter *s) {
  s->held.ready = s->held.bytes;
  s->matched = s->spaces = 0;
}

/* A tag has ended: it and the white space before it go. */
static void pass_tag(reasoning_splitter *s, const reasoning_sink *sink, reasoning_state next) {
  held_text_drop(&s->held);
  give_decided(s, sink);
  s->matched = s->spaces = 0;
  s->state = next;
}

/* True when the byte ends `tag`; otherwise it is held, or *plain says that nothing held begins the tag. */
static bool is_tag_end(reasoning_splitter *s, const char *tag, char c, bool *plain) {
  *plain = false;
  if (c == tag[s->matched]) return !tag[++s->matched];
  *plain = s->matched || !is_json_space(c) || ++s->spaces > SPACE_MAX;
  return false;
}

static void reasoning_byte(reasoning_splitter *s, char c, const reasoning_sink *sink) {
  bool plain = false;
  if ((s->state == OPENED || s->state == CLOSED) && is_json_space(c)) return;
  if (s->state == OPENED) s->state = INSIDE;
  if (s->state == CLOSED) s->state = OUTSIDE;
  if (s->state == INSIDE && s->matched && c != CLOSE_TAG[s->matched]) decide_plain(s); /* this byte may begin the tag */
  s->held.data[s->held.bytes++] = c;
  if (s->state == OUTSIDE) {
    decide_plain(s);
  } else if (s->state == INSIDE) {
    if (is_tag_end(s, CLOSE_TAG, c, &plain)) pass_tag(s, sink, CLOSED);
    if (plain) decide_plain(s);
  } else {
    if (is_tag_end(s, OPEN_TAG, c, &plain)) pass_tag(s, sink, OPENED);
    if (plain) {
      decide_plain(s);
      s->state = OUTSIDE;
    }
  }
}

ga_status reasoning_push(reasoning_splitter *s, const char *text, size_t bytes, const reasoning_sink *sink) {
  ga_status status = held_text_reserve(&s->held, bytes);
  if (status != GA_OK) return status;
  for (size_t i = 0; i < bytes; i++) reasoning_byte(s, text[i], sink);
  give_decided(s, sink);
  return GA_OK;
}

void reasoning_finish(reasoning_splitter *s, const reasoning_sink *sink) {
  decide_plain(s);
  give_decided(s, sink);
  reasoning_restart(s);
}
