# SPDX-License-Identifier: BSD-3-Clause
# The public headers. They are next to their sources and include each other by full path, but a user
# includes <cpprun/NAME.h>. So each is copied to include/cpprun of the build directory with its
# includes rewritten, and the copy is installed. The configuration fails if a public header includes
# a private one.
set(CPPRUN_PUBLIC_INCLUDE "${PROJECT_BINARY_DIR}/include")

# cpprun_publish(HEADERS path… DETAIL path…): DETAIL are headers that templates need and users do
# not include.
function(cpprun_publish)
  cmake_parse_arguments(ARG "" "" "HEADERS;DETAIL" ${ARGN})
  foreach(path ${ARG_HEADERS})
    get_filename_component(name "${path}" NAME)
    set_property(GLOBAL APPEND PROPERTY CPPRUN_PUBLIC_HEADERS "${path}=cpprun/${name}")
  endforeach()
  foreach(path ${ARG_DETAIL})
    get_filename_component(name "${path}" NAME)
    set_property(GLOBAL APPEND PROPERTY CPPRUN_PUBLIC_HEADERS "${path}=cpprun/detail/${name}")
  endforeach()
endfunction()

function(cpprun_publish_one path name table)
  file(READ "${PROJECT_SOURCE_DIR}/${path}" text)
  foreach(row ${table})
    string(REPLACE "=" ";" row "${row}")
    list(GET row 0 inner)
    list(GET row 1 outer)
    string(REPLACE "#include \"${inner}\"" "#include <${outer}>" text "${text}")
  endforeach()
  if(text MATCHES "#include (\"[^\n]*)")
    message(FATAL_ERROR "${path} is a public header and includes ${CMAKE_MATCH_1}, which is not: "
                        "name that in a cpprun_publish() or do without it")
  endif()
  # Written only if it differs, to avoid recompiling.
  file(CONFIGURE OUTPUT "${CPPRUN_PUBLIC_INCLUDE}/${name}" CONTENT "${text}" @ONLY)
  set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
endfunction()

# Called once, after all rooms have listed their headers.
function(cpprun_write_public_headers)
  get_property(table GLOBAL PROPERTY CPPRUN_PUBLIC_HEADERS)
  foreach(row ${table})
    string(REPLACE "=" ";" row "${row}")
    list(GET row 0 path)
    list(GET row 1 name)
    cpprun_publish_one("${path}" "${name}" "${table}")
  endforeach()
endfunction()
