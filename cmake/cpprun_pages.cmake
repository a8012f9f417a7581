# SPDX-License-Identifier: BSD-3-Clause
# The programs print their own manual pages and shell completions. In a cross build, programs of the
# same version for this machine print them: CPPRUN_PRINTED_BY.
set(CPPRUN_PRINTED_BY "" CACHE PATH
    "Directory with the three programs for this machine, which print the pages of a cross build")

# zsh's directory for completions of other packages; Debian's zsh uses vendor-completions instead.
set(CPPRUN_ZSH_DIRECTORY site-functions CACHE STRING
    "Where zsh looks for completions, in share/zsh")

# cpprun_printed(PROGRAM FILE DIRECTORY FLAG…): installs the program's output with these flags as
# FILE in DIRECTORY.
function(cpprun_printed program file directory)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/printed/${file}")
  set(printer ${program})
  if(CPPRUN_PRINTED_BY)
    set(printer "${CPPRUN_PRINTED_BY}/${program}")
  endif()
  add_custom_command(OUTPUT "${output}" DEPENDS ${printer}
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/printed"
    COMMAND ${printer} ${ARGN} > "${output}" VERBATIM)
  set_property(GLOBAL APPEND PROPERTY CPPRUN_PRINTED "${output}")
  install(FILES "${output}" DESTINATION "${directory}")
endfunction()

if(CPPRUN_PRINTED_BY OR NOT CMAKE_CROSSCOMPILING)
  foreach(program cpprun cpprund cpprunctl)
    set(section 1)
    if(program STREQUAL "cpprund")
      set(section 8)
    endif()
    cpprun_printed(${program} ${program}.${section} "${CMAKE_INSTALL_MANDIR}/man${section}"
                   --print-man)
    cpprun_printed(${program} ${program} "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
                   --print-completion bash)
    cpprun_printed(${program} _${program} "${CMAKE_INSTALL_DATADIR}/zsh/${CPPRUN_ZSH_DIRECTORY}"
                   --print-completion zsh)
    cpprun_printed(${program} ${program}.fish
                   "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" --print-completion fish)
  endforeach()
  get_property(printed GLOBAL PROPERTY CPPRUN_PRINTED)
  add_custom_target(cpprun_printed_files ALL DEPENDS ${printed})
endif()
