# SPDX-License-Identifier: BSD-3-Clause
# The store beside PyTorch's libuv server and a raw echo; run store_bench.py.
add_executable(store_load store_load.cpp)
target_link_libraries(store_load PRIVATE cpprun_c10d cpprun_house)
add_executable(raw_echo raw_echo.cpp)
target_link_libraries(raw_echo PRIVATE cpprun_house)
