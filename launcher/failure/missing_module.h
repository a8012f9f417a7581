// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A Python module that was not found: its name, and the advice, by the modules beside the script.
// Pure: the evidence collector looks at the disk.

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

struct ModuleSight {
  std::string similar = {};  // a module of a similar name where Python looks, as "pkg.utils"
  std::string own_package =
      {};  // the first part of its name, where that is a package beside the script
  std::string elsewhere = {};   // a directory with the very module, where Python does not look
  bool in_environment = false;  // the interpreter is a virtual environment's or conda's
  friend bool operator==(const ModuleSight&, const ModuleSight&) = default;
};

// "pkg.utils" of "ModuleNotFoundError: No module named 'pkg.utils'", the last such line; else
// empty.
std::string missing_module(const std::vector<std::string>& lines);

// The name that `wanted` is most likely a misspelling of; else empty.
std::string similar_name(std::string_view wanted, const std::vector<std::string>& names);

// `executable` ran, which need not be Python itself: it may be a shell.
std::string missing_module_advice(std::string_view name, const ModuleSight& sight,
                                  std::string_view executable);

}  // namespace cpprun
