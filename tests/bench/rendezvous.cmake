# SPDX-License-Identifier: BSD-3-Clause
# Meeting: crowds of agents on real connections; run rendezvous_bench.py.
add_executable(link_load link_load.cpp)
target_link_libraries(link_load PRIVATE cpprun_link cpprun_secure cpprun_secret_file
                                        cpprun_house)
target_include_directories(link_load PRIVATE "${PROJECT_SOURCE_DIR}")
# The cost of a heartbeat in the coordinator's decisions, beside a thousand jobs.
add_executable(coordinator_bench coordinator_bench.cpp)
target_link_libraries(coordinator_bench PRIVATE cpprun_coordinator cpprun_house)
target_include_directories(coordinator_bench PRIVATE "${PROJECT_SOURCE_DIR}")
# The cost of reading the status of a job of ten thousand nodes.
add_executable(status_bench status_bench.cpp)
target_link_libraries(status_bench PRIVATE cpprun_coordinator cpprun_house)
target_include_directories(status_bench PRIVATE "${PROJECT_SOURCE_DIR}")
# The cost of the stacks of ten thousand ranks for the coordinator.
add_executable(hang_bench hang_bench.cpp)
target_link_libraries(hang_bench PRIVATE cpprun_hang cpprun_link cpprun_house)
target_include_directories(hang_bench PRIVATE "${PROJECT_SOURCE_DIR}")
# The ranks of hang_crowd_bench.py.
add_executable(hang_worker hang_worker.cpp)
target_link_libraries(hang_worker PRIVATE cpprun_house)
