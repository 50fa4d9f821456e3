/* ga kernels: the table, and which of its rows this machine can run. */
#include <string.h>

#include "cmdline/cmd.h"
#include "core/ctx.h"
#include "opdef/attn.h"
#include "opdef/gemm.h"
#include "verify/verify.h"

typedef enum form { AS_TEXT, AS_JSON, AS_MARKDOWN } form;

/* The backend's default device; NULL when it does not open here. */
static ga_device *device_here(const ga_backend *backend) {
  ga_device *device;
  return backend->open("", 1, &device) == GA_OK ? device : NULL;
}

static const char *flags_of(const ga_kernel *k) {
  static const struct {
    ga_op op; /* -1: the bit is of ga_kernel.flags, else of op_flags of this op's rows */
    uint32_t bit;
    const char *text;
  } names[] = {{-1, GA_KERNEL_NONDET, " nondet"},
               {-1, GA_KERNEL_TEACHING, " teaching"},
               {-1, GA_KERNEL_STEP, " step"},
               {GA_OP_gemm, GA_GEMM_ROW_Q8_ACT, " q8-activations"},
               {GA_OP_gemm, GA_GEMM_ROW_Q15_ACT, " q15-activations"},
               {GA_OP_gemm, GA_GEMM_ROW_BF16, " bf16"},
               {GA_OP_attn, GA_ATTN_ROW_V_FINITE, " v-finite"},
               {-1, GA_KERNEL_TENSOR, " tensor-core"},
               {GA_OP_gemm, GA_GEMM_ROW_F16, " f16"},
               {GA_OP_gemm, GA_GEMM_ROW_FLUSH, " flush"}};
  static char text[64];
  text[0] = 0;
  for (size_t i = 0; i < GA_COUNT_OF(names); i++)
    if (names[i].bit & (names[i].op < 0 ? k->flags : names[i].op == k->op ? k->op_flags : 0))
      (void)strncat(text, names[i].text, sizeof text - strlen(text) - 1);
  return text[0] ? text + 1 : "";
}

static void print_row(form as, const char *backend, const ga_kernel *k, bool here, bool first) {
  switch (as) {
  case AS_TEXT: printf("%c %-44s %-8s %s\n", here ? '*' : ' ', k->id, ga_isa_name(k->isa), k->source); break;
  case AS_JSON:
    printf("%s\n{\"id\":\"%s\",\"op\":\"%s\",\"backend\":\"%s\",\"arch\":\"%s\",\"source\":\"%s\",\"speed\":%d,"
           "\"here\":%s}",
           first ? "" : ",", k->id, ga_op_name(k->op), backend, ga_isa_name(k->isa), k->source, k->speed,
           here ? "true" : "false");
    break;
  case AS_MARKDOWN:
    printf("| `%s` | %s | %d | %g | %s | [%s](../../%s) |\n", k->id, ga_isa_name(k->isa), k->speed, k->tolerance,
           flags_of(k), strrchr(k->source, '/') + 1, k->source);
    break;
  }
}

static void open_list(form as) {
  if (as == AS_JSON) printf("[");
  if (as != AS_MARKDOWN) return;
  printf(
      "# Kernels\n\n"
      "Made by `ga kernels --markdown > docs/reference/kernels.md` from the table of kernels; do not edit.\n\n"
      "*needs*: instruction set. *speed*: per cent of the rates that predictions assume; of the legal rows the one "
      "with the least predicted time is chosen. *error*: allowed, "
      "as a\n"
      "multiple of that of a plain evaluation in the same types (`ga check`).\n"
      "*v-finite*: see ga/attn.h on infinities in V. *tensor-core*: sums of products round toward zero, in the plain "
      "evaluation too.\n");
}

static size_t print_backend(form as, const ga_backend *backend, const char *pattern, size_t shown) {
  size_t n;
  const ga_kernel *rows = backend->kernels(&n);
  ga_device *device = as == AS_MARKDOWN ? NULL : device_here(backend);
  if (as == AS_MARKDOWN)
    printf("\n## %s\n\n| id | needs | speed | error | flags | source |\n|---|---|---|---|---|---|\n", backend->name);
  for (size_t i = 0; i < n; i++)
    if (ga_pattern_match(pattern, rows[i].id))
      print_row(as, backend->name, &rows[i], device && ga_device_runs(device, &rows[i]), shown++ == 0);
  if (device) device->ops->destroy(device);
  return shown;
}

int cmd_kernels(int argc, char **argv) {
  const char *pattern = "*";
  bool json = false, markdown = false;
  const cmd_option options[] = {
      {"kernels", 'k', OPT_STRING, &pattern, 0, 0, "PATTERNS", "ids to list: comma-separated, with * and ?"},
      {"json", 0, OPT_FLAG, &json, 0, 0, NULL, "JSON on stdout"},
      {"markdown", 0, OPT_FLAG, &markdown, 0, 0, NULL, "the text of docs/reference/kernels.md"},
  };
  int code, rest = cmd_parse("kernels", "[options]", options, GA_COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 0) return cmd_usage_error("kernels", "unexpected '%s'", argv[1]);
  form as = json ? AS_JSON : markdown ? AS_MARKDOWN : AS_TEXT;
  size_t shown = 0;
  open_list(as);
  for (size_t b = 0; b < ga_n_backends; b++) shown = print_backend(as, ga_backends[b], pattern, shown);
  if (as == AS_JSON) printf("\n]\n");
  if (as == AS_TEXT) printf("%zu kernels; * runs on this machine\n", shown);
  return EXIT_OK;
}
