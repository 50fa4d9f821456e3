/* A GPU that faults in mid-run, for machines with one: usage: lost MODEL DEVICES [PLACE]
 *
 * Evaluates 40 tokens of MODEL on DEVICES ("cuda:0", or "cuda:0,cuda:1": they share the layers), then launches a kernel
 * that traps on the device number PLACE of the list (the last one), which ruins its context, and evaluates again: that
 * must be refused with GA_ERR_DEVICE, twice, and everything be closed without a hang. Nothing but this process is
 * harmed. Exit 1: it went otherwise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ga/launch.h"
#include "ga/llm.h"

enum { MOST = 8, TOKENS = 40 };

static const char trap[] = ".version 7.8\n.target sm_80\n.address_size 64\n"
                           ".visible .entry lost(.param .align 4 .b8 nothing[4]) { trap; }\n";

static void need_ok(ga_status status, const char *what) {
  if (status == GA_OK) return;
  fprintf(stderr, "lost: %s: %s\n", what, ga_error_text());
  exit(2);
}

static int open_all(const char *devices, ga_ctx **ctx) {
  int n = 0;
  for (const char *at = devices; *at && n < MOST; at += strcspn(at, ","), at += *at == ',') {
    ga_ctx_options co = GA_CTX_OPTIONS_INIT;
    char name[32];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
    co.device = name;
    need_ok(ga_ctx_create(&co, &ctx[n++]), name);
  }
  return n;
}

/* Says what came of it. True: refused as a fault of the device. */
static bool is_device_fault(ga_session *s, const int32_t *ids, int32_t n, float *logits, const char *when) {
  const ga_status status = ga_session_eval(s, ids, n, logits, 1, NULL, NULL);
  printf("%s: %s (%d)\n", when, status == GA_OK ? "went on" : ga_error_text(), (int)status);
  return status == GA_ERR_DEVICE;
}

int main(int argc, char **argv) {
  ga_ctx *ctx[MOST] = {0};
  ga_model *model;
  ga_session *session;
  ga_function *function;
  const int32_t nothing = 0;
  int32_t ids[TOKENS];
  if (argc < 3) {
    fprintf(stderr, "usage: lost MODEL DEVICES [PLACE]\n");
    return 2;
  }
  const int n = open_all(argv[2], ctx), place = argc > 3 ? atoi(argv[3]) : n - 1;
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  mo.more = ctx;
  mo.n_more = n - 1;
  need_ok(ga_model_load(ctx[n - 1], argv[1], &mo, &model), argv[1]);
  need_ok(ga_session_create(model, NULL, &session), "session");
  float *logits = malloc((size_t)ga_model_get_info(model)->vocab * sizeof *logits);
  if (!logits) return 2;
  for (int32_t i = 0; i < TOKENS; i++) ids[i] = 3 + i;
  need_ok(ga_session_eval(session, ids, TOKENS, logits, 1, NULL, NULL), "the first tokens");
  need_ok(ga_function_load(ctx[place], trap, "lost", &function), "the kernel");
  need_ok(ga_function_launch(function, &(ga_launch)GA_LAUNCH_INIT, &nothing, NULL), "its launch");
  const bool once = is_device_fault(session, ids, TOKENS, logits, "a prompt"),
             twice = is_device_fault(session, ids, 1, logits, "a token");
  ga_function_destroy(function);
  ga_session_destroy(session);
  ga_model_destroy(model);
  for (int i = 0; i < n; i++) ga_ctx_destroy(ctx[i]);
  free(logits);
  printf("closed\n");
  return !(once && twice);
}
