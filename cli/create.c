/* ga create: a named model, by a Modelfile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/named.h"
#include "cli/open.h"
#include "cli/templates.h"
#include "cmdline/error.h"
#include "names/names.h"

typedef struct create_args {
  const char *file;
  bool force;
} create_args;

/* Checks the name of a new named model: -m must not take it for another model. Writes the path of its Modelfile. */
static ga_status check_named_name(const char *name, bool force, char *path, size_t capacity) {
  char dir[3072], other[4096];
  REQUIRE(named_is_name(name), GA_ERR_ARG,
          "'%.100s': the name must have 1 to 127 letters, digits and . _ - +, and begin with a letter or digit", name);
  for (const ga_known_model *k = ga_known_models; k->name; k++)
    REQUIRE(strcmp(k->name, name) && strcmp(k->file, name), GA_ERR_ARG, "%s is a model that ga pull knows", name);
  TRY(ga_models_folder(dir, sizeof dir));
  TRY(make_dirs(dir, 0777));
  (void)snprintf(other, sizeof other, "%s/%s", dir, name);
  REQUIRE(access(other, F_OK), GA_ERR_ARG, "%s is there, a model of this name", other);
  const int n = snprintf(path, capacity, "%s.modelfile", other);
  REQUIRE(n > 0 && (size_t)n < capacity, GA_ERR_IO, "%s: path too long", dir);
  REQUIRE(force || access(path, F_OK), GA_ERR_STATE, "there is a named model %s; --force replaces it", name);
  return GA_OK;
}

/* Returns whether the model's own files have a chat template. */
static ga_status has_own_template(const char *path, bool *has) {
  ga_model_file *file;
  TRY(ga_model_file_open(path, &file));
  *has = ga_model_file_meta(file, "tokenizer.chat_template") != NULL;
  ga_model_file_destroy(file);
  return GA_OK;
}

static ga_status check_template(const modelfile *m) {
  ga_template *tpl = NULL;
  char *source = NULL;
  if (!m->chat_template) return GA_OK;
  TRY(template_of_named(m->chat_template, &source));
  ga_status status = ga_template_compile(source, strlen(source), &tpl);
  ga_template_destroy(tpl);
  free(source);
  return status;
}

/* Checks that the model that it is made of can be opened, and that a system message has a template to stand in. */
static ga_status check_base(const char *name, const modelfile *m) {
  char path[4096];
  modelfile base;
  bool is_named, has_template = m->chat_template != NULL;
  REQUIRE(!named_reaches(m->from, name), GA_ERR_ARG, "%s cannot be made of itself: FROM %s", name, m->from);
  TRY(find_model(m->from, path, sizeof path));
  const ga_status status = named_find(m->from, &base, &is_named);
  has_template |= status == GA_OK && base.chat_template;
  modelfile_free(&base);
  TRY(status);
  bool has_own = false;
  TRY(has_own_template(path, &has_own));
  REQUIRE(!m->system || has_template || has_own, GA_ERR_ARG,
          "SYSTEM needs a chat template, and %s has none; add: TEMPLATE chatml", m->from);
  return GA_OK;
}

static ga_status write_modelfile(const modelfile *m, const char *path) {
  sv_text text = {0};
  modelfile_print(m, &text);
  const ga_status status = text.failed ? fail_nomem("Modelfile", text.n) : replace_file(path, text.p, text.n, 0644);
  sv_text_free(&text);
  return status;
}

static ga_status create_named(const char *name, const create_args *a) {
  char path[4096], *text = NULL;
  size_t bytes;
  modelfile m;
  TRY(check_named_name(name, a->force, path, sizeof path));
  TRY(read_text(a->file, &text, &bytes));
  ga_status status = modelfile_parse(text, bytes, strcmp(a->file, "-") ? a->file : "stdin", &m);
  if (status == GA_OK) status = named_settle_from(&m, a->file);
  if (status == GA_OK) status = check_template(&m);
  if (status == GA_OK) status = check_base(name, &m);
  if (status == GA_OK) status = write_modelfile(&m, path);
  modelfile_free(&m);
  free(text);
  if (status == GA_OK) printf("%s\n", path);
  return status;
}

int cmd_create(int argc, char **argv) {
  create_args a = {.file = "Modelfile"};
  const cmd_option options[] = {
      {"file", 'f', OPT_STRING, &a.file, 0, 0, "FILE",
       "the Modelfile: FROM, SYSTEM, TEMPLATE, PARAMETER, LICENSE; - is stdin"},
      {"force", 0, OPT_FLAG, &a.force, 0, 0, NULL, "replace a named model"},
  };
  int code, rest = cmd_parse("create", "[options] NAME", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest != 1) return cmd_usage_error("create", rest ? "one name" : "which name?");
  listen_for_interrupt();
  return create_named(argv[1], &a) == GA_OK ? EXIT_OK : cmd_fail("create");
}
