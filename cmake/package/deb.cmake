# SPDX-License-Identifier: BSD-3-Clause
# CPack settings for the .deb. package.sh sets in the environment which build is packed.
set(CPACK_GENERATOR DEB)
set(CPACK_CMAKE_GENERATOR Ninja)  # it has nothing to build before it installs
set(CPACK_PACKAGE_NAME cpprun)
set(CPACK_PACKAGE_VERSION "$ENV{CPPRUN_VERSION}")
set(CPACK_PACKAGE_VENDOR cpprun)
set(CPACK_PACKAGE_CONTACT "the authors of cpprun <cpprun@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Launcher and rendezvous daemon for distributed training")
set(CPACK_PACKAGE_DESCRIPTION "Starts the workers of a distributed training on one machine or \
many, watches over them and restarts them. Takes torchrun's command line, and needs no Python.")
set(CPACK_PACKAGE_FILE_NAME "cpprun_$ENV{CPPRUN_VERSION}_$ENV{CPPRUN_DEBIAN}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
# The programs, their pages and the systemd units. The libraries are in the CMake package.
set(CPACK_INSTALL_CMAKE_PROJECTS "$ENV{CPPRUN_BUILD};cpprun;Unspecified;/"
                                 "$ENV{CPPRUN_BUILD};cpprun;service;/")
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/deb_ways.cmake")
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE "$ENV{CPPRUN_DEBIAN}")
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.17)")
# Loaded only if a secret is used; the programs start without it.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libssl3 | libssl3t64")
