/* Chooses how many prompt tokens a step may read while other requests generate, so that these requests do not wait
 * long.
 *
 * Steps are timed. A step that only generates takes `decode` seconds; each prompt token adds `prompt_token` seconds. A
 * step with prompts may take PACE_STRETCH times the time of a step without. On a GPU it may take longer: it reads at
 * least PACE_LEAST_GPU prompt tokens, and is filled up to a multiple of PACE_TILE_GPU rows.
 *
 * If a single long prompt is being read, only generating requests wait for its steps. Its steps have fewer rows: as
 * many as take PACE_EVEN times the time of a step without prompts, estimated from earlier steps of that size. */
#ifndef GA_ENGINE_PACE_H
#define GA_ENGINE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_STRETCH 2.0
/* Smallest numbers of prompt tokens that a step reads. With fewer, the prompt would lose more time than other requests
 * gain. A GPU takes about as long for a few rows as for a few hundred, because it reads all weights. At 16 tokens a
 * step an H200 read prompts at 3 000 tokens a second, a tenth of its speed. */
#define PACE_LEAST_CPU 16
#define PACE_LEAST_GPU 256
/* On a CPU a step may always spend PACE_BRIEF_CPU seconds on prompts, but on at most PACE_TOKENS_CPU tokens. On 6 cores
 * with AMX, limiting steps to 16 prompt tokens cost 16 concurrent requests to a 135M model a third of their throughput
 * (docs/results/serve.md). With slow models, steps read PACE_LEAST_CPU prompt tokens. */
#define PACE_BRIEF_CPU  0.03 /* seconds that a step may always spend on prompts */
#define PACE_TOKENS_CPU 128
/* Bound on the time of a step on a CPU in which no request generates, since new requests wait for the step's end. The
 * step reads at least PACE_ALONE_LEAST_CPU tokens, or half as many if several requests run or wait. With 64 tokens a
 * step SmolLM2 135M was read 20 to 27 % slower than with 128, with 128 as fast as with 512 (two cores,
 * docs/results/serve.md). */
#define PACE_ALONE_CPU       0.25 /* largest time in seconds of a step in which no request generates */
#define PACE_ALONE_LEAST_CPU 128
/* Largest number of tokens to read of a prompt that counts as short (sched_options.short_tokens), on a CPU. */
#define PACE_SHORT_CPU 128
/* Rows of a step that keep all multiprocessors busy in matrix products: four tiles of 128 rows. 320 and 512 rows
 * took an H200 17.1 ms each, 256 rows 10.6 ms (docs/results/serve.md). */
#define PACE_TILE_GPU 512

/* Bound on the time of a step that also reads a long prompt, as a multiple of the time of a step that only generates.
 * Times of steps vary: 2.35 on average keeps the slowest of a hundred steps below 2.5. */
#define PACE_EVEN 2.35
/* Number of classes of steps by rows: up to 128, 192, 256, 512, 1024, and more. If even 128 rows take too long
 * beside a few generating requests, 256 are used: fewer would cost the prompt more time than the others gain. */
#define PACE_CLASSES 6

typedef struct step_pace {
  int32_t least; /* fewest prompt tokens that a step takes */
  /* Seconds that a step may always spend on prompt tokens, but on at most PACE_TOKENS_CPU of them. 0: no such time. */
  double brief;
  double alone; /* largest time in seconds of a step in which no request generates; 0: no bound */
  /* moving averages in seconds: decode is the time of a step without prompts, prompt_token the time that each prompt
   * token adds. 0: not measured yet */
  double decode, prompt_token;
  /* [class of rows] seconds that a prompt token adds to a step in which other requests generate */
  double token[PACE_CLASSES];
} step_pace;

/* Records the time of a step that generated n_decode tokens and read n_prompt prompt tokens. */
void pace_note(step_pace *pace, int32_t n_decode, int32_t n_prompt, double seconds);
/* Returns how many prompt tokens the next step may read, at most `most`. Until steps with and without prompts have
 * been timed, it is a quarter of `most`. */
int32_t pace_chunk(const step_pace *pace, int32_t most);
/* Returns how many prompt tokens a step may read in which no request generates, at most `most`. is_shared: several
 * requests run or wait. */
int32_t pace_alone(const step_pace *pace, int32_t most, bool is_shared);
/* Returns how many rows a step should have in which n_decode requests generate and one long prompt is read. 0: not
 * known yet. */
int32_t pace_even_rows(const step_pace *pace, int32_t n_decode);

#endif
