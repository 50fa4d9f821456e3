#include "cli/batch_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cmdline/error.h"
#include "text/json_io.h"

/* --- sets of ids --- */

static ga_status ids_add(batch_ids *ids, const char *id, int64_t number) {
  if (ids->n == ids->room) {
    const size_t room = ids->room ? ids->room * 2 : 256;
    batch_id *bigger = realloc(ids->id, room * sizeof *bigger);
    if (!bigger) return fail_nomem("batch", room * sizeof *bigger);
    ids->id = bigger;
    ids->room = room;
  }
  ids->id[ids->n] = (batch_id){strdup(id), number};
  if (!ids->id[ids->n].text) return fail_nomem("batch", strlen(id));
  ids->n++;
  return GA_OK;
}

static int ids_compare(const void *a, const void *b) {
  return strcmp(((const batch_id *)a)->text, ((const batch_id *)b)->text);
}

static void ids_sort(batch_ids *ids) {
  if (ids->n) qsort(ids->id, ids->n, sizeof *ids->id, ids_compare);
}

static void ids_free(batch_ids *ids) {
  for (size_t i = 0; i < ids->n; i++) free(ids->id[i].text);
  free(ids->id);
  *ids = (batch_ids){0};
}

/* --- the input --- */

ga_status batch_in_open(const char *path, batch_in *in) {
  struct stat st;
  *in = (batch_in){.path = path};
  REQUIRE(stat(path, &st) || S_ISREG(st.st_mode), GA_ERR_ARG,
          "%s is no regular file; the requests must be one, which is read twice", path);
  in->file = fopen(path, "r");
  REQUIRE(in->file, GA_ERR_IO, "%s: %s", path, strerror(errno));
  return GA_OK;
}

void batch_in_close(batch_in *in) {
  if (in->file) (void)fclose(in->file);
  free(in->text);
  *in = (batch_in){0};
}

void batch_line_free(batch_line *line) {
  json_decref(line->json);
  *line = (batch_line){0};
}

/* NULL: it is no text, or holds a NUL. */
static const char *text_of(const json_t *json, const char *key) {
  const json_t *v = json_object_get(json, key);
  const char *text = json_string_value(v);
  return text && strlen(text) == json_string_length(v) ? text : NULL;
}

static ga_status take_line(const batch_in *in, json_t *json, batch_line *line) {
  *line = (batch_line){.json = json, .number = in->number};
  line->custom_id = text_of(json, "custom_id");
  line->method = text_of(json, "method");
  line->url = text_of(json, "url");
  line->body = json_object_get(json, "body");
  REQUIRE(json_is_object(json), GA_ERR_FORMAT, "%s, line %lld: it must be a JSON object", in->path,
          (long long)in->number);
  REQUIRE(line->custom_id && *line->custom_id, GA_ERR_FORMAT,
          "%s, line %lld: custom_id must be a text without NUL that is not empty", in->path, (long long)in->number);
  REQUIRE(line->method && !strcmp(line->method, "POST"), GA_ERR_FORMAT, "%s, line %lld: method must be \"POST\"",
          in->path, (long long)in->number);
  REQUIRE(line->url && !strncmp(line->url, "/v1/", 4), GA_ERR_FORMAT,
          "%s, line %lld: url must be a path such as \"/v1/chat/completions\"", in->path, (long long)in->number);
  REQUIRE(json_is_object(line->body), GA_ERR_FORMAT, "%s, line %lld: body must be an object", in->path,
          (long long)in->number);
  REQUIRE(!json_is_true(json_object_get(line->body, "stream")), GA_ERR_FORMAT,
          "%s, line %lld: stream is true; answers of a batch are whole", in->path, (long long)in->number);
  return GA_OK;
}

static ga_status next_request(batch_in *in, batch_line *line) {
  json_error_t error;
  ssize_t n;
  *line = (batch_line){0};
  do {
    errno = 0;
    n = getline(&in->text, &in->room, in->file);
    in->number++;
    if (n < 0) {
      REQUIRE(!ferror(in->file), GA_ERR_IO, "%s: %s", in->path, strerror(errno));
      return GA_OK;
    }
  } while (strspn(in->text, " \t\r\n") == (size_t)n);
  json_t *json = ga_json_load(in->text, (size_t)n, GA_JSON_PYTHON, &error);
  const bool no_memory = !json && json_error_code(&error) == json_error_out_of_memory;
  REQUIRE(json, no_memory ? GA_ERR_NOMEM : GA_ERR_FORMAT, "%s, line %lld: %s", in->path, (long long)in->number,
          error.text);
  const ga_status status = take_line(in, json, line);
  if (status != GA_OK) batch_line_free(line);
  return status;
}

