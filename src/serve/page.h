/* The chat page: the files of src/serve/page, embedded into the program by tools/embed_page.py. Link ga_page. */
#ifndef GA_SERVE_PAGE_H
#define GA_SERVE_PAGE_H

#include <stddef.h>

typedef struct page_file {
  const char *path; /* path in the request: "/", "/app.js", ... */
  const char *type; /* value of the Content-Type header */
  const unsigned char *bytes;
  size_t size;
} page_file;

extern const page_file page_files[];
extern const size_t n_page_files;

/* Content-Security-Policy to send with each file: scripts and styles are files of the server, and the page connects to
 * no other host. Its icon is a data URL. */
#define PAGE_CSP                                                                                        \
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " \
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

#endif
