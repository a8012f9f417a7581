// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace cpprun {

const std::vector<Flag>& flags() {
  static const std::vector<Flag> all = {
      {"nnodes", 0, "N|MIN:MAX", true, "Number of nodes, or a range (default 1)"},
      {"node-rank", 0, "N", true, "Rank of this node, from 0"},
      {"standalone", 0, "", true, "Run on this node alone, on a free port"},
      {"master-addr", 0, "HOST", true, "Host of the master (default 127.0.0.1)"},
      {"master-port", 0, "PORT", true, "Port of the master (default 29500)"},
      {"rdzv-backend", 0, "NAME", true, "How nodes find each other: static (default) or c10d"},
      {"rdzv-endpoint", 0, "HOST[:PORT]", true, "Where nodes meet, instead of --master-*"},
      {"rdzv-id", 0, "ID", true, "Id of the job"},
      {"rdzv-conf", 0, "K=V,...", true,
       "join_timeout, last_call_timeout, keep_alive_interval, ..."},
      {"local-addr", 0, "HOST", true, "Address of this node"},
      {"nproc-per-node", 0, "N|cpu|gpu|auto", true, "Workers on this node (default 1)"},
      {"module", 'm', "", true, "The script is a Python module, as with python -m"},
      {"no-python", 0, "", true, "Execute the script itself, found on PATH"},
      {"run-path", 0, "", true, "The script is a Python file, whatever its name"},
      {"role", 0, "NAME", true, "Role of the workers (default: default)"},
      {"pass-local-rank", 0, "OPTION", true, "Also pass --OPTION=<local rank> to the script"},
      {"use-env", 0, "", false, "Accepted: LOCAL_RANK is always in the environment"},
      {"virtual-local-rank", 0, "", true, "Show each worker one GPU only, as local rank 0"},
      {"numa-binding", 0, "KIND", false,
       "Bind near the GPU: node, socket, exclusive, core-complex"},
      {"max-restarts", 0, "N", true, "Restarts of the whole job (default 0)"},
      {"restart-backoff", 0, "SECONDS", true, "Pause before a restart, doubled each time"},
      {"restart-window", 0, "SECONDS", true, "Forget restarts that are longer ago than this"},
      {"no-restart-codes", 0, "CODES", true,
       "Exit codes and signals that end the job, e.g. 2,SIGSEGV"},
      {"shutdown-timeout", 0, "SECONDS", true,
       "Grace between TERM and KILL (30; under Slurm, Kubernetes 25)"},
      {"signals-to-handle", 0, "NAMES", true,
       "Signals that end the job (SIGTERM,SIGINT,SIGHUP,SIGQUIT)"},
      {"report", 0, "FILE", true, "Write how the job ended, and why, as JSON"},
      {"events", 0, "FILE", true, "Write what happens as it happens, one JSON object a line"},
      {"log-dir", 0, "FOLDER", true, "Folder for log files"},
      {"log-keep", 0, "N", true, "Keep the folders of the last N attempts (default: all)"},
      {"log-max-bytes", 0, "BYTES", true, "Largest log file; the one before it is kept as well"},
      {"redirects", 'r', "STREAMS", true, "Streams to files: 0-3, or RANK:0-3,..."},
      {"tee", 't', "STREAMS", true, "Streams to console and files: 0-3, or RANK:0-3,..."},
      {"local-ranks-filter", 0, "RANKS", true, "Show only these local ranks on the console"},
      {"stderr", 0, "KIND", true, "pass (default): through cpprun, for the report; or inherit"},
      {"duplicate-stdout-filters", 0, "WORDS", true,
       "Collect teed lines with one of these words in a file"},
      {"duplicate-stderr-filters", 0, "WORDS", true, "The same for stderr"},
      {"log-level", 0, "LEVEL", true, "cpprun's own messages: error, warning, info, debug"},
      {"log-time", 0, "WHEN", true,
       "Time in front of them: auto (not on a terminal), always, never"},
      {"event-log-handler", 0, "NAME", true, "console: events to stderr; null (default): nowhere"},
      {"monitor-interval", 0, "SECONDS", true, "No effect: cpprun does not poll"},
      {"start-method", 0, "NAME", true, "No effect: workers are always executed"},
      {"logs-specs", 0, "NAME", false, "Only \"default\" is accepted"},
      {"help", 'h', "", false, "Show this help"},
      {"version", 0, "", false, "Show the version"},
  };
  return all;
}

