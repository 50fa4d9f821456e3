/* The sizes of the library's public structs, for tests/peers_structs.py. */
#include <stdio.h>

#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "ga/attn_quant.h"
#include "ga/ctx.h"
#include "ga/gemm.h"

#define SIZE(type) printf(#type " %zu\n", sizeof(type))

int main(void) {
  SIZE(ga_ctx_options);
  SIZE(ga_attn_desc);
  SIZE(ga_attn_io);
  SIZE(ga_attn_bwd_desc);
  SIZE(ga_attn_bwd_io);
  SIZE(ga_attn_quant_desc);
  SIZE(ga_attn_quant_io);
  SIZE(ga_gemm_desc);
  SIZE(ga_gemm_io);
  SIZE(ga_pack_desc);
  return 0;
}
