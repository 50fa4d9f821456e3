# ga_python: the Python module gpu_accel over the stable ABI, with libga inside. Not part of `all`: pip and the tests ask for it.
# GA_PYTHON_INCLUDE: the folder of Python.h; unset, that of the interpreter found.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(NOT GA_PYTHON_INCLUDE)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_paths()['include'])"
                  OUTPUT_VARIABLE GA_PYTHON_FOUND OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(GA_PYTHON_INCLUDE ${GA_PYTHON_FOUND} CACHE PATH "the folder of Python.h" FORCE)
endif()
if(EXISTS ${GA_PYTHON_INCLUDE}/Python.h AND Python3_VERSION VERSION_GREATER_EQUAL 3.11)
  file(GLOB GA_PYTHON_C CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/ext/*.c)
  file(GLOB GA_PYTHON_PY RELATIVE ${CMAKE_SOURCE_DIR}/python/gpu_accel CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/gpu_accel/*.py)
  add_library(ga_python MODULE EXCLUDE_FROM_ALL ${GA_PYTHON_C})
  target_include_directories(ga_python PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_include_directories(ga_python SYSTEM PRIVATE ${GA_PYTHON_INCLUDE})
  set(GA_PYTHON_DIR ${CMAKE_BINARY_DIR}/python/gpu_accel)
  set_target_properties(ga_python PROPERTIES PREFIX "" OUTPUT_NAME _core SUFFIX .abi3.so LIBRARY_OUTPUT_DIRECTORY ${GA_PYTHON_DIR})
  # Only PyInit__core is visible: two copies of libga in one process do not meet.
  target_link_libraries(ga_python PRIVATE ga_static)
  target_link_options(ga_python PRIVATE -Wl,--exclude-libs,ALL)
  # A wheel has jansson and utf8proc beside the module (setup.py); elsewhere they are the system's.
  set_target_properties(ga_python PROPERTIES BUILD_RPATH "$ORIGIN")
  # The package as it will be installed, for tests.
  file(MAKE_DIRECTORY ${GA_PYTHON_DIR})
  foreach(name ${GA_PYTHON_PY})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/gpu_accel/${name} ${GA_PYTHON_DIR}/${name} SYMBOLIC)
  endforeach()
else()
  message(STATUS "Python module: left out, no Python.h of 3.11 or newer in ${GA_PYTHON_INCLUDE}")
endif()
