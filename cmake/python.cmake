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
  add_library(ga_python_ext OBJECT EXCLUDE_FROM_ALL ${GA_PYTHON_C})
  target_include_directories(ga_python_ext PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_include_directories(ga_python_ext SYSTEM PRIVATE ${GA_PYTHON_INCLUDE})
  set_target_properties(ga_python_ext PROPERTIES POSITION_INDEPENDENT_CODE ON)
  # Only PyInit__core is visible: two copies of libga in one process do not meet.
  # ga_python_module(NAME FOLDER SOURCE...): FOLDER/gpu_accel in the build folder is the package as it will be installed.
  function(ga_python_module name folder)
    set(package ${CMAKE_BINARY_DIR}/${folder}/gpu_accel)
    add_library(${name} MODULE EXCLUDE_FROM_ALL $<TARGET_OBJECTS:ga_python_ext> ${ARGN})
    target_link_libraries(${name} PRIVATE ga_static)
    target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
    # A wheel has jansson and utf8proc beside the module (setup.py); elsewhere they are the system's.
    set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME _core SUFFIX .abi3.so LIBRARY_OUTPUT_DIRECTORY ${package} BUILD_RPATH "$ORIGIN")
    file(MAKE_DIRECTORY ${package})
    foreach(file ${GA_PYTHON_PY})
      file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/gpu_accel/${file} ${package}/${file} SYMBOLIC)
    endforeach()
  endfunction()
  ga_python_module(ga_python python)
else()
  message(STATUS "Python module: left out, no Python.h of 3.11 or newer in ${GA_PYTHON_INCLUDE}")
endif()
