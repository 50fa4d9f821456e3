# ga_page: the files of the chat page as objects, for the server.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB GA_PAGE_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/serve/page/*)
set(GA_PAGE_C ${CMAKE_BINARY_DIR}/page_files.c)
add_custom_command(OUTPUT ${GA_PAGE_C} DEPENDS ${GA_PAGE_FILES} ${CMAKE_SOURCE_DIR}/tools/embed_page.py
                   COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/embed_page.py ${GA_PAGE_C} ${GA_PAGE_FILES} VERBATIM)
add_library(ga_page OBJECT EXCLUDE_FROM_ALL ${GA_PAGE_C})
target_include_directories(ga_page PUBLIC ${CMAKE_SOURCE_DIR}/src)
