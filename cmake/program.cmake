# The `ga` program. libedit and libcurl serve it alone, never the library.
file(GLOB GA_PROGRAM_SOURCES CONFIGURE_DEPENDS cli/*.c verify/*/*.c)
if(GA_PROGRAM_SOURCES)
  pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
  pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
  add_executable(ga ${GA_PROGRAM_SOURCES})
  target_include_directories(ga PRIVATE src ${CMAKE_SOURCE_DIR})
  target_link_libraries(ga PRIVATE ga_static PkgConfig::EDIT PkgConfig::CURL)
endif()
