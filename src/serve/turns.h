/* Turns: responses that are kept for later requests, such as GET /v1/responses/ID and requests with
 * previous_response_id. */
#ifndef GA_SERVE_TURNS_H
#define GA_SERVE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SV_TURN_ID = 48 };

/* A kept response, with the response that it continues. Its texts do not change after sv_turns_add. */
typedef struct sv_turn {
  char id[SV_TURN_ID];
  uint64_t tenant;          /* requests of other tenants do not find the turn */
  char *input, *output;     /* items of the request and of the response as JSON arrays, allocated with malloc */
  char *response;           /* the response as JSON text, allocated with malloc */
  struct sv_turn *previous; /* turn that this turn continues, and to which it holds a reference; NULL = none */
  size_t bytes;             /* bytes of memory of the turn, without earlier turns */
  int refs;
  bool is_listed; /* sv_turns_find finds the turn */
  struct sv_turn *next_in_bucket, *newer, *older;
} sv_turn;

typedef struct sv_turns sv_turns;

/* Creates a store of turns of at most most_bytes bytes together. Beyond the limit, turns that have been unused for
 * longest are removed. Returns NULL if memory is short. */
sv_turns *sv_turns_create(size_t most_bytes);
/* Frees the store. No reference may be held. NULL is fine. */
void sv_turns_destroy(sv_turns *turns);

/* Finds a turn by its id, and marks it and the turns that it continues as used. The caller releases it with
 * sv_turn_release. NULL: there is none. */
sv_turn *sv_turns_find(sv_turns *turns, const char *id, uint64_t tenant);
/* Releases a reference to a turn. NULL is fine. */
void sv_turn_release(sv_turns *turns, sv_turn *turn);
/* Adds a new turn, allocated with calloc, to the store. The store takes over the turn, its texts and its reference to
 * `previous`. */
void sv_turns_add(sv_turns *turns, sv_turn *turn);
/* Removes a turn from the turns that sv_turns_find finds. Turns that continue it stay valid. Returns false if there is
 * no such turn. */
bool sv_turns_remove(sv_turns *turns, const char *id, uint64_t tenant);

#endif
