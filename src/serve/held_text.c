#include "serve/held_text.h"

#include <stdlib.h>
#include <string.h>

ga_status held_text_reserve(held_text *held, size_t more) {
  if (held->room - held->bytes >= more) return GA_OK;
  if (more > SIZE_MAX / 4 || held->bytes > SIZE_MAX / 4)
    return ga_error_set(GA_ERR_ARG, "text of a stream: %zu bytes at once; at most %zu", more, SIZE_MAX / 4);
  size_t room = held->room ? held->room : 256;
  while (room - held->bytes < more) room *= 2;
  char *data = realloc(held->data, room);
  if (!data) return ga_error_set(GA_ERR_NOMEM, "text of a stream: out of memory, %zu bytes asked for", room);
  held->data = data;
  held->room = room;
  return GA_OK;
}

void held_text_flush(held_text *held, held_text_fn fn, void *user) {
  if (!held->ready) return;
  fn(user, held->data, held->ready);
  held->bytes -= held->ready;
  memmove(held->data, held->data + held->ready, held->bytes);
  held->ready = 0;
}

void held_text_drop(held_text *held) { held->bytes = held->ready; }

void held_text_clear(held_text *held) {
  free(held->data);
  *held = (held_text){0};
}
