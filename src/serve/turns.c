#include "serve/turns.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SV_BUCKETS = 4096 };

struct sv_turns {
  pthread_mutex_t lock;
  size_t most_bytes, bytes;    /* bytes: of all turns alive, listed or held by a later one */
  sv_turn *newest, *oldest;    /* listed turns by their last use */
  sv_turn *bucket[SV_BUCKETS]; /* listed turns by their id */
};

sv_turns *sv_turns_create(size_t most_bytes) {
  sv_turns *turns = calloc(1, sizeof *turns);
  if (!turns) return NULL;
  turns->most_bytes = most_bytes;
  (void)pthread_mutex_init(&turns->lock, NULL);
  return turns;
}

/* --- all below hold the lock --- */

static sv_turn **sv_bucket_of(sv_turns *turns, const char *id) {
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (; *id; id++) hash = (hash ^ (unsigned char)*id) * 16777619u;
  return &turns->bucket[hash % SV_BUCKETS];
}

static void sv_unlink_use(sv_turns *turns, sv_turn *turn) {
  *(turn->newer ? &turn->newer->older : &turns->newest) = turn->older;
  *(turn->older ? &turn->older->newer : &turns->oldest) = turn->newer;
}

static void sv_link_newest(sv_turns *turns, sv_turn *turn) {
  turn->newer = NULL;
  turn->older = turns->newest;
  *(turns->newest ? &turns->newest->newer : &turns->oldest) = turn;
  turns->newest = turn;
}

/* Drops a reference, and with the last one also that to the turn before. */
static void sv_drop_turn(sv_turns *turns, sv_turn *turn) {
  while (turn && !--turn->refs) {
    sv_turn *previous = turn->previous;
    turns->bytes -= turn->bytes;
    free(turn->input);
    free(turn->output);
    free(turn->response);
    free(turn);
    turn = previous;
  }
}

static void sv_unlist(sv_turns *turns, sv_turn *turn) {
  sv_turn **at = sv_bucket_of(turns, turn->id);
  while (*at != turn) at = &(*at)->next_in_bucket;
  *at = turn->next_in_bucket;
  sv_unlink_use(turns, turn);
  turn->is_listed = false;
  sv_drop_turn(turns, turn);
}

static sv_turn *sv_look_up(sv_turns *turns, const char *id, uint64_t tenant) {
  sv_turn *turn = *sv_bucket_of(turns, id);
  while (turn && (turn->tenant != tenant || strcmp(turn->id, id) != 0)) turn = turn->next_in_bucket;
  return turn;
}

/* --- from outside --- */

void sv_turns_destroy(sv_turns *turns) {
  if (!turns) return;
  while (turns->oldest) sv_unlist(turns, turns->oldest);
  (void)pthread_mutex_destroy(&turns->lock);
  free(turns);
}

sv_turn *sv_turns_find(sv_turns *turns, const char *id, uint64_t tenant) {
  (void)pthread_mutex_lock(&turns->lock);
  sv_turn *found = sv_look_up(turns, id, tenant);
  if (found) found->refs++;
  for (sv_turn *turn = found; turn; turn = turn->previous) {
    if (!turn->is_listed) continue;
    sv_unlink_use(turns, turn);
    sv_link_newest(turns, turn);
  }
  (void)pthread_mutex_unlock(&turns->lock);
  return found;
}

void sv_turn_release(sv_turns *turns, sv_turn *turn) {
  if (!turn) return;
  (void)pthread_mutex_lock(&turns->lock);
  sv_drop_turn(turns, turn);
  (void)pthread_mutex_unlock(&turns->lock);
}

void sv_turns_add(sv_turns *turns, sv_turn *turn) {
  turn->bytes = sizeof *turn + strlen(turn->input) + strlen(turn->output) + strlen(turn->response);
  turn->refs = 1;
  turn->is_listed = true;
  (void)pthread_mutex_lock(&turns->lock);
  turns->bytes += turn->bytes;
  sv_turn **bucket = sv_bucket_of(turns, turn->id);
  turn->next_in_bucket = *bucket;
  *bucket = turn;
  sv_link_newest(turns, turn);
  while (turns->bytes > turns->most_bytes && turns->oldest) sv_unlist(turns, turns->oldest);
  (void)pthread_mutex_unlock(&turns->lock);
}

bool sv_turns_remove(sv_turns *turns, const char *id, uint64_t tenant) {
  (void)pthread_mutex_lock(&turns->lock);
  sv_turn *turn = sv_look_up(turns, id, tenant);
  if (turn) sv_unlist(turns, turn);
  (void)pthread_mutex_unlock(&turns->lock);
  return turn != NULL;
}
