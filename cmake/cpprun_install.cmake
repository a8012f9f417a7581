# What other projects get: find_package(cpprun), then cpprun::store (server and clients to embed);
# find_package(cpprun COMPONENTS worker), then cpprun::worker (distributed training on LibTorch).
include(CMakePackageConfigHelpers)
set(CPPRUN_PACKAGE_FOLDER "${CMAKE_INSTALL_LIBDIR}/cmake/cpprun")

set_target_properties(cpprun_store PROPERTIES EXPORT_NAME store)
install(TARGETS cpprun_store cpprun_store_core cpprun_c10d cpprun_text cpprun_fmt
        EXPORT cpprunTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(EXPORT cpprunTargets NAMESPACE cpprun:: DESTINATION ${CPPRUN_PACKAGE_FOLDER}
        COMPONENT development)

# Only what the public headers include; they need no library but tl::expected.
install(FILES proto/bounds.h proto/clock.h proto/result.h DESTINATION include/cpprun/proto
        COMPONENT development)
install(FILES rendezvous/client/io/async_store_client.h rendezvous/client/io/store_client.h
        DESTINATION include/cpprun/rendezvous/client/io COMPONENT development)
install(FILES rendezvous/store/io/store_server.h
        DESTINATION include/cpprun/rendezvous/store/io COMPONENT development)

# The worker component: cpprun::env for any program, cpprun::worker where LibTorch was there.
set_target_properties(cpprun_env PROPERTIES EXPORT_NAME env)
install(TARGETS cpprun_env EXPORT cpprunTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(FILES proto/ids.h proto/worker_contract.h DESTINATION include/cpprun/proto
        COMPONENT development)
install(DIRECTORY worker/env DESTINATION include/cpprun/worker COMPONENT development
        FILES_MATCHING PATTERN "*.h")
install(FILES worker/torch/files/pickle_reader.h worker/torch/files/pickle_rebuild.h
              worker/torch/files/pickle_writer.h worker/torch/files/safetensors.h
        DESTINATION include/cpprun/worker/torch/files COMPONENT development)
if(TARGET cpprun_worker)
  set_target_properties(cpprun_worker PROPERTIES EXPORT_NAME worker)
  install(TARGETS cpprun_worker EXPORT cpprunWorkerTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT cpprunWorkerTargets NAMESPACE cpprun:: DESTINATION ${CPPRUN_PACKAGE_FOLDER}
          COMPONENT development)
  install(DIRECTORY worker/torch DESTINATION include/cpprun/worker COMPONENT development
          FILES_MATCHING PATTERN "*.h" PATTERN "gloo_shim" EXCLUDE PATTERN "compat" EXCLUDE
          PATTERN "process_group_parts.h" EXCLUDE)
endif()

configure_package_config_file(cmake/cpprunConfig.cmake.in cpprunConfig.cmake
                              INSTALL_DESTINATION ${CPPRUN_PACKAGE_FOLDER})
write_basic_package_version_file(cpprunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/cpprunConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/cpprunConfigVersion.cmake"
        DESTINATION ${CPPRUN_PACKAGE_FOLDER} COMPONENT development)

# Whoever gets the programs gets the terms with them.
install(FILES LICENSE NOTICE.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES LICENSE NOTICE.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT development
        EXCLUDE_FROM_ALL)
