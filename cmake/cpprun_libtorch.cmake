# SPDX-License-Identifier: BSD-3-Clause
# Finds LibTorch by its files: torch from pip, or the zip from PyTorch, for the CPU or for CUDA.
# LibTorch's own TorchConfig.cmake is not used: in a CUDA build it fails on machines without the
# CUDA toolkit, although linking does not need the toolkit.
#
# cpprun_find_libtorch() looks in $LIBTORCH, CMAKE_PREFIX_PATH and Torch_DIR. A prefix is the torch
# directory, or the output of `torch.utils.cmake_prefix_path`. It defines the target cpprun_libtorch
# and sets, for the caller:
#   CPPRUN_LIBTORCH_DIRECTORY   the directory with include/ and lib/; empty if not found
#   CPPRUN_LIBTORCH_VERSION  2.13.0
#   CPPRUN_LIBTORCH_ABI      1, or 0 for the old strings of libstdc++
#   CPPRUN_LIBTORCH_KIND     CPU or CUDA

# Directories in which CUDA's and NCCL's headers or libraries (`part`: include, lib) may be: next to
# torch, where pip installs NVIDIA's packages, and in an installed toolkit.
function(cpprun_cuda_directories result libtorch part)
  file(GLOB directories "${libtorch}/../nvidia/*/${part}"
                    "${libtorch}/../triton/backends/nvidia/${part}")
  foreach(toolkit "$ENV{CUDA_HOME}" /usr/local/cuda)
    if(toolkit AND IS_DIRECTORY "${toolkit}/${part}")
      list(APPEND directories "${toolkit}/${part}")
    endif()
  endforeach()
  set(${result} "${directories}" PARENT_SCOPE)
endfunction()

