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
  bool ranks;     /* the results are scores of pairs, whose first part has n_query ids */
  int32_t n_query;
  int64_t top_n;           /* most entries of the answer to a rerank request */
  bool is_raw, with_texts; /* scores are logits; the answer repeats the documents */
  bool parses_special;     /* names of control tokens in a text become these tokens */
  double start;            /* sv_seconds at the time when the body was read */
  atomic_bool is_done, is_dropped;
  ga_status status;
  char error[256];
  struct sv_embed_job *next;
} sv_embed_job;

/* An interface in which such requests come. */
typedef struct sv_embed_form {
  /* Reads options and inputs. The job owns a reference to the body. */
  bool (*read)(sv_embed_job *job, const json_t *body, sv_call *call);
  void (*put)(sv_text *t, const sv_embed_job *job, const sv_call *call);
} sv_embed_form;

ga_status sv_embedder_start(sv_server *s, sv_embedder **out);
/* Stops the thread that evaluates embeddings, and frees e. No request may be pending. NULL is accepted. */
void sv_embedder_stop(sv_embedder *e);
/* Answers a request in a form. */
enum MHD_Result sv_run_embed(sv_call *call, const sv_embed_form *form);

/* Checks that the body's `model`, if it is given, is a name of the server's model. */
bool sv_embed_model(sv_embed_job *job, const json_t *body, sv_fail *fail);
/* Reads the texts or ids under `key`. cuts: inputs beyond the context are cut, else they are refused. */
bool sv_embed_inputs(sv_embed_job *job, const json_t *body, const char *key, bool cuts, sv_call *call);

/* POST /v1/embeddings. */
enum MHD_Result sv_run_embeddings(sv_call *call);
/* POST /embedding of llama-server. */
enum MHD_Result sv_run_native_embedding(sv_call *call);
/* Writes n floats in base64. Each float is 4 bytes, little-endian. */
void sv_put_base64_floats(sv_text *t, const float *v, size_t n);
/* Writes n floats as a JSON array. */
void sv_put_floats(sv_text *t, const float *v, size_t n);

#endif