ga_status batch_in_next(batch_in *in, batch_line *line) {
  for (;;) {
    const ga_status status = next_request(in, line);
    if (status != GA_ERR_FORMAT || !in->skips_malformed) return status;
    in->n_skipped++;
    if (in->skipped) in->skipped(ga_error_text());
  }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static ga_status check_duplicates(const char *path, batch_ids *ids) {
  ids_sort(ids);
  for (size_t i = 1; i < ids->n; i++)
    REQUIRE(strcmp(ids->id[i - 1].text, ids->id[i].text), GA_ERR_FORMAT,
            "%s: two lines have the custom_id \"%.80s\": %lld and %lld", path, ids->id[i].text,
            (long long)least(ids->id[i - 1].number, ids->id[i].number),
            (long long)most(ids->id[i - 1].number, ids->id[i].number));
  return GA_OK;
}

ga_status batch_in_check(batch_in *in, int64_t *n_lines) {
  batch_ids ids = {0};
  batch_line line = {0};
  *n_lines = 0;
  ga_status status = GA_OK;
  while (status == GA_OK && (status = batch_in_next(in, &line)) == GA_OK && line.json) {
    status = ids_add(&ids, line.custom_id, line.number);
    ++*n_lines;
    batch_line_free(&line);
  }
  if (status == GA_OK) status = check_duplicates(in->path, &ids);
  ids_free(&ids);
  rewind(in->file);
  in->number = 0;
  in->skipped = NULL; /* told once */
  return status;
}

/* --- the output --- */

/* The answers that are there; *whole: bytes of whole lines. */
static ga_status read_done(batch_out *out, off_t *whole) {
  char *text = NULL;
  size_t room = 0;
  ssize_t n;
  ga_status status = GA_OK;
  *whole = 0;
  errno = 0;
  for (int64_t number = 1; status == GA_OK && (n = getline(&text, &room, out->file)) > 0; number++) {
    if (text[n - 1] != '\n') break; /* the program was killed while it wrote */
    json_error_t error;
    json_t *json = ga_json_load(text, (size_t)n, GA_JSON_PYTHON, &error);
    const char *id = text_of(json, "custom_id");
    if (id)
      status = ids_add(&out->done, id, number);
    else if (!json && json_error_code(&error) == json_error_out_of_memory)
      status = fail_nomem("an answer of a batch", (size_t)n);
    else
      status = ga_error_set(GA_ERR_FORMAT, "%s, line %lld: it is no answer of a batch; nothing was written", out->path,
                            (long long)number);
    json_decref(json);
    *whole += n;
    errno = 0;
  }
  const int why = errno;
  if (status == GA_OK && !feof(out->file) && (why || ferror(out->file))) /* what lies behind is not to be cut off */
    status = ga_error_set(GA_ERR_IO, "%s: %s", out->path, strerror(why ? why : EIO));
  free(text);
  return status;
}

ga_status batch_out_check(const char *path, const batch_in *in) {
  struct stat from, to;
  if (stat(path, &to)) return GA_OK; /* it is not there; its folder is another matter */
  REQUIRE(S_ISREG(to.st_mode), GA_ERR_ARG, "%s is no regular file; the answers must be one, which is read first", path);
  REQUIRE(!fstat(fileno(in->file), &from), GA_ERR_IO, "%s: %s", in->path, strerror(errno));
  REQUIRE(from.st_dev != to.st_dev || from.st_ino != to.st_ino, GA_ERR_ARG,
          "%s is the file of requests; give the answers another name", path);
  return GA_OK;
}

ga_status batch_out_open(const char *path, batch_out *out) {
  off_t whole = 0;
  *out = (batch_out){.path = path, .file = fopen(path, "a+")};
  REQUIRE(out->file, GA_ERR_IO, "%s: %s", path, strerror(errno));
  ga_status status = GA_OK;
  if (flock(fileno(out->file), LOCK_EX | LOCK_NB))
    status = ga_error_set(GA_ERR_IO, "%s: another program writes it", path);
  rewind(out->file);
  if (status == GA_OK) status = read_done(out, &whole);
  if (status == GA_OK && ftruncate(fileno(out->file), whole))
    status = ga_error_set(GA_ERR_IO, "%s: %s", path, strerror(errno));
  ids_sort(&out->done);
  if (status != GA_OK) batch_out_close(out);
  return status;
}

bool batch_out_has(const batch_out *out, const char *custom_id) {
  const batch_id wanted = {.text = (char *)(uintptr_t)custom_id};
  return out->done.n && bsearch(&wanted, out->done.id, out->done.n, sizeof *out->done.id, ids_compare) != NULL;
}

/* {"id":...,"custom_id":...,"response":{...},"error":null} and a newline, malloc'd. */
static char *answer_text(const batch_line *line, long http, const char *body, size_t bytes) {
  json_error_t error;
  json_t *answer = ga_json_load(body, bytes, GA_JSON_PYTHON, &error), *id = json_object_get(answer, "id");
  if (!answer && json_error_code(&error) == json_error_out_of_memory) return NULL;
  if (!answer) answer = cmd_json_text(body, bytes);
  const char *name = json_is_string(id) ? json_string_value(id) : line->custom_id;
  json_t *all = json_pack("{s:s+, s:s, s:{s:i, s:s, s:o}, s:n}", "id", "batch_req_", name, "custom_id", line->custom_id,
                          "response", "status_code", (int)http, "request_id", name, "body", answer, "error");
  char *text = all ? ga_json_dump(all, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  json_decref(all);
  return text;
}

ga_status batch_out_put(batch_out *out, const batch_line *line, long http, const char *body, size_t bytes) {
  char *text = answer_text(line, http, body, bytes);
  if (!text) return fail_nomem("answer", bytes);
  const bool written = fprintf(out->file, "%s\n", text) > 0 && !fflush(out->file);
  free(text);
  REQUIRE(written, GA_ERR_IO, "%s: %s", out->path, strerror(errno));
  return GA_OK;
}

void batch_out_close(batch_out *out) {
  if (out->file) (void)fclose(out->file);
  ids_free(&out->done);
  *out = (batch_out){0};
}
