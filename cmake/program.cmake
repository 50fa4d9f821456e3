# The `ga` program. libedit and libcurl serve it alone, never the library.
file(GLOB GA_PROGRAM_SOURCES CONFIGURE_DEPENDS cli/*.c verify/*/*.c)
if(GA_PROGRAM_SOURCES)
  pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
  pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
  add_library(ga_program OBJECT ${GA_PROGRAM_SOURCES}) # of `ga`, and of tests/emu/ga_emu
  target_include_directories(ga_program PRIVATE include src ${CMAKE_SOURCE_DIR})
  target_link_libraries(ga_program PRIVATE PkgConfig::JANSSON PkgConfig::EDIT PkgConfig::CURL)
  add_executable(ga $<TARGET_OBJECTS:ga_program>)
  target_link_libraries(ga PRIVATE ga_static PkgConfig::EDIT PkgConfig::CURL)
endif()
