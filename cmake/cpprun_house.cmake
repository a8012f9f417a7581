# SPDX-License-Identifier: BSD-3-Clause
# Settings of all targets: the language, the warnings, the sanitizers, and functions that declare a
# library, a program and a test.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# In a wheel (pyproject.toml): next to Python, where `man` and shells find the pages.
if(SKBUILD)
  set(CMAKE_INSTALL_BINDIR "${SKBUILD_SCRIPTS_DIR}")
  set(CMAKE_INSTALL_DATAROOTDIR "${SKBUILD_DATA_DIR}/share")
endif()
include(GNUInstallDirs)

# Assertions stay on in release (design decision 13): no -DNDEBUG.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

cpprun_find_working(CCACHE_PROGRAM ccache NAMES ccache
  TRY "${CMAKE_CXX_COMPILER}" -c "${CPPRUN_EMPTY_SOURCE}" -o "${CPPRUN_EMPTY_SOURCE}.o")
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

find_package(Threads REQUIRED)

# Finds a header of the system. LibTorch has its own copy of {fmt}, and CMAKE_PREFIX_PATH contains
# LibTorch, so the system is searched first.
function(cpprun_find_header variable header)
  find_path(${variable} ${header} NO_CMAKE_PATH)
  find_path(${variable} ${header} REQUIRED)
endfunction()