std::string environment_name(const Flag& flag) {
  std::string name = "PET_";
  for (const char byte : flag.name) {
    name += byte == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(byte)));
  }
  return name;
}

namespace {

// The flags a long spelling may mean: one where it is a full name, else all it begins.
std::vector<const Flag*> candidates(std::string_view typed) {
  std::string name(typed);
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<const Flag*> found;
  for (const auto& flag : flags()) {
    if (flag.name == name) return {&flag};
    if (flag.name.starts_with(name)) found.push_back(&flag);
  }
  return found;
}

const Flag* by_letter(char letter) {
  for (const auto& flag : flags()) {
    if (flag.letter == letter) return &flag;
  }
  return nullptr;
}

// A word that stands where a value is expected but is a flag itself. Negative numbers are values.
bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !std::isdigit(static_cast<unsigned char>(word[1])) &&
         word[1] != '.';
}

class Reader {
 public:
  explicit Reader(const std::vector<std::string>& words) : words_(words) {}

  TypedWords read() {
    while (next_ < words_.size() && !result_.script) {
      const auto& word = words_[next_++];
      if (word == "--") {
        take_script(true);
        break;
      }
      if (word.starts_with("--")) {
        take_long(word);
      } else if (word.size() > 1 && word[0] == '-') {
        take_short(word);
      } else {
        --next_;
        take_script(false);
      }
    }
    return std::move(result_);
  }

 private:
  void take_script(bool after_dashes) {
    if (next_ == words_.size()) return;
    result_.script = words_[next_++];
    // torchrun swallows the dashes that follow the script, unless there were some before it.
    if (!after_dashes && next_ < words_.size() && words_[next_] == "--") ++next_;
    result_.arguments.assign(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end());
    next_ = words_.size();
  }

  void take_long(const std::string& word) {
    const auto equals = word.find('=');
    const auto spelled = word.substr(0, equals);
    const auto found = candidates(std::string_view(spelled).substr(2));
    if (found.empty()) {
      return complain("unknown flag {}; cpprun --help lists all flags", spelled);
    }
    if (found.size() > 1) {
      std::vector<std::string> names;
      for (const auto* flag : found) names.push_back(fmt::format("--{}", flag->name));
      return complain("{} could mean {}; write it out", spelled, fmt::join(names, " or "));
    }
    if (!found.front()->takes_value() && equals != std::string::npos) {
      return complain("--{} takes no value; leave out \"{}\"", found.front()->name,
                      word.substr(equals));
    }
    if (equals != std::string::npos) {
      return keep(found.front(), spelled, word.substr(equals + 1));
    }
    take_value(found.front(), spelled);
  }

  void take_short(const std::string& word) {
    // Letters may be glued together as long as they take no value, and a value to its letter.
    for (std::size_t at = 1; at < word.size(); ++at) {
      const auto spelled = fmt::format("-{}", word[at]);
      const auto* flag = by_letter(word[at]);
      if (flag == nullptr) {
        return complain("unknown flag {}; cpprun --help lists all flags", spelled);
      }
      if (flag->takes_value() && at + 1 < word.size()) {
        const auto value = word.substr(at + 1);
        return keep(flag, spelled, value.starts_with('=') ? value.substr(1) : value);
      }
      take_value(flag, spelled);
    }
  }

  void take_value(const Flag* flag, const std::string& spelled) {
    if (!flag->takes_value()) return keep(flag, spelled, "");
    if (next_ == words_.size() || is_flag(words_[next_])) {
      return complain("{} needs a value: {}={}", spelled, spelled, flag->value);
    }
    keep(flag, spelled, words_[next_++]);
  }

  void keep(const Flag* flag, const std::string& spelled, const std::string& value) {
    result_.typed.push_back({flag, spelled, value});
  }

  template <class... Values>
  void complain(fmt::format_string<Values...> text, Values&&... values) {
    result_.mistakes.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  const std::vector<std::string>& words_;
  std::size_t next_ = 0;
  TypedWords result_;
};

}  // namespace

TypedWords read_words(const std::vector<std::string>& words) {
  return Reader(words).read();
}

}  // namespace cpprun
