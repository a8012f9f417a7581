// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace cpprun {

const std::vector<Flag>& flags() {
  static const std::vector<Flag> all = {
      {"nnodes", 0, "N|MIN:MAX", true, "Number of nodes, or a range of it (default 1)"},
      {"nproc-per-node", 0, "N|cpu|gpu|auto", true, "Workers on this node (default 1)"},
      {"node-rank", 0, "N", true, "This node's rank, from 0"},
      {"standalone", 0, "", true, "One node by itself, on a free port"},
      {"master-addr", 0, "HOST", true, "Host of the master (default 127.0.0.1)"},
      {"master-port", 0, "PORT", true, "Port of the master (default 29500)"},
      {"rdzv-backend", 0, "NAME", true, "How nodes meet: static (default) or c10d"},
      {"rdzv-endpoint", 0, "HOST[:PORT]", true, "Where nodes meet, instead of --master-*"},
      {"rdzv-id", 0, "ID", true, "The job's id"},
      {"rdzv-conf", 0, "K=V,...", true,
       "join_timeout, last_call_timeout, keep_alive_interval, ..."},
      {"local-addr", 0, "HOST", true, "This node's own address"},
      {"module", 'm', "", true, "The script is a Python module, as python -m"},
      {"no-python", 0, "", true, "Execute the script itself, found on PATH"},
      {"run-path", 0, "", true, "The script is a file for Python, whatever its name"},
      {"role", 0, "NAME", true, "Role of the workers (default: default)"},
      {"pass-local-rank", 0, "OPTION", true, "Hand the script --OPTION=<local rank> too"},
      {"use-env", 0, "", false, "As always: LOCAL_RANK is in the environment"},
      {"virtual-local-rank", 0, "", true, "Every worker sees one GPU only, as local rank 0"},
      {"numa-binding", 0, "KIND", false,
       "Bind near the GPU: node, socket, exclusive, core-complex"},
      {"max-restarts", 0, "N", true, "Restarts of the whole job (default 0)"},
      {"restart-backoff", 0, "SECONDS", true, "Pause before a restart, doubled each time"},
      {"restart-window", 0, "SECONDS", true, "Restarts longer ago than this no longer count"},
      {"no-restart-codes", 0, "CODES", true, "Exit codes and signals that end the job: 2,SIGSEGV"},
      {"shutdown-timeout", 0, "SECONDS", true,
       "Grace between TERM and KILL (30; 25 in Slurm, Kubernetes)"},
      {"signals-to-handle", 0, "NAMES", true,
       "Signals that end the job (SIGTERM,SIGINT,SIGHUP,SIGQUIT)"},
      {"report", 0, "FILE", true, "How the job ended and why, as JSON, at its end"},
      {"events", 0, "FILE", true, "What happens, as it happens, a JSON object a line"},
      {"log-dir", 0, "FOLDER", true, "Where log files go"},
      {"log-keep", 0, "N", true, "Only the last N attempts' folders stay (default: all)"},
      {"log-max-bytes", 0, "BYTES", true,
       "At most so much in a log file, and in the one before it"},
      {"redirects", 'r', "STREAMS", true, "Streams to files: 0-3, or RANK:0-3,..."},
      {"tee", 't', "STREAMS", true, "Streams to console and files: 0-3, or RANK:0-3,..."},
      {"local-ranks-filter", 0, "RANKS", true, "Only these local ranks reach the console"},
      {"stderr", 0, "KIND", true, "pass (default): through cpprun, for the report; or inherit"},
      {"duplicate-stdout-filters", 0, "WORDS", true, "Tee'd lines with one of them, in one file"},
      {"duplicate-stderr-filters", 0, "WORDS", true, "The same for stderr"},
      {"monitor-interval", 0, "SECONDS", true, "Without effect: nothing polls here"},
      {"start-method", 0, "NAME", true, "Without effect: workers are always executed"},
      {"log-level", 0, "LEVEL", true, "Of cpprun's own words: error, warning, info, debug"},
      {"log-time", 0, "WHEN", true, "Before them: auto (not on a terminal), always, never"},
      {"event-log-handler", 0, "NAME", true, "console: events to stderr; null (default): not"},
      {"logs-specs", 0, "NAME", false, "Only default"},
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
      return complain("{} is no flag of cpprun; cpprun --help lists them", spelled);
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
        return complain("{} is no flag of cpprun; cpprun --help lists them", spelled);
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
