#include <string.h>

#include "core/device.h"
#include "tools/ga/cmd.h"

int cmd_kernels(int argc, char **argv) {
  const char *pattern = "*";
  bool json = false;
  const cmd_option options[] = {
      {"kernels", 'k', OPT_STRING, &pattern, 0, 0, "PATTERNS", "ids to list: comma-separated, with * and ?"},
      {"json", 0, OPT_FLAG, &json, 0, 0, NULL, "JSON on stdout"},
  };
  int code, rest = cmd_parse("kernels", "[options]", options, sizeof options / sizeof options[0], argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 0) return cmd_usage_error("kernels", "unexpected '%s'", argv[1]);
  size_t shown = 0;
  if (json) printf("[");
  for (size_t b = 0; b < ga_n_backends; b++) {
    size_t n;
    const ga_kernel *rows = ga_backends[b]->kernels(&n);
    for (size_t i = 0; i < n; i++) {
      const ga_kernel *k = &rows[i];
      if (!ga_pattern_match(pattern, k->id)) continue;
      if (json)
        printf("%s\n{\"id\":\"%s\",\"op\":\"%s\",\"backend\":\"%s\",\"arch\":\"%s\",\"source\":\"%s\",\"score\":%d}",
               shown ? "," : "", k->id, ga_op_name(k->op), ga_backends[b]->name, ga_arch_name(k->arch), k->source, k->score);
      else
        printf("%-44s %-8s %s\n", k->id, ga_arch_name(k->arch), k->source);
      shown++;
    }
  }
  if (json) printf("\n]\n");
  return EXIT_OK;
}
