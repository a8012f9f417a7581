# Launching: cpprun beside torchrun and beside the physical limit. Run by ./dev bench.
add_executable(launch_worker launch_worker.cpp)
add_executable(bare_launcher bare_launcher.cpp)
add_executable(launch_bench launch_bench.cpp)
foreach(program launch_worker bare_launcher launch_bench)
  target_link_libraries(${program} PRIVATE cpprun_house)
  target_include_directories(${program} PRIVATE "${PROJECT_SOURCE_DIR}")
endforeach()
# Not to measure the dynamic linker.
target_link_options(launch_worker PRIVATE -static)
target_link_options(bare_launcher PRIVATE -static)
