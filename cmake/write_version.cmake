# SPDX-License-Identifier: BSD-3-Clause
# Writes the only source with the commit, and only if it has changed. So a commit recompiles just
# this file and relinks the programs. Runs with every build:
#   cmake -DSOURCE=DIRECTORY -DVERSION=0.1.0 -DOUTPUT=FILE -P write_version.cmake
cmake_minimum_required(VERSION 3.22)

set(CPPRUN_VERSION "${VERSION}")
set(CPPRUN_COMMIT unknown)

# A source tarball may be inside another repository, whose commit is unrelated.
find_program(GIT git)
set(top "")
if(GIT)
  execute_process(COMMAND "${GIT}" -C "${SOURCE}" rev-parse --show-toplevel
                  OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(REAL_PATH "${SOURCE}" source)
if(top)
  file(REAL_PATH "${top}" top)
endif()
if(top STREQUAL source)
  execute_process(COMMAND "${GIT}" -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
else()
  # `git archive` replaces the placeholder with the commit.
  file(STRINGS "${SOURCE}/cmake/commit.txt" commit LIMIT_COUNT 1)
  string(SUBSTRING "${commit}" 0 12 commit)
endif()
if(commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(CPPRUN_COMMIT "${commit}")
endif()

configure_file("${CMAKE_CURRENT_LIST_DIR}/version.cpp.in" "${OUTPUT}" @ONLY)
