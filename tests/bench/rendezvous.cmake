# Meeting: crowds of agents on real connections; run rendezvous_bench.py.
add_executable(link_load link_load.cpp)
target_link_libraries(link_load PRIVATE cpprun_link cpprun_house)
target_include_directories(link_load PRIVATE "${PROJECT_SOURCE_DIR}")
