/* What follows from a row GA_CUDA_CHAIN of gemm.def: a type, TYPE, the other, OTHER, threads */
#ifndef GA_CUDA_KERN_GEMM_GEMM_CHAIN_ROWS_H
#define GA_CUDA_KERN_GEMM_GEMM_CHAIN_ROWS_H

#define GA_GEMM_CHAIN_ID(a, b) "gemm_" #a "_" #b "_chain_sm90a_16"
#define GA_GEMM_CHAIN_SOURCE "src/cuda/kern/gemm/gemm_chain_sm90a.cu"
#define GA_GEMM_CHAIN_PARAMS(A, B, threads) "W=" #A ",W2=" #B ",THREADS=" #threads

#endif
