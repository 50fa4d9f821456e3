# CPU kernels: one folder an instruction set, compiled with that set's flags and chosen at run time.
# Bodies that all sets share are compiled for each: tools/gen_cpu.py has made a file for it.
file(GLOB GA_CPU_COMMON CONFIGURE_DEPENDS src/cpu/*.c src/cpu/generic/*.c)
file(GLOB GA_CPU_MADE_GENERIC ${GA_KERNELS_DIR}/cpu/generic_*.c)
list(APPEND GA_CPU_COMMON ${GA_CPU_MADE_GENERIC})
list(APPEND GA_SOURCES ${GA_CPU_COMMON})

set(GA_CPU_FLAGS -ffp-contract=fast)
# gcc would put sums of products off until all products of a block are there, and keep those on the stack.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND GA_CPU_FLAGS -fno-tree-ter -fno-tree-reassoc)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  file(GLOB GA_CPU_AVX2 CONFIGURE_DEPENDS src/cpu/x86_avx2/*.c ${GA_KERNELS_DIR}/cpu/avx2_*.c)
  file(GLOB GA_CPU_AVX512 CONFIGURE_DEPENDS src/cpu/x86_avx512/*.c ${GA_KERNELS_DIR}/cpu/avx512_*.c)
  file(GLOB GA_CPU_AMX CONFIGURE_DEPENDS src/cpu/x86_amx/*.c ${GA_KERNELS_DIR}/cpu/amx_*.c)
  set_source_files_properties(${GA_CPU_AVX2} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mbmi2;${GA_CPU_FLAGS}")
  set(GA_AVX512_FLAGS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16 -mavx512vbmi -mavx512vbmi2
                      -mfma -mf16c -mbmi2)
  set_source_files_properties(${GA_CPU_AVX512} PROPERTIES COMPILE_OPTIONS "${GA_AVX512_FLAGS};${GA_CPU_FLAGS}")
  set_source_files_properties(${GA_CPU_AMX} PROPERTIES COMPILE_OPTIONS
                              "${GA_AVX512_FLAGS};-mamx-tile;-mamx-int8;-mamx-bf16;${GA_CPU_FLAGS}")
  list(APPEND GA_SOURCES ${GA_CPU_AVX2} ${GA_CPU_AVX512} ${GA_CPU_AMX})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  file(GLOB GA_CPU_NEON CONFIGURE_DEPENDS src/cpu/arm_neon/*.c ${GA_KERNELS_DIR}/cpu/neon_*.c)
  set_source_files_properties(${GA_CPU_NEON} PROPERTIES COMPILE_OPTIONS "-march=armv8.2-a+dotprod+fp16;${GA_CPU_FLAGS}")
  list(APPEND GA_SOURCES ${GA_CPU_NEON})
endif()

# Clamps become vector minimums only when a comparison need not raise what it raises alone. Values are the same.
file(GLOB GA_FIT CONFIGURE_DEPENDS src/quant/fit_*.c)
set_source_files_properties(${GA_FIT} PROPERTIES COMPILE_OPTIONS -fno-trapping-math)
