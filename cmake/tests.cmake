# Tests have three tiers. `make test` builds and runs the quick one; `make test-all` builds everything and runs the full one; `make test-deep`
# runs the deep one, which has long draws of what the full one samples. Each test is in exactly one: tools/check_tiers.py fails otherwise.
#   ga_test(quick|full|deep NAME COMMAND ARGUMENT... [NEEDS TARGET...])
# Programs that the command names are built for the tier by themselves; NEEDS are targets that it uses unnamed.

# Seconds until a test is ended and what it wrote is printed. Of processor time the longest quick test takes 8 s, the longest full one 45;
# where others keep all processors busy, 180 s on the clock. Sanitizers take ten times that.
set(GA_TIMEOUT_quick 300)
set(GA_TIMEOUT_full 900)
set(GA_TIMEOUT_deep 3600)
if(GA_SANITIZE)
  set(GA_TIMEOUT_quick 1200)
  set(GA_TIMEOUT_full 3600)
  set(GA_TIMEOUT_deep 14400)
endif()

# Models of tests/data/arch, for tests/test_arch.c on a CPU and on the emulator.
file(GLOB GA_TEST_ARCHS RELATIVE ${CMAKE_SOURCE_DIR}/tests/data/arch CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/data/arch/*)
list(TRANSFORM GA_TEST_ARCHS REPLACE "(.+)" "X(\\1)" OUTPUT_VARIABLE GA_TEST_ARCH_LIST)
list(JOIN GA_TEST_ARCH_LIST " " GA_TEST_ARCH_LIST)
# Those of Hugging Face's layout; the others are GGUF files.
file(GLOB GA_TEST_FOLDERS RELATIVE ${CMAKE_SOURCE_DIR}/tests/data/arch CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/data/arch/*/config.json)
list(TRANSFORM GA_TEST_FOLDERS REPLACE "(.+)/config.json" "X(\\1)" OUTPUT_VARIABLE GA_TEST_FOLDER_LIST)
list(JOIN GA_TEST_FOLDER_LIST " " GA_TEST_FOLDER_LIST)

# Everything that the quick tier runs, and nothing else.
add_custom_target(quick_tests)

function(ga_test tier name)
  if(NOT DEFINED GA_TIMEOUT_${tier})
    message(FATAL_ERROR "test ${name}: tier ${tier}; must be quick, full or deep")
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 test "" "" "COMMAND;NEEDS")
  add_test(NAME ${name} COMMAND ${test_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS ${tier} TIMEOUT ${GA_TIMEOUT_${tier}})
  foreach(word ${test_COMMAND})
    string(REGEX REPLACE "^\\$<TARGET_FILE:(.*)>$" "\\1" word "${word}")
    if(TARGET "${word}")
      list(APPEND test_NEEDS ${word})
    endif()
  endforeach()
  set(needs ${test_NEEDS})
  list(FILTER needs EXCLUDE REGEX "::") # programs of the system
  list(JOIN needs " " needs)
  set_property(GLOBAL APPEND_STRING PROPERTY GA_TEST_NEEDS "${name} ${needs}\n")
  if(tier STREQUAL quick AND test_NEEDS)
    add_dependencies(quick_tests ${test_NEEDS})
  endif()
endfunction()

# Writes tests/needs.txt, a line for each test, its name and the targets that it uses: for tools/mutate_host.py.
function(ga_write_test_needs)
  get_property(needs GLOBAL PROPERTY GA_TEST_NEEDS)
  file(WRITE ${CMAKE_BINARY_DIR}/tests/needs.txt "${needs}")
endfunction()
