# SPDX-License-Identifier: BSD-3-Clause
# The CMake package for other projects: find_package(cpprun) defines cpprun::store and
# cpprun::store_shared (an embeddable store and its client), cpprun::job (a rendezvous and a
# launcher), and cpprun::env (a worker's environment); find_package(cpprun COMPONENTS worker) also
# defines cpprun::worker (distributed training on LibTorch).
include(CMakePackageConfigHelpers)
set(CPPRUN_PACKAGE_DIRECTORY "${CMAKE_INSTALL_LIBDIR}/cmake/cpprun")

# Only public headers are installed, as cpprun_publish() wrote them.
get_property(published GLOBAL PROPERTY CPPRUN_PUBLIC_HEADERS)
foreach(row ${published})
  string(REGEX REPLACE "^.*=" "" name "${row}")
  get_filename_component(directory "${name}" DIRECTORY)
  install(FILES "${CPPRUN_PUBLIC_INCLUDE}/${name}" DESTINATION "include/${directory}"
          COMPONENT development)
endforeach()

if(TARGET cpprun_store_static)
  set_target_properties(cpprun_store_static PROPERTIES EXPORT_NAME store)
  install(TARGETS cpprun_store_static EXPORT cpprunTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endif()
if(TARGET cpprun_env)
  # With the static libraries that it consists of.
  set_target_properties(cpprun_env PROPERTIES EXPORT_NAME env)
  install(TARGETS cpprun_env cpprun_text cpprun_fmt EXPORT cpprunTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endif()
if(TARGET cpprun_store_shared)
  set_target_properties(cpprun_store_shared PROPERTIES EXPORT_NAME store_shared)
  install(TARGETS cpprun_store_shared EXPORT cpprunTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endif()
if(TARGET cpprun_job_shared)
  set_target_properties(cpprun_job_shared PROPERTIES EXPORT_NAME job)
  install(TARGETS cpprun_job_shared EXPORT cpprunTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endif()
if(SKBUILD)
  # For the Python package, which is beside it. A wheel has no links.
  install(FILES $<TARGET_FILE:cpprun_store_shared> DESTINATION "${SKBUILD_PLATLIB_DIR}/cpprun"
          RENAME libcpprun_store.so.1)
endif()
# For programs without CMake. Its directory shows where the package is.
file(RELATIVE_PATH CPPRUN_PC_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
configure_file(cmake/cpprun_store.pc.in cpprun_store.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/cpprun_store.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
install(EXPORT cpprunTargets NAMESPACE cpprun:: DESTINATION ${CPPRUN_PACKAGE_DIRECTORY}
        COMPONENT development)

if(TARGET cpprun_worker)
  set_target_properties(cpprun_worker PROPERTIES EXPORT_NAME worker)
  install(TARGETS cpprun_worker EXPORT cpprunWorkerTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT cpprunWorkerTargets NAMESPACE cpprun:: DESTINATION ${CPPRUN_PACKAGE_DIRECTORY}
          COMPONENT development)
endif()

configure_package_config_file(cmake/cpprunConfig.cmake.in cpprunConfig.cmake
                              INSTALL_DESTINATION ${CPPRUN_PACKAGE_DIRECTORY})
write_basic_package_version_file(cpprunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/cpprunConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/cpprunConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/cpprun_libtorch.cmake"
        DESTINATION ${CPPRUN_PACKAGE_DIRECTORY} COMPONENT development)

if(CPPRUN_STORE_ONLY)
  return()
endif()
# For systemd's directories: a package writes to them, `cmake --install` does not.
install(FILES docs/operating/cpprund.service docs/operating/cpprund.socket
        DESTINATION lib/systemd/system COMPONENT service EXCLUDE_FROM_ALL)

# The programs are installed with their license.
install(FILES LICENSE NOTICE.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES LICENSE NOTICE.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT development
        EXCLUDE_FROM_ALL)