# Adds the {fmt} of these include directories as an archive of our own (see fmt_archive.cpp), unless
# its internals have changed.
function(cpprun_add_fmt name includes)
  set(directory "${PROJECT_SOURCE_DIR}/cmake")
  if(NOT DEFINED ${name}_works)
    try_compile(${name}_works "${CMAKE_BINARY_DIR}/${name}_check"
      SOURCES "${directory}/fmt_archive.cpp" "${directory}/fmt_archive_check.cpp"
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${includes}" CXX_STANDARD 20)
  endif()
  if(${name}_works)
    add_library(${name} STATIC "${directory}/fmt_archive.cpp")
    target_include_directories(${name} SYSTEM PRIVATE ${includes})
  endif()
endfunction()

# If there is no archive, each unit compiles all of fmt.
cpprun_find_header(CPPRUN_FMT_INCLUDE fmt/format.h)
cpprun_add_fmt(cpprun_fmt "${CPPRUN_FMT_INCLUDE}")
if(NOT TARGET cpprun_fmt)
  add_library(cpprun_fmt INTERFACE)
  target_compile_definitions(cpprun_fmt INTERFACE FMT_HEADER_ONLY=1)
endif()
target_include_directories(cpprun_fmt SYSTEM INTERFACE
  "$<BUILD_INTERFACE:${CPPRUN_FMT_INCLUDE}>")
add_library(fmt::fmt ALIAS cpprun_fmt)
cpprun_find_header(CPPRUN_EXPECTED_INCLUDE tl/expected.hpp)
if(CPPRUN_STORE_ONLY)
  # Without it, the store has no TLS.
  find_path(CPPRUN_OPENSSL_INCLUDE openssl/ssl.h)
else()
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  cpprun_find_header(CPPRUN_ASIO_INCLUDE asio.hpp)
  cpprun_find_header(CPPRUN_OPENSSL_INCLUDE openssl/ssl.h)
  cpprun_find_header(CPPRUN_BOOST_INCLUDE boost/beast/http/parser.hpp)
endif()
# Asio 1.22 uses std::aligned_alloc only if a standard header was included before it. So one file
# might allocate with it and another free without it. We do not need it.
add_compile_definitions(ASIO_DISABLE_STD_ALIGNED_ALLOC)

# Compiler options for our own code. Third-party headers are system headers.
add_library(cpprun_house INTERFACE)
target_compile_options(cpprun_house INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
  $<$<BOOL:${CPPRUN_WERROR}>:-Werror>
  # In a unity build, g++ considers anonymous namespaces of sources to be in a header.
  $<$<AND:$<BOOL:${CPPRUN_UNITY}>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>
  # There, clang warns of names that another source of the unit uses too.
  $<$<AND:$<BOOL:${CPPRUN_UNITY}>,$<CXX_COMPILER_ID:Clang>>:-Wno-shadow>
  # g++'s -Wconversion does not include this in C++; newer releases of clang do.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
  # Omitting fields in a designated initializer is intended: they keep their defaults.
  -Wno-missing-field-initializers)
target_include_directories(cpprun_house SYSTEM INTERFACE "${CPPRUN_EXPECTED_INCLUDE}")

# Programs that load LibTorch do not use the sanitizers, because LibTorch is not built with them.
add_library(cpprun_sanitize INTERFACE)
if(CPPRUN_SANITIZE)
  target_compile_options(cpprun_sanitize INTERFACE
    -fsanitize=${CPPRUN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    # With sanitizers, g++ 12 warns of uninitialised variables in the standard library.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(cpprun_sanitize INTERFACE -fsanitize=${CPPRUN_SANITIZE})
  # g++ 13 and later look for uses of a stack frame after its function returned. That makes the
  # programs several times slower, so that nodes miss their leases. g++ 12 does not.
  if(CPPRUN_SANITIZE MATCHES address)
    target_compile_options(cpprun_sanitize INTERFACE
      $<$<CXX_COMPILER_ID:GNU>:--param=asan-use-after-return=0>)
  endif()
else()
  # At run time, cpprun and cpprund need only the C library.
  set(CPPRUN_STATIC_RUNTIME -static-libstdc++ -static-libgcc)
  # libstdc++ uses libm only for the rounding mode. Loading libm.so takes 5 % of a launch, so libm.a
  # is linked if it exists.
  find_library(CPPRUN_LIBM_ARCHIVE NAMES libm.a)
  if(CPPRUN_LIBM_ARCHIVE)
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_LINK_OPTIONS LINKER:-u,fegetround)
    set(CMAKE_REQUIRED_LIBRARIES "${CPPRUN_LIBM_ARCHIVE}")
    check_cxx_source_compiles("int main() { return 0; }" CPPRUN_LIBM_ARCHIVE_LINKS)
    unset(CMAKE_REQUIRED_LINK_OPTIONS)
    unset(CMAKE_REQUIRED_LIBRARIES)
    if(NOT CPPRUN_LIBM_ARCHIVE_LINKS)
      cpprun_without("libm inside the programs" "${CPPRUN_LIBM_ARCHIVE} does not link")
      set(CPPRUN_LIBM_ARCHIVE "")
    endif()
  endif()
endif()

# For sources of tests, after cpprun_sanitize: a third less compile time without the checks of each
# pointer. A null pointer ends the program all the same.
add_library(cpprun_sanitize_tests INTERFACE)
if(CPPRUN_SANITIZE MATCHES undefined)
  target_compile_options(cpprun_sanitize_tests INTERFACE
    -fno-sanitize=null,alignment,object-size,vptr)
endif()

# Hardening flags: many memory errors that untrusted input could exploit end the program instead, at
# little cost. For the rooms that read such input (CPPRUN_READS_STRANGERS), in release builds only,
# because the sanitizers find the same errors.
add_library(cpprun_hardened INTERFACE)
if(NOT CPPRUN_SANITIZE)
  include(CheckCXXCompilerFlag)
  foreach(flag stack-protector-strong stack-clash-protection cf-protection)
    check_cxx_compiler_flag(-f${flag} CPPRUN_HAS_${flag})
    if(CPPRUN_HAS_${flag})
      target_compile_options(cpprun_hardened INTERFACE $<$<CONFIG:Release>:-f${flag}>)
    endif()
  endforeach()
  # A distribution may have set another level.
  target_compile_options(cpprun_hardened INTERFACE
    $<$<CONFIG:Release>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=3>)
endif()

# cpprun_library(name SOURCES a.cpp b.cpp [LINKS other…]): a static library of one room. It is a
# unity build, because most of the compile time is spent on headers that all sources include.
# -DCPPRUN_UNITY=OFF compiles each source separately.
function(cpprun_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES
    UNITY_BUILD ${CPPRUN_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  target_include_directories(${name} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:include>")
  target_link_libraries(${name} PUBLIC ${ARG_LINKS} PRIVATE $<BUILD_INTERFACE:cpprun_house>
                        $<BUILD_INTERFACE:cpprun_sanitize>)
  if(CPPRUN_READS_STRANGERS)
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:cpprun_hardened>)
  endif()
  target_include_directories(${name} SYSTEM PUBLIC "$<BUILD_INTERFACE:${CPPRUN_EXPECTED_INCLUDE}>")
endfunction()

# cpprun_program(name SOURCES main.cpp [LINKS lib…]): an installed program, stripped in Release.
function(cpprun_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} cpprun_house cpprun_sanitize)
  if(CPPRUN_READS_STRANGERS)
    target_link_libraries(${name} PRIVATE cpprun_hardened)
  endif()
  # --gc-sections drops unused code, which is most of the C++ library. With -z now, symbols are
  # resolved once, at the start: this is faster, and the table of functions is read-only afterwards.
  target_link_options(${name} PRIVATE ${CPPRUN_STATIC_RUNTIME} LINKER:--gc-sections
    $<$<CONFIG:Release>:LINKER:-O1,-z,now;-s>)
  if(CPPRUN_LIBM_ARCHIVE)
    target_link_options(${name} PRIVATE LINKER:--as-needed,-u,fegetround,-u,fesetround)
    target_link_libraries(${name} PRIVATE "${CPPRUN_LIBM_ARCHIVE}")
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# doctest's implementation, compiled once for all test programs.
if(CPPRUN_TESTS)
  add_library(cpprun_doctest_main OBJECT "${PROJECT_SOURCE_DIR}/tests/doctest_main.cpp")
  target_link_libraries(cpprun_doctest_main PRIVATE cpprun_house cpprun_sanitize)
endif()

# cpprun_test(name SOURCES a_test.cpp [PROGRAM program] [LINKS lib…] [ENV A=b…] [OPTIMIZED]): a test
# for CTest, of a doctest executable. Tests with the same PROGRAM share one executable, which costs
# less compile and link time; each runs the cases of its own sources. It is a unity build, without
# optimization, which takes two thirds of the compile time. OPTIMIZED is for tests with long
# computations. tests/tidy_test.cpp fails if a test file is missing in the CMakeLists.txt files. The
# unit tests are in the programs proto_test, rendezvous_test and launcher_test.
function(cpprun_test name)
  cmake_parse_arguments(ARG "OPTIMIZED" "PROGRAM" "SOURCES;LINKS;ENV" ${ARGN})
  set(program ${name})
  set(own_cases "")
  if(ARG_PROGRAM)
    set(program ${ARG_PROGRAM})
    set(own_files ${ARG_SOURCES})
    list(FILTER own_files INCLUDE REGEX "_test\\.cpp$")
    list(TRANSFORM own_files PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
    list(JOIN own_files "," own_files)
    set(own_cases "--source-file=${own_files}")
  endif()
  if(NOT CPPRUN_UNIT_TESTS AND program MATCHES "^(proto|rendezvous|launcher)_test$")
    return()
  endif()
  if(NOT TARGET ${program})
    add_executable(${program})
    set_target_properties(${program} PROPERTIES UNITY_BUILD ${CPPRUN_UNITY}
                          UNITY_BUILD_BATCH_SIZE 10)
    if(NOT ARG_OPTIMIZED)
      target_compile_options(${program} PRIVATE -O0)
    endif()
    target_include_directories(${program} PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${program} PRIVATE cpprun_doctest_main cpprun_house cpprun_sanitize
                          cpprun_sanitize_tests)
  endif()
  target_sources(${program} PRIVATE ${ARG_SOURCES})
  target_link_libraries(${program} PRIVATE ${ARG_LINKS})
  add_test(NAME ${name} COMMAND ${program} ${own_cases})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${ARG_ENV}" TIMEOUT 300)
endfunction()
