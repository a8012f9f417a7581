# SPDX-License-Identifier: BSD-3-Clause
# The store beside PyTorch's libuv server and a raw echo; run store_bench.py.
add_executable(store_load store_load.cpp)
target_link_libraries(store_load PRIVATE cpprun_c10d cpprun_house)
add_executable(embedded_store embedded_store.cpp)
target_link_libraries(embedded_store PRIVATE cpprun_store_c cpprun_house)
# A hundred thousand ranks that use it through their nodes' links.
add_executable(node_stores_bench node_stores_bench.cpp)
target_link_libraries(node_stores_bench PRIVATE cpprun_store_core cpprun_store_streams cpprun_house)
target_include_directories(node_stores_bench PRIVATE "${PROJECT_SOURCE_DIR}")
add_executable(raw_echo raw_echo.cpp)
target_link_libraries(raw_echo PRIVATE cpprun_house)
