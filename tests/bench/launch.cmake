# SPDX-License-Identifier: BSD-3-Clause
# Launching, restarting, idling: cpprun beside torchrun and beside the physical limit. Run by ./dev
# bench.
cpprun_library(launch_kit SOURCES launch_kit.cpp)
target_include_directories(launch_kit PUBLIC "${PROJECT_SOURCE_DIR}")
foreach(program launch_bench restart_bench idle_bench)
  add_executable(${program} ${program}.cpp)
  target_link_libraries(${program} PRIVATE launch_kit cpprun_house)
endforeach()

# Linked statically, not to measure the dynamic linker.
foreach(program launch_worker bare_launcher)
  add_executable(${program} ${program}.cpp)
  target_link_libraries(${program} PRIVATE cpprun_house)
  target_include_directories(${program} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_options(${program} PRIVATE -static)
endforeach()
