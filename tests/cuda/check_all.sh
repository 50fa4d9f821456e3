#!/bin/sh
# Every CUDA row on one GPU: `ga check` in several processes, each with a seed of its own, then launches of large draws compared with each other,
# then compute-sanitizer on edge shapes.
#   check_all.sh GA FOLDER [SECONDS] [SEED]     logs go to FOLDER; each process gets SECONDS (110); exit 1 when anything failed
# Groups are of like cost: the oracles take the time, on the CPU (16 cores: 110 s give 26 000 draws).
set -u
ga=$1 out=$2 seconds=${3:-110} seed=${4:-1}
mkdir -p "$out"

check() { # name, patterns, draws
  seed=$((seed + 1))
  timeout "$seconds" "$ga" check --device cuda:0 -k "$2" -n "$3" -s $seed > "$out/$1" 2>&1 &
}

stress() { # name, patterns, draws
  seed=$((seed + 1))
  timeout "$seconds" "$ga" check --device cuda:0 -k "$2" -n "$3" -s $seed --stress 200 > "$out/stress_$1" 2>&1 &
}

watch() { # name, tool, patterns, draws
  timeout "$seconds" compute-sanitizer --tool "$2" "$ga" check --device cuda:0 -k "$3" -n "$4" -s $seed > "$out/$1" 2>&1 &
}

short='attn_fwd*_short_kv,attn_fwd*_one_tile,attn_fwd*_pipelined'
check short "$short" 300
check fwd_a 'attn_fwd_bf16_d6*,attn_fwd_bf16_d9*,attn_fwd_bf16_d12*' 100
check fwd_b 'attn_fwd_bf16_d19*,attn_fwd_bf16_d25*,attn_fwd_f16*' 80
check fwd_stretch 'attn_fwd_stretch_*' 100
check fwd_ext_a 'attn_fwd_ext_*' 60
check fwd_ext_b 'attn_fwd_ext_*' 60
check bwd_a 'attn_bwd_bf16*,attn_bwd_f16*,attn_bwd_f32*' 60
check bwd_b 'attn_bwd_ext_*,attn_bwd*_d256*,attn_bwd*_d192*' 80
check fp8 'attn_fp8*,attn_i8*,attn_quant*' 40
check decode 'attn*decode*,attn*prefill*,attn_ladder*' 80
check split_int8 'gemm_*_split_int8_*,pack*' 150
check split_bf16 'gemm_*_split_bf16_*' 150
check prefill 'gemm_*_mma_packed_*,gemm_*_prefill_*,gemm_*_ordered_*,gemm_*_few_*' 100
check expert 'expert_gemm_*' 60
check mla 'mla*' 60
check gemm 'gemm_bf16*,gemm_f16*,gemm_e4m3*,gemm_any_native*,convert*' 100
check layer 'norm*,rope*,kv_store*,softmax*,attn_merge*,clear_padding*,sample*,route*,act*,add*,embed*,all_*,send_recv*,reduce_scatter*' 150
wait
stress short "$short" 20
stress fwd 'attn_fwd_bf16*,attn_fwd_f16*' 8
stress fwd_ext 'attn_fwd_ext_*' 12
stress bwd 'attn_bwd*' 8
stress fp8 'attn_fp8*,attn_i8*,attn_quant*' 12
stress decode 'attn*decode*,attn*prefill*' 12
stress split_int8 'gemm_*_split_int8_*,gemm_*_split_bf16_*' 15
stress prefill 'gemm_*_mma_packed_*,gemm_*_prefill_*,gemm_*_ordered_*,gemm_*_few_*' 12
stress expert 'expert_gemm_*' 6
stress mla 'mla*' 6
stress gemm 'gemm_bf16*,gemm_f16*,gemm_e4m3*,gemm_any_native*,convert*,pack*' 12
stress layer 'norm*,rope*,kv_store*,softmax*,attn_merge*,clear_padding*,sample*,route*,act*,add*,embed*' 12
wait
for tool in memcheck synccheck; do
  watch ${tool}_short $tool "$short,attn_fwd*_192x96*" 2
  watch ${tool}_fwd $tool 'attn_fwd_bf16*,attn_fwd_f16*' 1
  watch ${tool}_fwd_ext $tool 'attn_fwd_ext_*' 2
  watch ${tool}_bwd $tool 'attn_bwd*' 1
  watch ${tool}_fp8 $tool 'attn_fp8*,attn_i8*,attn_quant*' 1
  watch ${tool}_decode $tool 'attn*decode*,attn*prefill*' 2
  watch ${tool}_expert $tool 'expert_gemm_*' 1
  watch ${tool}_mla $tool 'mla*' 1
  watch ${tool}_gemm $tool 'gemm_*,pack*,convert*' 1
  watch ${tool}_layer $tool 'norm*,rope*,kv_store*,softmax*,attn_merge*,clear_padding*,sample*,route*,act*,add*,embed*' 2
done
wait

failed=0
for log in "$out"/*; do
  draws=$(awk '/^ok/ { for (i = 1; i <= NF; i++) if ($i == "draws") n += $(i - 1) } END { print n + 0 }' "$log")
  echo "$(basename "$log"): $(grep -c '^ok' "$log") rows, $draws draws; $(grep -h 'ERROR SUMMARY\|passed,' "$log" | tr '\n' ' ')"
  grep -q 'passed,' "$log" || echo "$(basename "$log"): cut off after $seconds s"
  grep -q '^ok' "$log" || { echo "$(basename "$log"): no row passed"; failed=1; }
  grep -A2 '^FAIL' "$log" && failed=1
  grep -h 'ERROR SUMMARY' "$log" | grep -qv ': 0 errors' && failed=1
done
exit $failed
