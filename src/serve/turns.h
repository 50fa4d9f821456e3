/* Responses that are kept for later requests: GET /v1/responses/ID, and previous_response_id. */
#ifndef GA_SERVE_TURNS_H
#define GA_SERVE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SV_TURN_ID = 48 };

/* A response, with the turn that it continues. Texts are immutable once the turn is added. */
typedef struct sv_turn {
  char id[SV_TURN_ID];
  uint64_t tenant;          /* requests of other tenants do not find the turn */
  char *input, *output;     /* JSON arrays of items, malloc'd */
  char *response;           /* the response as JSON, malloc'd */
  struct sv_turn *previous; /* the turn before, of which this one holds a reference; NULL = none */
  size_t bytes;             /* memory of the turn without those before */
  int refs;
  bool is_listed; /* sv_turns_find finds the turn */
  struct sv_turn *next_in_bucket, *newer, *older;
} sv_turn;

typedef struct sv_turns sv_turns;

/* Creates a store that holds at most `most_bytes`. Beyond it, the turns leave that were unused for longest. NULL: no
 * memory. */
sv_turns *sv_turns_create(size_t most_bytes);
/* Frees the store. No reference may be held. NULL is fine. */
void sv_turns_destroy(sv_turns *turns);

/* Finds a turn and marks it and the turns before it as used. The caller releases it. NULL: there is none. */
sv_turn *sv_turns_find(sv_turns *turns, const char *id, uint64_t tenant);
/* Releases a reference. NULL is fine. */
void sv_turn_release(sv_turns *turns, sv_turn *turn);
/* Lists a new turn, calloc'd, and takes it over with its texts and its reference `previous`. */
void sv_turns_add(sv_turns *turns, sv_turn *turn);
/* Removes a turn from the list; later turns still continue it. False: there is none. */
bool sv_turns_remove(sv_turns *turns, const char *id, uint64_t tenant);

#endif
