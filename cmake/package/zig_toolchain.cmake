# SPDX-License-Identifier: BSD-3-Clause
# zig's clang, C library and C++ library as the compiler for CPPRUN_ZIG_TARGET, in zig's notation
# (x86_64-linux-gnu.2.28, aarch64-linux-musl). portable.sh creates the two directories.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CPPRUN_ZIG_TARGET CPPRUN_ZIG_TOOLS CPPRUN_ZIG_HEADERS)

# Programs that run on this machine print their own manual pages, so this is not a cross build.
string(REGEX REPLACE "-.*" "" machine "${CPPRUN_ZIG_TARGET}")
if(NOT machine STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR "${machine}")
endif()

set(CMAKE_CXX_COMPILER "${CPPRUN_ZIG_TOOLS}/c++")
# libc++ has removed std::result_of, so Debian's Boost must use std::invoke_result. Assertions
# contain file names, which must not depend on the path of the repository.
set(CMAKE_CXX_FLAGS_INIT "-target ${CPPRUN_ZIG_TARGET} -DBOOST_ASIO_HAS_STD_INVOKE_RESULT=1 \
-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.")
string(APPEND CMAKE_CXX_FLAGS_INIT " -include ${CMAKE_CURRENT_LIST_DIR}/io/missing_calls.h")
if(CPPRUN_ZIG_TARGET MATCHES "musl$")
  string(APPEND CMAKE_CXX_FLAGS_INIT " -DCPPRUN_STATIC")
endif()
# As g++ does by default: position-independent programs, for address space randomization.
set(CMAKE_EXE_LINKER_FLAGS_INIT -pie)
set(CMAKE_AR "${CPPRUN_ZIG_TOOLS}/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "${CPPRUN_ZIG_TOOLS}/ranlib" CACHE FILEPATH "")

# Only the headers of the libraries. /usr/include would add the headers of this machine's C library.
set(CMAKE_FIND_ROOT_PATH "${CPPRUN_ZIG_HEADERS}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
