/* The chat page: the files of src/serve/page, which tools/embed_page.py embeds into the program. Users of this header
 * link the library ga_page. */
#ifndef GA_SERVE_PAGE_H
#define GA_SERVE_PAGE_H

#include <stddef.h>

typedef struct page_file {
  const char *path; /* path of the file in a request: "/", "/app.js", ... */
  const char *type; /* value of the Content-Type header */
  const unsigned char *bytes;
  size_t size;
} page_file;

extern const page_file page_files[];
extern const size_t n_page_files;

/* Value of the header Content-Security-Policy, which is sent with each file of the page. Scripts and styles are files
 * of the server, and the page connects to no other host. Its icon is a data URL. */
#define PAGE_CSP                                                                                        \
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " \
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

#endif
