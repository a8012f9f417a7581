# SPDX-License-Identifier: BSD-3-Clause
# Optional dependencies. If one is missing or broken, the configuration prints one line, "without
# NAME: REASON", which ./dev repeats, and continues without it.

set(CPPRUN_EMPTY_SOURCE "${CMAKE_BINARY_DIR}/empty.cpp")
file(WRITE "${CPPRUN_EMPTY_SOURCE}" "int main() { return 0; }\n")

function(cpprun_without name)
  message(STATUS "without ${name}: " ${ARGN})
endfunction()

# cpprun_find_working(VARIABLE WHAT NAMES name… TRY argument…): finds a program that succeeds with
# these arguments. If there is none, VARIABLE is empty and WHAT is not built.
function(cpprun_find_working variable what)
  cmake_parse_arguments(ARG "" "" "NAMES;TRY" ${ARGN})
  find_program(${variable} NAMES ${ARG_NAMES})
  set(program "${${variable}}")
  if(program)
    execute_process(COMMAND "${program}" ${ARG_TRY} TIMEOUT 120 RESULT_VARIABLE result
                    OUTPUT_QUIET ERROR_VARIABLE error)
    if(result STREQUAL "0")
      return()
    endif()
    string(REGEX MATCH "[^\n]+" error "${error}")
    cpprun_without("${what}" "${program} does not work (${result}) ${error}")
  else()
    list(GET ARG_NAMES 0 name)
    cpprun_without("${what}" "${name} was not found")
  endif()
  if(NOT EXISTS "${program}")
    unset(${variable} CACHE)  # the next configuration looks again
  endif()
  set(${variable} "" PARENT_SCOPE)
endfunction()

# cpprun_probe_package(WORKS PACKAGE COMPONENT…): whether find_package() finds the package. This is
# a separate configuration, because FindMPI, for example, fails if an MPI has no headers. Variables
# of the package in the cache (MPI_HOME) are passed on. The log is next to the build directory.
function(cpprun_probe_package works package)
  set(directory "${CMAKE_BINARY_DIR}/probe_${package}")
  get_cmake_property(names CACHE_VARIABLES)
  list(FILTER names INCLUDE REGEX "^(${package}_.*|CMAKE_(PREFIX|PROGRAM|INCLUDE|LIBRARY)_PATH|\
CMAKE_TOOLCHAIN_FILE|CMAKE_MAKE_PROGRAM)$")
  set(cache "")
  foreach(name ${names})
    string(APPEND cache "set(${name} [==[$CACHE{${name}}]==] CACHE STRING \"\")\n")
  endforeach()
  file(REMOVE_RECURSE "${directory}")
  file(WRITE "${directory}/cache.cmake" "${cache}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -C "${directory}/cache.cmake" -G "${CMAKE_GENERATOR}"
            "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCPPRUN_PROBED=${package}"
            "-DCPPRUN_PROBED_COMPONENTS=${ARGN}" "-D${package}_CXX_SKIP_MPICXX=ON"
            -S "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/probe" -B "${directory}"
    TIMEOUT 120 RESULT_VARIABLE result OUTPUT_FILE "${directory}.log" ERROR_FILE "${directory}.log")
  set(${works} OFF PARENT_SCOPE)
  if(result STREQUAL "0")
    set(${works} ON PARENT_SCOPE)
  endif()
endfunction()
