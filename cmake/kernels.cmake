# Kernels are declared in .toml files beside their code, ops in src/op/*.toml; tables, lists and checks are made of them here.
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
file(GLOB_RECURSE GA_KERNEL_FILES CONFIGURE_DEPENDS src/*.toml src/cuda/kern/*.cu)
file(GLOB GA_OP_PARTS CONFIGURE_DEPENDS src/op/*.c src/ref/*.c verify/check/*.c verify/bench/*.c) # each op has one of each
set(GA_KERNEL_TOOLS ${CMAKE_SOURCE_DIR}/tools/gen_kernels.py ${CMAKE_SOURCE_DIR}/tools/kernel_decl.py
                    ${CMAKE_SOURCE_DIR}/tools/kernel_fields.toml ${CMAKE_SOURCE_DIR}/tools/cuda_targets.toml
                    ${CMAKE_SOURCE_DIR}/tools/gen_cpu.py ${CMAKE_SOURCE_DIR}/tools/gen_ops.py ${CMAKE_SOURCE_DIR}/tools/op_decl.py ${CMAKE_SOURCE_DIR}/tools/op_header.py)
set(GA_KERNELS_DIR ${CMAKE_BINARY_DIR}/kernels)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${GA_KERNEL_FILES} ${GA_KERNEL_TOOLS})
execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/gen_ops.py ${CMAKE_SOURCE_DIR} ${GA_KERNELS_DIR} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/gen_kernels.py ${CMAKE_SOURCE_DIR} ${GA_KERNELS_DIR}
                COMMAND_ERROR_IS_FATAL ANY)
list(APPEND GA_SOURCES ${GA_KERNELS_DIR}/cuda_rows.c ${GA_KERNELS_DIR}/cuda_targets.c ${GA_KERNELS_DIR}/cuda_costs.c ${GA_KERNELS_DIR}/cpu_rows.c ${GA_KERNELS_DIR}/ref_rows.c
     ${GA_KERNELS_DIR}/opdef/op_table.c ${GA_KERNELS_DIR}/op/op_fields.c)
