/* Requests to an encoder. One thread evaluates all of them, so that HTTP threads do not wait. */
#ifndef GA_SERVE_EMBED_H
#define GA_SERVE_EMBED_H

#include "serve/http.h"
#include "serve/prompts.h"

enum { SV_MAX_INPUTS = 2048 };

typedef struct sv_embed_job {
  sv_waiter w; /* must be the first field: the embedder's thread notifies it */
  sv_server *server;
  json_t *body;   /* body of the request */
  sv_ids *ids;    /* [n] */
  float *vectors; /* [n][width] results */
  size_t n, width;
  bool is_base64; /* vectors are written in base64 */
  bool ranks;     /* the results are scores of pairs of texts; the first text of each pair has n_query ids */
  int32_t n_query;
  int64_t top_n;           /* largest number of entries in the answer to a rerank request */
  bool is_raw, with_texts; /* is_raw: scores are logits; with_texts: the answer repeats the documents */
  bool parses_special;     /* names of control tokens in a text become these tokens */
  double start;            /* time when the body was read, from sv_seconds */
  atomic_bool is_done, is_dropped;
  ga_status status;
  char error[256];
  struct sv_embed_job *next;
} sv_embed_job;

/* The form of an interface for embeddings: how it reads a body, and how it writes an answer. */
typedef struct sv_embed_form {
  /* Reads the options and inputs of a request from the body into the job, which owns a reference to the body. Returns
   * false after a failure, with the reason in call->fail. */
  bool (*read)(sv_embed_job *job, const json_t *body, sv_call *call);
  void (*put)(sv_text *t, const sv_embed_job *job, const sv_call *call);
} sv_embed_form;

ga_status sv_embedder_start(sv_server *s, sv_embedder **out);
/* Stops the thread that evaluates embeddings, and frees e. No request may be pending. NULL is accepted. */
void sv_embedder_stop(sv_embedder *e);
/* Answers a request for embeddings in the given form. */
enum MHD_Result sv_run_embed(sv_call *call, const sv_embed_form *form);

/* Checks that the body's `model`, if it is given, is a name of the server's model. */
bool sv_embed_model(sv_embed_job *job, const json_t *body, sv_fail *fail);
/* Reads the texts or ids in the body's field `key` into the job. cuts: inputs that are longer than the context are cut;
 * otherwise they are refused. */
bool sv_embed_inputs(sv_embed_job *job, const json_t *body, const char *key, bool cuts, sv_call *call);

/* Handles POST /v1/embeddings. */
enum MHD_Result sv_run_embeddings(sv_call *call);
/* Handles POST /embedding of llama-server. */
enum MHD_Result sv_run_native_embedding(sv_call *call);
/* Writes n floats in base64. Each float is 4 bytes, little-endian. */
void sv_put_base64_floats(sv_text *t, const float *v, size_t n);
/* Writes n floats as a JSON array. */
void sv_put_floats(sv_text *t, const float *v, size_t n);

#endif
