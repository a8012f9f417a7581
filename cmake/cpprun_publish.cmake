# SPDX-License-Identifier: BSD-3-Clause
# The public headers. They lie beside their sources and include each other as the house does, by
# full path; a user includes <cpprun/NAME.h>. So each is copied into the build's include/cpprun with
# its includes rewritten, and that copy is what is installed. A public header that includes one of
# ours that is not public fails the configuration here.
set(CPPRUN_PUBLIC_INCLUDE "${PROJECT_BINARY_DIR}/include")

# cpprun_publish(HEADERS path… DETAIL path…): DETAIL are those that templates need and no user
# names.
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
  # Only where it differs, so that nothing is compiled again for nothing.
  file(CONFIGURE OUTPUT "${CPPRUN_PUBLIC_INCLUDE}/${name}" CONTENT "${text}" @ONLY)
  set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
endfunction()

# Once, when every room has named its own.
function(cpprun_write_public_headers)
  get_property(table GLOBAL PROPERTY CPPRUN_PUBLIC_HEADERS)
  foreach(row ${table})
    string(REPLACE "=" ";" row "${row}")
    list(GET row 0 path)
    list(GET row 1 name)
    cpprun_publish_one("${path}" "${name}" "${table}")
  endforeach()
endfunction()