function(cpprun_read_libtorch_version directory)
  set(version "")
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(NOT version AND EXISTS "${directory}/include/${header}")
      file(READ "${directory}/include/${header}" text)
      foreach(part MAJOR MINOR PATCH)
        if(text MATCHES "define TORCH_VERSION_${part} ([0-9]+)")
          list(APPEND version "${CMAKE_MATCH_1}")
        endif()
      endforeach()
      list(JOIN version "." version)
    endif()
  endforeach()
  # Builds before 2.7 state which std::string ABI they use; later builds use the new one.
  set(abi 1)
  if(EXISTS "${directory}/share/cmake/Torch/TorchConfig.cmake")
    file(READ "${directory}/share/cmake/Torch/TorchConfig.cmake" text)
    if(text MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
      set(abi 0)
    endif()
  endif()
  set(CPPRUN_LIBTORCH_VERSION "${version}" PARENT_SCOPE)
  set(CPPRUN_LIBTORCH_ABI "${abi}" PARENT_SCOPE)
endfunction()

# A program that uses GPU tensors must load libtorch_cuda, although it uses none of its symbols.
# The C++ library comes first: LibTorch 2.11's libtorch.so exports parts of std::string and
# std::filesystem, some of which call functions that do not exist.
function(cpprun_link_libtorch directory kind)
  set(libraries -lstdc++ "${directory}/lib/libtorch.so" "${directory}/lib/libtorch_cpu.so")
  if(kind STREQUAL "CUDA")
    list(APPEND libraries "${directory}/lib/libtorch_cuda.so" "${directory}/lib/libc10_cuda.so")
    # The libraries are resolved when the program starts; a build machine may have no driver.
    cpprun_cuda_directories(cuda_libraries "${directory}" lib)
    list(TRANSFORM cuda_libraries PREPEND "LINKER:-rpath-link,")
    target_link_options(cpprun_libtorch INTERFACE ${cuda_libraries} LINKER:--allow-shlib-undefined)
  endif()
  # A single list item, so that CMake does not reorder or split it.
  list(JOIN libraries "," libraries)
  target_link_libraries(cpprun_libtorch INTERFACE
    "-Wl,--no-as-needed,${libraries},--as-needed" "${directory}/lib/libc10.so")
endfunction()

macro(cpprun_find_libtorch)
  # Not cached, so that a changed LIBTORCH takes effect.
  unset(cpprun_libtorch_header CACHE)
  find_path(cpprun_libtorch_header torch/csrc/api/include/torch/version.h
    HINTS "$ENV{LIBTORCH}" "${Torch_DIR}/../../.." ${CMAKE_PREFIX_PATH}
    PATH_SUFFIXES include ../../include)
  set(CPPRUN_LIBTORCH_DIRECTORY "")
  if(cpprun_libtorch_header)
    get_filename_component(CPPRUN_LIBTORCH_DIRECTORY "${cpprun_libtorch_header}/.." ABSOLUTE)
    cpprun_read_libtorch_version("${CPPRUN_LIBTORCH_DIRECTORY}")
    set(CPPRUN_LIBTORCH_KIND CPU)
    if(EXISTS "${CPPRUN_LIBTORCH_DIRECTORY}/lib/libtorch_cuda.so")
      set(CPPRUN_LIBTORCH_KIND CUDA)
    endif()
  endif()
  if(CPPRUN_LIBTORCH_DIRECTORY AND NOT TARGET cpprun_libtorch)
    add_library(cpprun_libtorch INTERFACE IMPORTED GLOBAL)
    target_include_directories(cpprun_libtorch SYSTEM INTERFACE
      "${CPPRUN_LIBTORCH_DIRECTORY}/include"
      "${CPPRUN_LIBTORCH_DIRECTORY}/include/torch/csrc/api/include")
    target_compile_definitions(cpprun_libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO
      _GLIBCXX_USE_CXX11_ABI=${CPPRUN_LIBTORCH_ABI})
    cpprun_link_libtorch("${CPPRUN_LIBTORCH_DIRECTORY}" "${CPPRUN_LIBTORCH_KIND}")
  endif()
endmacro()

# Sets CPPRUN_LIBTORCH_REASON to the reason why no program can be linked with this LibTorch or, for
# a CPU build, why none starts; empty if it works. A LibTorch for CUDA may need a driver that a
# build machine lacks, so its programs are not started.
function(cpprun_try_libtorch)
  set(CPPRUN_LIBTORCH_REASON "" PARENT_SCOPE)
  if("${CPPRUN_LIBTORCH_WORKS}" STREQUAL "${CPPRUN_LIBTORCH_DIRECTORY}")
    return()
  endif()
  get_target_property(libraries cpprun_libtorch INTERFACE_LINK_LIBRARIES)
  get_target_property(options cpprun_libtorch INTERFACE_LINK_OPTIONS)
  if(NOT options)
    set(options "")
  endif()
  list(APPEND options "LINKER:-rpath,${CPPRUN_LIBTORCH_DIRECTORY}/lib")
  set(program "${CMAKE_BINARY_DIR}/libtorch_check/program")
  try_compile(links "${CMAKE_BINARY_DIR}/libtorch_check" SOURCES "${CPPRUN_EMPTY_SOURCE}"
    LINK_OPTIONS ${options} LINK_LIBRARIES ${libraries} OUTPUT_VARIABLE output
    COPY_FILE "${program}" COPY_FILE_ERROR error)
  if(NOT links)
    string(REGEX MATCH "[^\n]*(libtorch|libc10)[^\n]*: [^\n]*" error "${output}")
    set(CPPRUN_LIBTORCH_REASON "does not link: ${error}" PARENT_SCOPE)
  elseif(CPPRUN_LIBTORCH_KIND STREQUAL "CPU" AND NOT CMAKE_CROSSCOMPILING)
    execute_process(COMMAND "${program}" TIMEOUT 120 RESULT_VARIABLE result ERROR_VARIABLE error)
    if(NOT result STREQUAL "0")
      string(STRIP "${error}" error)
      set(CPPRUN_LIBTORCH_REASON "does not load (${result}) ${error}" PARENT_SCOPE)
      set(links OFF)
    endif()
  endif()
  if(links)
    set(CPPRUN_LIBTORCH_WORKS "${CPPRUN_LIBTORCH_DIRECTORY}" CACHE INTERNAL "")
  endif()
  unset(links CACHE)
endfunction()

# Sets CPPRUN_NCCL_INCLUDES to the include directories with which the nccl backend (`source`)
# compiles, or CPPRUN_NCCL_REASON to the reason why it does not compile.
function(cpprun_try_nccl includes source)
  cpprun_cuda_directories(directories "${CPPRUN_LIBTORCH_DIRECTORY}" include)
  set(CPPRUN_NCCL_REASON "" PARENT_SCOPE)
  foreach(header nccl.h cuda_runtime.h)
    unset(cpprun_cuda_header CACHE)
    find_path(cpprun_cuda_header ${header} HINTS ${directories})
    if(NOT cpprun_cuda_header)
      set(CPPRUN_NCCL_REASON "${header} is in no package of pip's and no toolkit" PARENT_SCOPE)
      return()
    endif()
    list(APPEND directories "${cpprun_cuda_header}")
  endforeach()
  list(REMOVE_DUPLICATES directories)
  list(REMOVE_ITEM directories /usr/include)
  # This takes a quarter of a minute, so it is tried once for each set of directories.
  if(NOT "${CPPRUN_NCCL_TRIED}" STREQUAL "${CPPRUN_LIBTORCH_DIRECTORY};${directories}")
    unset(CPPRUN_NCCL_COMPILES CACHE)
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    try_compile(CPPRUN_NCCL_COMPILES "${CMAKE_BINARY_DIR}/nccl_check" SOURCES "${source}"
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${includes};${directories}"
      COMPILE_DEFINITIONS -DCPPRUN_WITH_NCCL -DUSE_C10D_NCCL -DUSE_DISTRIBUTED
      CXX_STANDARD 20 OUTPUT_VARIABLE output)
    string(REGEX MATCH "error: [^\n]*" error "${output}")
    set(CPPRUN_NCCL_ERROR "${error}" CACHE INTERNAL "")
    set(CPPRUN_NCCL_TRIED "${CPPRUN_LIBTORCH_DIRECTORY};${directories}" CACHE INTERNAL "")
  endif()
  if(NOT CPPRUN_NCCL_COMPILES)
    set(CPPRUN_NCCL_REASON "its headers do not compile here, ${CPPRUN_NCCL_ERROR}" PARENT_SCOPE)
  endif()
  set(CPPRUN_NCCL_INCLUDES "${directories}" PARENT_SCOPE)
endfunction()
