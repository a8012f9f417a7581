// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The command line of the examples: flags in both spellings (--batch-size, --batch_size), the
// --local-rank of some launchers, and exit code 2 for an error. CLI11 is behind it: each program
// would spend seven seconds on compiling that library.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace cpprun::examples {

template <class Number>
struct Range {
  Number min;
  Number max;
};

// "8,2" → 8 and 2: the number of workers of each node; "8" for `nodes` nodes → 8 each. Empty if the
// text is not such a list, or not one number for each node.
std::vector<int> worker_counts(const std::string& text, int nodes);

class CommandLine {
 public:
  // `description`: the first line of the help.
  explicit CommandLine(const std::string& description);
  ~CommandLine();

  // Flags with a value. `names` in CLI11's notation: "-g,--gpus". The value is the default, which
  // the help shows. A value that is out of range, or none of the choices, is rejected.
  void add(const std::string& names, int& value, const std::string& help,
           std::optional<Range<int>> range = {});
  void add(const std::string& names, double& value, const std::string& help,
           std::optional<Range<double>> range = {});
  void add(const std::string& names, std::string& value, const std::string& help,
           const std::vector<std::string>& choices = {});
  // A flag without a value.
  void add_flag(const std::string& names, bool& value, const std::string& help);
  // --init-method, --rank, --world-size and --gpu-devices, for processes that are started by hand.
  // parse_or_exit() sets the last three as a launcher's variables, RANK, WORLD_SIZE and
  // CUDA_VISIBLE_DEVICES, unless they are not given.
  void add_meeting(std::string& init_method);
  // A word without a flag, such as "FILE". It must be given.
  void add_word(const std::string& name, std::string& value, const std::string& help);
  // --backend, of the tensors; init_process_group() rejects invalid values.
  void add_backend(std::string& backend);

  // Called when all values are set. Returns what is wrong with them together; empty: nothing.
  void check(std::function<std::string()> problem);

  // For main(): the exit code if the program must not continue: 0 after help, 2 after a command
  // line error. The text has already been printed.
  std::optional<int> parse_or_exit(int argc, const char* const* argv);

 private:
  std::string export_meeting();  // returns what is wrong, or an empty string

  std::unique_ptr<CLI::App> app_;
  const std::string* init_method_ = nullptr;  // null without add_meeting()
  int rank_ = -1;
  int world_size_ = -1;
  std::string gpu_devices_;
};

}  // namespace cpprun::examples
