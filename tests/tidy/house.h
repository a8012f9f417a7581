// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// All rules over all files: those that look at one file, and those that look at the whole tree.

#include <string>
#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// Every source file, script and document of the repository; not what was built or fetched.
Tree read_tree(const std::string& directory);

// Writes the tables of limits.h for that directory.
void write_limits(const std::string& root);

// Every class, or capability, has a test file: launcher/plan/devices.cpp is tested by
// tests/launcher/plan/numa_test.cpp, proto/link/codec.cpp by tests/proto/link_codec_test.cpp, or
// either by another *_test.cpp in those directories that includes its header. What acts (io/,
// programs) is tested from outside.
std::vector<Violation> check_each_class_has_a_test(const Tree& tree);

// Every directory with sources says in a README.md what lives there, what does not, and which way
// it includes.
std::vector<Violation> check_each_room_has_a_readme(const Tree& tree);

// A test, in C++, Python or shell, that no CMakeLists.txt names by its whole path never runs.
std::vector<Violation> check_each_test_has_a_target(const Tree& tree);

// docs/embedding.md and docs/cpp-from-libtorch.md show programs in C, C++ and Python; each is one
// that a test builds and runs, word for word.
std::vector<Violation> check_shown_programs(const Tree& tree);

// Everything, in the order of the files.
std::vector<Violation> check_house(const Tree& tree);

}  // namespace cpprun::tidy
