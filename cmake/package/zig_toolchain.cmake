# SPDX-License-Identifier: BSD-3-Clause
# zig's clang, C library and C++ library as the compiler of one target: CPPRUN_ZIG_TARGET, as zig
# writes it (x86_64-linux-gnu.2.28, aarch64-linux-musl). portable.sh makes the two folders.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CPPRUN_ZIG_TARGET CPPRUN_ZIG_TOOLS CPPRUN_ZIG_HEADERS)

# What runs on this machine can print its own manual pages, and is no cross build to CMake.
string(REGEX REPLACE "-.*" "" machine "${CPPRUN_ZIG_TARGET}")
if(NOT machine STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR "${machine}")
endif()

set(CMAKE_CXX_COMPILER "${CPPRUN_ZIG_TOOLS}/c++")
# libc++ has no std::result_of any more, which Debian's Boost takes unless it is told of its heir.
# Assertions name files: the same ones wherever the repository lies.
set(CMAKE_CXX_FLAGS_INIT "-target ${CPPRUN_ZIG_TARGET} -DBOOST_ASIO_HAS_STD_INVOKE_RESULT=1 \
-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.")
string(APPEND CMAKE_CXX_FLAGS_INIT " -include ${CMAKE_CURRENT_LIST_DIR}/io/missing_calls.h")
if(CPPRUN_ZIG_TARGET MATCHES "musl$")
  string(APPEND CMAKE_CXX_FLAGS_INIT " -DCPPRUN_STATIC")
endif()
# What g++ does of itself: a program that reads a network lies elsewhere each time.
set(CMAKE_EXE_LINKER_FLAGS_INIT -pie)
set(CMAKE_AR "${CPPRUN_ZIG_TOOLS}/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "${CPPRUN_ZIG_TOOLS}/ranlib" CACHE FILEPATH "")

# Headers of the libraries alone. This machine's folder would bring its C library's along.
set(CMAKE_FIND_ROOT_PATH "${CPPRUN_ZIG_HEADERS}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
