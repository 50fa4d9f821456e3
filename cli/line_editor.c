#include "cli/line_editor.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <histedit.h>

#include "cli/past_lines.h"
#include "cmdline/error.h"
#include "cmdline/interrupt.h"
#include "cmdline/terminal.h"

struct line_editor {
  EditLine *el;
  History *history;
  HistEvent event;
  const char *prompt;
  bool keep;
  mbstate_t partial; /* of a character whose bytes come one by one */
};

/* --- keys --- */

static volatile sig_atomic_t resized, continued;

static void on_resize(int number) {
  (void)number;
  resized = 1;
}

static void on_continue(int number) {
  (void)number;
  continued = 1;
}

/* Rows between the first one of what is typed and the cursor, after the terminal has wrapped it anew. */
static size_t rows_above(EditLine *el) {
  line_editor *e;
  (void)el_get(el, EL_CLIENTDATA, &e);
  const LineInfoW *line = el_wline(el);
  const size_t columns = terminal_columns(stdout);
  size_t rows = 0, at = strlen(e->prompt); /* ASCII */
  for (const wchar_t *p = line->buffer; p < line->cursor; p++) {
    const int w = wcwidth(*p);
    rows += *p == L'\n';
    at = *p == L'\n' ? 0 : at + (w > 0 ? (size_t)w : 0);
    if (at < columns) continue;
    rows++;
    at -= columns;
  }
  return rows;
}

/* libedit takes the place of the cursor for the begin of the line: it is brought there first. */
static void redraw(EditLine *el) {
  const size_t up = rows_above(el);
  if (up) printf("\033[%zuA", up);
  printf("\r\033[J");
  (void)fflush(stdout);
  if (resized) el_resize(el);
  if (continued) (void)el_set(el, EL_PREP_TERM, 1);
  resized = continued = 0;
  (void)el_set(el, EL_REFRESH);
}

/* Waits for a key. Signals come in while it waits and at no other moment, so that none is missed. */
static bool wait_for_key(EditLine *el) {
  sigset_t held, before;
  struct pollfd stdin_fd = {.fd = STDIN_FILENO, .events = POLLIN};
  bool ready = false;
  (void)sigemptyset(&held);
  (void)sigaddset(&held, SIGINT);
  (void)sigaddset(&held, SIGWINCH);
  (void)sigaddset(&held, SIGCONT);
  (void)sigprocmask(SIG_BLOCK, &held, &before);
  while (!ready && !interrupted()) {
    const int n = ppoll(&stdin_fd, 1, NULL, &before);
    ready = n > 0;
    if (n < 0 && errno != EINTR) break;
    if (resized || continued) redraw(el);
  }
  (void)sigprocmask(SIG_SETMASK, &before, NULL);
  return ready && !interrupted(); /* Ctrl-C empties the terminal's queue: a key that is there came behind it */
}

/* For libedit: 1 and a character, 0 at the end, -1 when there is none. What is no UTF-8 is left out. */
static int read_key(EditLine *el, wchar_t *key) {
  line_editor *e;
  char byte;
  (void)el_get(el, EL_CLIENTDATA, &e);
  for (;;) {
    if (!wait_for_key(el)) return -1;
    const ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n <= 0) return n == 0 ? 0 : -1;
    const size_t made = mbrtowc(key, &byte, 1, &e->partial);
    if (made == (size_t)-1) e->partial = (mbstate_t){0};
    if (made < (size_t)-2) return 1;
  }
}

#define PASTE_END L"\033[201~"

static bool ends_paste(const wchar_t *text, size_t n) {
  const size_t end = wcslen(PASTE_END);
  return n >= end && !wmemcmp(text + n - end, PASTE_END, end);
}

/* Newlines of any kind become one, tabs stay, other controls are left out: they would be taken for keys. */
static size_t clean_paste(wchar_t *text, size_t n) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (text[i] == L'\r' && i + 1 < n && text[i + 1] == L'\n') continue;
    if (text[i] == L'\r') text[i] = L'\n';
    if ((text[i] >= 0x20 && (text[i] < 0x7f || text[i] > 0x9f)) || text[i] == L'\n' || text[i] == L'\t')
      text[kept++] = text[i];
  }
  while (kept && text[kept - 1] == L'\n') kept--;
  text[kept] = 0;
  return kept;
}

/* Behind the mark that a paste begins. Where memory runs out the rest of it is read all the same, and nothing is taken:
 * it would count as keys, and each newline as Enter. */
