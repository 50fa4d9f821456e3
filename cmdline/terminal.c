#include "cmdline/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cmdline/interrupt.h"

/* Bytes of a control character at s, 0 for all else. C1 is U+0080 to U+009F: C2 80 to C2 9F. */
static size_t control_bytes(const unsigned char *s, size_t n) {
  if (s[0] == '\n' || s[0] == '\t') return 0;
  if (s[0] < 0x20 || s[0] == 0x7f) return 1;
  return s[0] == 0xc2 && n > 1 && s[1] >= 0x80 && s[1] <= 0x9f ? 2 : 0;
}

static bool write_filtered(FILE *out, const unsigned char *s, size_t n) {
  size_t from = 0; /* of what is still to be written */
  for (size_t at = 0; at < n;) {
    const size_t control = control_bytes(s + at, n - at);
    if (control && at > from && fwrite(s + from, 1, at - from, out) != at - from) return false;
    at += control ? control : 1;
    if (control) from = at;
  }
  return from == n || fwrite(s + from, 1, n - from, out) == n - from;
}

bool terminal_write(FILE *out, const char *text, size_t bytes) {
  const bool written = isatty(fileno(out)) ? write_filtered(out, (const unsigned char *)text, bytes)
                                           : fwrite(text, 1, bytes, out) == bytes;
  return fflush(out) == 0 && written;
}

size_t terminal_columns(FILE *out) {
  struct winsize size;
  return ioctl(fileno(out), TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

bool terminal_has_colour(void) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return !(no && *no) && term && *term && strcmp(term, "dumb") != 0;
}

/* --- modes --- */

#define PASTE_ON  "\033[?2004h" /* xterm control sequences, bracketed paste mode */
#define PASTE_OFF "\033[?2004l"

static struct termios found; /* at terminal_enter */
static volatile sig_atomic_t entered;

static void write_mode(const char *sequence) {
  if (write(STDOUT_FILENO, sequence, strlen(sequence)) < 0) return; /* there is nothing else to be done */
}

/* Safe in a signal handler: tcsetattr and write are. */
void terminal_leave(void) {
  if (!entered) return;
  entered = 0;
  (void)tcsetattr(STDIN_FILENO, TCSANOW, &found);
  write_mode(PASTE_OFF);
}

static void on_end(int number) {
  terminal_leave();
  (void)signal(number, SIG_DFL);
  (void)raise(number);
}

/* Ctrl-Z, and behind it `fg`: the shell gets the terminal as it was found, and what a conversation needs is there again
 * when it goes on. In the background tcsetattr stops it again (SIGTTOU), until it has the terminal. */
static void on_suspend(int number) {
  struct sigaction action = {.sa_handler = on_suspend, .sa_flags = SA_RESTART | SA_NODEFER};
  struct termios now;
  const bool modes = entered && !tcgetattr(STDIN_FILENO, &now);
  const int before = errno;
  terminal_leave();
  (void)signal(number, SIG_DFL);
  (void)raise(number); /* returns when it goes on, at once where no shell controls jobs */
  (void)sigaction(number, &action, NULL);
  if (modes && !tcsetattr(STDIN_FILENO, TCSANOW, &now)) {
    entered = 1;
    write_mode(PASTE_ON);
  }
  errno = before;
}

void terminal_quiet(void) {
  struct termios quiet = found;
  if (!entered) return;
  quiet.c_lflag &= ~(tcflag_t)(ECHO | ICANON); /* Ctrl-C goes on to be one */
  quiet.c_cc[VMIN] = 1;
  quiet.c_cc[VTIME] = 0;
  (void)tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
}

void terminal_enter(void) {
  if (tcgetattr(STDIN_FILENO, &found)) return;
  entered = 1;
  interrupt_cleanup(terminal_leave);
  struct sigaction action = {.sa_handler = on_end},
                   stop = {.sa_handler = on_suspend, .sa_flags = SA_RESTART | SA_NODEFER}, old;
  (void)sigaction(SIGTERM, &action, NULL);
  (void)sigaction(SIGHUP, &action, NULL);
  (void)sigaction(SIGQUIT, &action, NULL);
  if (!sigaction(SIGTSTP, NULL, &old) && old.sa_handler != SIG_IGN) (void)sigaction(SIGTSTP, &stop, NULL);
  terminal_quiet();
  (void)fputs(PASTE_ON, stdout);
  (void)fflush(stdout);
}
