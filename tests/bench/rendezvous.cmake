# Meeting: crowds of agents on real connections; run rendezvous_bench.py.
add_executable(link_load link_load.cpp)
target_link_libraries(link_load PRIVATE cpprun_link cpprun_house)
target_include_directories(link_load PRIVATE "${PROJECT_SOURCE_DIR}")
# What a heartbeat costs the keeper's decisions, beside a thousand jobs.
add_executable(keeper_bench keeper_bench.cpp)
target_link_libraries(keeper_bench PRIVATE cpprun_keeper cpprun_house)
target_include_directories(keeper_bench PRIVATE "${PROJECT_SOURCE_DIR}")
