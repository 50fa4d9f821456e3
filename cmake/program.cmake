# The `ga` program. libedit, libcurl and libmicrohttpd serve it alone, never the library.
file(GLOB GA_PROGRAM_SOURCES CONFIGURE_DEPENDS cmdline/*.c cli/*.c cli/*/*.c verify/*/*.c)
if(GA_PROGRAM_SOURCES)
  pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
  pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
  pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
  # The HTTP server: an archive, of which tests link what they need.
  file(GLOB GA_SERVE_SOURCES CONFIGURE_DEPENDS src/serve/*.c)
  add_library(ga_serve STATIC ${GA_SERVE_SOURCES} $<TARGET_OBJECTS:ga_page>)
  target_include_directories(ga_serve PRIVATE src)
  target_link_libraries(ga_serve PUBLIC ga_static PkgConfig::JANSSON PkgConfig::MICROHTTPD)
  add_library(ga_program OBJECT ${GA_PROGRAM_SOURCES}) # of `ga`, and of tests/emu/ga_emu
  target_include_directories(ga_program PRIVATE include src ${CMAKE_SOURCE_DIR} ${GA_KERNELS_DIR})
  target_link_libraries(ga_program PRIVATE PkgConfig::JANSSON PkgConfig::EDIT PkgConfig::CURL)
  add_executable(ga $<TARGET_OBJECTS:ga_program>)
  target_link_libraries(ga PRIVATE ga_serve ga_static PkgConfig::EDIT PkgConfig::CURL)
  # Man pages and completions, of what the program says of its options.
  if(NOT CMAKE_CROSSCOMPILING AND NOT GA_SANITIZE)
    set(GA_CLI_FILES ${CMAKE_BINARY_DIR}/cli)
    add_custom_command(OUTPUT ${GA_CLI_FILES}/ga.bash COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/gen_cli_files.py $<TARGET_FILE:ga> ${GA_CLI_FILES}
                       DEPENDS ga ${CMAKE_SOURCE_DIR}/tools/gen_cli_files.py COMMENT "Writing man pages and completions" VERBATIM)
    add_custom_target(ga_cli_files ALL DEPENDS ${GA_CLI_FILES}/ga.bash)
  endif()
endif()
