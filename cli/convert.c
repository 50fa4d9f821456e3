/* ga convert: a folder of safetensors, as Hugging Face lays it out, to one GGUF file. */
#include "cli/rewrite.h"
#include "cmdline/error.h"

int cmd_convert(int argc, char **argv) {
  rewrite_args a = {.type = "copy"};
  const cmd_option options[] = {
      {"type", 0, OPT_STRING, &a.type, 0, 0, "TYPE", REWRITE_TYPES ": as in the folder"},
      REWRITE_OPTIONS(a),
  };
  int code, rest = cmd_parse("convert", "[options] FOLDER OUT", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest != 2) return cmd_usage_error("convert", "needs FOLDER and OUT; %d given", rest);
  a.in = argv[1];
  a.out = argv[2];
  return rewrite_model("convert", &a);
}
