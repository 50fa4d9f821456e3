/* Tokens of fill-in-the-middle (Bavarian and others, arXiv 2207.14255), by the names that published models give them.
 * Files often do not say which ids they are. */
#include "base/status.h"
#include "token/tok_vocab.h"

enum { NAMES = 7, FIM_TOKENS = GA_TOK_FIM_FILE - GA_TOK_FIM_PREFIX + 1 };

#define DEEPSEEK(name) "<\xEF\xBD\x9C" name "\xEF\xBD\x9C>"
#define BLOCK          "\xE2\x96\x81" /* U+2581 */

/* Qwen, StarCoder, Granite and others, DeepSeek, CodeLlama, GLM. */
static const char *const fim_names[FIM_TOKENS][NAMES] = {
    {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", DEEPSEEK("fim" BLOCK "begin"), BLOCK "<PRE>", "<PRE>",
     "<|code_prefix|>"},
    {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", DEEPSEEK("fim" BLOCK "hole"), BLOCK "<SUF>", "<SUF>",
     "<|code_suffix|>"},
    {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", DEEPSEEK("fim" BLOCK "end"), BLOCK "<MID>", "<MID>",
     "<|code_middle|>"},
    {"<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<PAD>"},
    {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<reponame>", "<repo_name>", "<REPO>"},
    {"<|file_sep|>", "<file_sep>"},
};

/* A word that text can make is no such token. */
static int32_t find_apart(const ga_tokenizer *tok, const char *name) {
  const int32_t id = ga_tokenizer_find(tok, name, strlen(name));
  const bool apart = id >= 0 && (tok->type[id] == GA_TOK_CONTROL || tok->type[id] == GA_TOK_USER);
  return apart ? id : GA_TOK_NONE;
}

ga_status tok_build_fim(ga_tokenizer *tok, const ga_vocab *vocab) {
  for (int i = 0; i < FIM_TOKENS; i++) {
    int32_t id = vocab->fim ? vocab->fim[i] : GA_TOK_NONE;
    GA_REQUIRE(id >= GA_TOK_NONE && id < tok->n_tokens, GA_ERR_ARG, "tokenizer: fim[%d] is %d; must be -1 or below %d",
               i, id, tok->n_tokens);
    for (int k = 0; id < 0 && k < NAMES && fim_names[i][k]; k++) id = find_apart(tok, fim_names[i][k]);
    tok->special[GA_TOK_FIM_PREFIX + i] = id;
  }
  return GA_OK;
}
