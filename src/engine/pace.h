/* How many tokens of prompts a step may read while others generate, so that none of those waits long.
 *
 * Steps are timed. One that only generates takes `decode` seconds, a token of a prompt adds `prompt_token`. A step may
 * then take PACE_STRETCH times what it would without prompts; on a GPU more, for it has PACE_LEAST_GPU tokens and is
 * filled up to a multiple of PACE_TILE_GPU rows.
 *
 * A long prompt that is read alone makes nobody wait but those that generate. Its steps have fewer rows: as many as
 * take PACE_EVEN times what a step without prompts takes, by what steps of so many rows have taken. */
#ifndef GA_ENGINE_PACE_H
#define GA_ENGINE_PACE_H

#include <stdint.h>

#define PACE_STRETCH 2.0
/* Fewer tokens would cost a prompt more than they spare the others. A GPU reads all weights for a few rows as for some
 * hundred: at 16 tokens a step an H200 read prompts at 3 000 tokens a second, a tenth of what it can. */
#define PACE_LEAST_CPU 16
#define PACE_LEAST_GPU 256
/* On a CPU a step may read prompts for so long in any case, up to so many tokens: on 6 cores with AMX steps of 16
 * tokens cost 16 streams of a 135M model a third of their throughput (docs/results/serve.md). Slow models keep
 * PACE_LEAST_CPU. */
#define PACE_BRIEF_CPU  0.03 /* seconds */
#define PACE_TOKENS_CPU 128
/* Rows of a step in whose products all multiprocessors work: tiles of 128 rows come in fours. 320 and 512 rows took an
 * H200 17.1 ms each, 256 rows 10.6 (docs/results/serve.md). */
#define PACE_TILE_GPU 512

#define PACE_EVEN 2.35 /* steps differ: the slowest of a hundred is to stay below 2.5 times */
/* Steps of up to 128 rows, 192, 256, 512, 1024, and more. Where 128 rows take too long beside a few that generate, 256
 * are read: fewer would cost the prompt more than they spare the others. */
#define PACE_CLASSES 6

typedef struct step_pace {
  int32_t least;               /* tokens of prompts that a step takes at least */
  double brief;                /* seconds that a step may read prompts in any case, up to PACE_TOKENS_CPU; 0: none */
  double decode, prompt_token; /* moving averages, seconds; 0: not seen yet */
  double token[PACE_CLASSES];  /* of prompts beside others, in steps of so many rows */
} step_pace;

/* A step of n_decode generated and n_prompt read tokens took so many seconds. */
void pace_note(step_pace *pace, int32_t n_decode, int32_t n_prompt, double seconds);
/* Tokens of prompts in a step, most at most; a quarter of that until steps of both sorts have been timed. */
int32_t pace_chunk(const step_pace *pace, int32_t most);
/* Rows of a step in which n_decode generate and one long prompt is read; 0: not known yet. */
int32_t pace_even_rows(const step_pace *pace, int32_t n_decode);

#endif
