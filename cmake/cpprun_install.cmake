# What other projects get: find_package(cpprun), then cpprun::store (server and clients to embed).
include(CMakePackageConfigHelpers)
set(CPPRUN_PACKAGE_FOLDER "${CMAKE_INSTALL_LIBDIR}/cmake/cpprun")

set_target_properties(cpprun_store PROPERTIES EXPORT_NAME store)
install(TARGETS cpprun_store cpprun_store_core cpprun_c10d cpprun_fmt EXPORT cpprunTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(EXPORT cpprunTargets NAMESPACE cpprun:: DESTINATION ${CPPRUN_PACKAGE_FOLDER}
        COMPONENT development)

# Only what the public headers include; they need no library but tl::expected.
install(FILES proto/bounds.h proto/clock.h proto/result.h DESTINATION include/cpprun/proto
        COMPONENT development)
install(FILES rendezvous/io/async_store_client.h rendezvous/io/store_client.h
              rendezvous/io/store_server.h
        DESTINATION include/cpprun/rendezvous/io COMPONENT development)

configure_package_config_file(cmake/cpprunConfig.cmake.in cpprunConfig.cmake
                              INSTALL_DESTINATION ${CPPRUN_PACKAGE_FOLDER})
write_basic_package_version_file(cpprunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/cpprunConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/cpprunConfigVersion.cmake"
        DESTINATION ${CPPRUN_PACKAGE_FOLDER} COMPONENT development)
