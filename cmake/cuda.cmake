# CUDA: the host side always builds (the driver is loaded at run time). Kernels: one image a row when nvcc is found, each
# its own build edge; their sources are embedded too, for compiling at run time.
#   -DGA_CUDA=OFF     no images          -DGA_ONLY='attn*'   images, and emulated rows, of these alone (comma-separated patterns)
set(GA_ONLY "" CACHE STRING "CUDA rows to compile: comma-separated patterns with * and ?; empty = all")
file(GLOB_RECURSE GA_CUDA_HOST CONFIGURE_DEPENDS src/cuda/*.c)
file(GLOB_RECURSE GA_CUDA_HEADERS CONFIGURE_DEPENDS src/cuda/dev/*.h src/cuda/kern/*.h)
list(APPEND GA_SOURCES ${GA_CUDA_HOST})
enable_language(ASM)

set(cuda_dir ${CMAKE_BINARY_DIR}/cuda)
set(cuda_tool ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/cuda_build.py)
set(cuda_src ${CMAKE_SOURCE_DIR}/src)
file(MAKE_DIRECTORY ${cuda_dir})
file(STRINGS ${GA_KERNELS_DIR}/images.txt cuda_rows)
set(GA_CUDA_ROWS ${cuda_rows})

if(GA_CUDA)
  find_program(GA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
endif()
if(GA_CUDA AND GA_NVCC)
  message(STATUS "CUDA kernels: compiled with ${GA_NVCC}")
elseif(GA_CUDA)
  message(STATUS "CUDA kernels: none in this build, because nvcc was not found; a machine with NVRTC compiles them when they are needed")
else()
  message(STATUS "CUDA kernels: none in this build (GA_CUDA is off)")
endif()

string(REPLACE "," "$|^" only "^${GA_ONLY}$")
string(REPLACE "*" ".*" only "${only}")
string(REPLACE "?" "." only "${only}")

set(cuda_items)
set(cuda_files)
set(cuda_sources)
foreach(row ${cuda_rows})
  string(REPLACE " " ";" field "${row}")
  list(GET field 0 id)
  list(GET field 2 source)
  list(APPEND cuda_sources ${source})
  if(NOT GA_CUDA OR NOT GA_NVCC OR (GA_ONLY AND NOT id MATCHES "${only}"))
    continue()
  endif()
  set(image ${cuda_dir}/${id}.image)
  add_custom_command(OUTPUT ${image} COMMAND ${cuda_tool} row ${GA_NVCC} ${cuda_src} ${image} ${row}
                     DEPENDS ${CMAKE_SOURCE_DIR}/${source} tools/cuda_build.py tools/cuda_targets.toml DEPFILE ${image}.d
                     COMMENT "Compiling CUDA row ${id}" VERBATIM)
  list(APPEND cuda_items image=${id}=${image})
  list(APPEND cuda_files ${image})
endforeach()

list(REMOVE_DUPLICATES cuda_sources)
foreach(source ${cuda_sources})
  get_filename_component(name ${source} NAME)
  add_custom_command(OUTPUT ${cuda_dir}/${name}.flat COMMAND ${cuda_tool} flat ${cuda_src} ${source} ${cuda_dir}/${name}.flat
                     DEPENDS ${CMAKE_SOURCE_DIR}/${source} ${GA_CUDA_HEADERS} tools/cuda_build.py VERBATIM)
  list(APPEND cuda_items source=${source}=${cuda_dir}/${name}.flat)
  list(APPEND cuda_files ${cuda_dir}/${name}.flat)
endforeach()

add_custom_command(OUTPUT ${cuda_dir}/cuda_tables.S COMMAND ${cuda_tool} table ${cuda_dir}/cuda_tables.S ${cuda_items}
                   DEPENDS ${cuda_files} tools/cuda_build.py COMMENT "Embedding CUDA kernels" VERBATIM)
set_source_files_properties(${cuda_dir}/cuda_tables.S PROPERTIES COMPILE_OPTIONS "-w")
list(APPEND GA_SOURCES ${cuda_dir}/cuda_tables.S)
