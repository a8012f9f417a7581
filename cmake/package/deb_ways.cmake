# SPDX-License-Identifier: BSD-3-Clause
# Runs on the tree of the .deb before it is packed, and applies Debian's conventions.
set(share "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share")
file(RENAME "${share}/zsh/site-functions" "${share}/zsh/vendor-completions")
file(RENAME "${share}/doc/cpprun/LICENSE" "${share}/doc/cpprun/copyright")
file(GLOB pages "${share}/man/man*/*")
execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
