/* Links: a collective's messages between GPUs, by an exchange. */
#include "base/mem.h"
#include "base/status.h"
#include "comm/exchange.h"
#include "core/comm_port.h"
#include "core/ctx.h"
#include "ga/collective.h"

struct ga_links {
  comm_port port; /* first: rows of the table see this alone */
  dist_exchange *exchange;
};

static ga_status run_over_links(comm_port *port, ga_stream *stream, int64_t n) {
  const ga_links *l = (const ga_links *)(void *)port;
  const ga_status status = dist_exchange_run(l->exchange, stream, port->messages, n);
  if (status == GA_OK) return GA_OK;
  port->comm->calls->abort(port->comm, status, ga_error_text());
  dist_exchange_abort(l->exchange);
  return status;
}

static ga_status open_links(ga_links *l, ga_comm *comm, ga_ctx *ctx, const char *copies) {
  void *p;
  dist_copies kind;
  l->port = (comm_port){.comm = comm, .run = run_over_links};
  GA_REQUIRE(!ga_device_in_host_memory(ctx->device), GA_ERR_UNSUPPORTED, "links: %s needs none", ctx->device->name);
  GA_TRY(dist_copies_wanted(comm, ctx->device, copies, &kind));
  GA_REQUIRE(kind == DIST_COPIES_HOST || kind == DIST_COPIES_LINK, GA_ERR_ARG,
             "links: copies is '%s'; must be host, or the name of a library", dist_copies_name(ctx->device, kind));
  GA_TRY(ga_mem_zalloc((size_t)comm->size, sizeof *l->port.calls, "ranks", &p));
  l->port.calls = p;
  GA_TRY(ga_mem_zalloc(2 * (size_t)comm->size, sizeof *l->port.messages, "messages", &p));
  l->port.messages = p;
  return dist_exchange_create(ctx, comm, kind, NULL, &l->exchange);
}

ga_status ga_links_create(ga_comm *comm, ga_ctx *ctx, const char *copies, ga_links **out) {
  void *p;
  GA_REQUIRE(out, GA_ERR_ARG, "links: out is null");
  *out = NULL;
  GA_REQUIRE(comm && ctx && copies, GA_ERR_ARG, "links: %s is null", !comm ? "comm" : !ctx ? "ctx" : "copies");
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_links), "links", &p));
  ga_links *l = p;
  const ga_status status = open_links(l, comm, ctx, copies);
  if (status == GA_OK) {
    *out = l;
    return GA_OK;
  }
  comm->calls->abort(comm, status, ga_error_text()); /* the others wait for this rank */
  ga_links_destroy(l);
  return status;
}

void ga_links_destroy(ga_links *links) {
  if (!links) return;
  dist_exchange_destroy(links->exchange);
  ga_mem_free(links->port.calls);
  ga_mem_free(links->port.messages);
  ga_mem_free(links);
}
