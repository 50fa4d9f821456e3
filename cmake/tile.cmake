# The tile layer as its users include it, ga/tile/: copied from src/cuda/dev when the build is configured (tools/install_tile.py
# says what becomes what), and installed beside the other headers.
file(GLOB_RECURSE GA_TILE_HEADERS CONFIGURE_DEPENDS src/cuda/dev/*.h)
list(APPEND GA_TILE_HEADERS ${CMAKE_SOURCE_DIR}/src/core/emu_calls.h)
set(GA_TILE_INCLUDE ${CMAKE_BINARY_DIR}/include)
add_custom_command(OUTPUT ${GA_TILE_INCLUDE}/tile.stamp
                   COMMAND ${CMAKE_COMMAND} -E rm -rf ${GA_TILE_INCLUDE}/ga/tile
                   COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/install_tile.py ${CMAKE_SOURCE_DIR}/src ${GA_TILE_INCLUDE}
                   COMMAND ${CMAKE_COMMAND} -E touch ${GA_TILE_INCLUDE}/tile.stamp
                   DEPENDS ${GA_TILE_HEADERS} ${CMAKE_SOURCE_DIR}/tools/install_tile.py VERBATIM)
add_custom_target(ga_tile ALL DEPENDS ${GA_TILE_INCLUDE}/tile.stamp)
