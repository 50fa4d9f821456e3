/* ga quantize: a model to another type or mixture of types. */
#include "cli/rewrite.h"
#include "cmdline/error.h"

int cmd_quantize(int argc, char **argv) {
  rewrite_args a = {.type = NULL};
  const cmd_option options[] = {
      {"imatrix", 'i', OPT_STRING, &a.importance, 0, 0, "FILE", "weigh errors by this importance matrix of ga imatrix"},
      {"pure", 0, OPT_FLAG, &a.pure, 0, 0, NULL,
       "one type for all matrices, that of the output head included; no mixture"},
      {"tensor-type", 0, OPT_LIST, &a.tensor_types, 0, 0, "NAME=TYPE",
       "a type for matrices of that name, before the mixture; NAME may have * and ?; may be given several times"},
      REWRITE_OPTIONS(a),
  };
  int code, rest = cmd_parse("quantize", "[options] IN OUT TYPE\nTYPE: " REWRITE_TYPES, options, COUNT_OF(options),
                             argc, argv, &code);
  if (rest < 0) return code;
  if (rest != 3) return cmd_usage_error("quantize", "needs IN, OUT and TYPE; %d given", rest);
  a.in = argv[1];
  a.out = argv[2];
  a.type = argv[3];
  return rewrite_model("quantize", &a);
}
