# SPDX-License-Identifier: BSD-3-Clause
# The MPI for the mpi backend of worker/torch. cpprun_find_mpi() sets, for all directories:
#   CPPRUN_WITH_MPI   whether an MPI was found
#   CPPRUN_MPI_FLAGS  the compiler options for a file that includes mpi.h
# and prints one line with what it found. It does not use MPI's C++ bindings, which MPI has removed.
option(CPPRUN_MPI "Build the mpi backend of worker/torch, if an MPI is found" ON)

function(cpprun_find_mpi)
  set(found OFF)
  if(CPPRUN_MPI)
    set(MPI_CXX_SKIP_MPICXX ON)
    cpprun_probe_package(works MPI CXX)
    if(works)
      find_package(MPI QUIET COMPONENTS CXX)
    endif()
    if(works AND MPI_CXX_FOUND AND MPI_CXX_VERSION VERSION_LESS 3.0)
      cpprun_without("backend mpi" "${MPI_CXX_VERSION} of the MPI that was found has no \
non-blocking collectives, which came with 3.0")
    elseif(works AND MPI_CXX_FOUND)
      set(found ON)
      set_target_properties(MPI::MPI_CXX PROPERTIES IMPORTED_GLOBAL ON)
      set(flags ${MPI_CXX_INCLUDE_DIRS})
      list(TRANSFORM flags PREPEND "-isystem")
      # Open MPI's and MPICH's macros to disable those bindings.
      list(APPEND flags -DCPPRUN_WITH_MPI -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)
      list(GET MPI_CXX_LIBRARIES -1 library)
      message(STATUS "backend mpi: MPI ${MPI_CXX_VERSION}, ${library}")
    else()
      cpprun_without("backend mpi" "no MPI with headers and libraries was found (Debian: \
libopenmpi-dev), see ${CMAKE_BINARY_DIR}/probe_MPI.log")
    endif()
  else()
    cpprun_without("backend mpi" "CPPRUN_MPI=OFF")
  endif()
  set(CPPRUN_WITH_MPI "${found}" CACHE INTERNAL "")
  set(CPPRUN_MPI_FLAGS "${flags}" CACHE INTERNAL "")
endfunction()