static unsigned char on_paste(EditLine *el, int key) {
  wchar_t few[16], *text = few, *more = NULL;
  size_t n = 0, room = COUNT_OF(few);
  bool lost = false;
  (void)key;
  while (!ends_paste(text, n)) {
    if (n + 1 == room) {
      wchar_t *bigger = lost ? NULL : realloc(more, 2 * room * sizeof *text);
      if (bigger && !more) wmemcpy(bigger, text, n);
      if (!bigger) {
        lost = true;
        wmemmove(text, text + n - 5, 5); /* the end may have begun */
        n = 5;
      } else {
        text = more = bigger;
        room *= 2;
      }
    }
    if (read_key(el, &text[n]) != 1) {
      free(more);
      return CC_EOF;
    }
    n++;
  }
  n = lost ? 0 : clean_paste(text, n - wcslen(PASTE_END));
  const bool good = !lost && (!n || !el_winsertstr(el, text));
  free(more);
  return good ? CC_REFRESH : CC_ERROR;
}

/* --- the editor --- */

static char *editor_prompt(EditLine *el) {
  line_editor *e;
  (void)el_get(el, EL_CLIENTDATA, &e);
  return (char *)(uintptr_t)e->prompt;
}

static void bind_keys(EditLine *el) {
  static const char *const keys[][2] = {
      {"\\e[200~", "ga-paste"},          {"^R", "em-inc-search-prev"}, {"^W", "ed-delete-prev-word"},
      {"\\e[3~", "ed-delete-next-char"}, {"\\e[1~", "ed-move-to-beg"}, {"\\e[4~", "ed-move-to-end"},
      {"\\e[7~", "ed-move-to-beg"},      {"\\e[8~", "ed-move-to-end"}, {"\\e[H", "ed-move-to-beg"},
      {"\\e[F", "ed-move-to-end"},       {"\\e[1;5C", "em-next-word"}, {"\\e[1;5D", "ed-prev-word"},
  };
  (void)el_wset(el, EL_ADDFN, L"ga-paste", L"Insert pasted text", on_paste); /* el_set leaks copies of both */
  for (size_t i = 0; i < COUNT_OF(keys); i++) (void)el_set(el, EL_BIND, keys[i][0], keys[i][1], NULL);
}

static void enter_line(void *user, const char *line) {
  line_editor *e = user;
  (void)history(e->history, &e->event, H_ENTER, line);
}

ga_status line_editor_create(bool keep_history, line_editor **out) {
  line_editor *e = calloc(1, sizeof *e);
  *out = e;
  if (!e) return fail_nomem("line editor", sizeof *e);
  (void)setlocale(LC_CTYPE, ""); /* how wide what is typed is; numbers stay as they are */
  if (MB_CUR_MAX < 4) (void)setlocale(LC_CTYPE, "C.UTF-8");
  e->prompt = "> ";
  e->history = history_init();
  e->el = e->history ? el_init("ga", stdin, stdout, stderr) : NULL;
  if (!e->el) {
    line_editor_destroy(e);
    *out = NULL;
    return fail_nomem("line editor", 0);
  }
  (void)el_set(e->el, EL_CLIENTDATA, e);
  (void)el_set(e->el, EL_PROMPT, editor_prompt);
  (void)el_set(e->el, EL_EDITOR, "emacs");
  (void)el_set(e->el, EL_SIGNAL, 0);
  (void)el_set(e->el, EL_GETCFN, read_key);
  (void)history(e->history, &e->event, H_SETSIZE, PAST_LINES_MOST);
  (void)history(e->history, &e->event, H_SETUNIQUE, 1);
  (void)el_set(e->el, EL_HIST, history, e->history);
  bind_keys(e->el);
  (void)el_source(e->el, NULL); /* ~/.editrc */
  /* A write that waits for the terminal goes on; ppoll returns all the same. */
  struct sigaction resize = {.sa_handler = on_resize, .sa_flags = SA_RESTART},
                   go_on = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
  (void)sigaction(SIGWINCH, &resize, NULL);
  (void)sigaction(SIGCONT, &go_on, NULL);
  e->keep = keep_history && past_lines_load(enter_line, e);
  return GA_OK;
}

void line_editor_destroy(line_editor *e) {
  if (!e) return;
  if (e->el) el_end(e->el);
  if (e->history) history_end(e->history);
  free(e);
}

char *line_editor_read(line_editor *e, const char *prompt) {
  int n = 0;
  e->prompt = prompt;
  e->partial = (mbstate_t){0};
  (void)fflush(stdout);
  const char *line = el_gets(e->el, &n);
  terminal_quiet(); /* libedit leaves it as it was found */
  if (!line || n <= 0 || interrupted()) return NULL;
  size_t bytes = strlen(line);
  if (bytes && line[bytes - 1] == '\n') bytes--;
  return strndup(line, bytes);
}

void line_editor_remember(line_editor *e, const char *text) {
  enter_line(e, text);
  if (e->keep) e->keep = past_lines_add(text);
}
