#pragma once
// From evidence to words: how a worker ended, why, and what it said last.

#include <optional>
#include <string>
#include <vector>

#include "launcher/error_file.h"
#include "launcher/signal_names.h"
#include "launcher/supervisor.h"
#include "proto/link/message.h"

namespace cpprun {

// Everything known of one worker's bad end. The driver reads the files, this room judges.
struct Evidence {
  Outcome outcome;
  std::string executable;               // argv[0], for what could not be started
  std::string error_text;               // content of error.json; empty: none was written
  std::string error_file;               // its path, where it outlives the job
  std::vector<std::string> last_lines;  // of stderr, where they were not the console's alone
  std::string stdout_file;              // where the logs are; empty: nowhere
  std::string stderr_file;
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

struct Diagnosis {
  std::string ending;     // "exited with code 3"
  std::string message;    // one sentence: from error.json, the stage, or the last line of stderr
  std::string traceback;  // from error.json; may be empty
  std::string advice;     // may be empty
  friend bool operator==(const Diagnosis&, const Diagnosis&) = default;
};

// "exited with code 3", "was killed by SIGSEGV (segmentation fault)".
std::string in_words(const link::ExitStatus& status);
// The same for an outcome: also "could not be started: …" and "was ended by us with SIGTERM".
std::string in_words(const Outcome& outcome, const std::string& executable);

Diagnosis diagnose(const Evidence& evidence);

// What the keeper is told of it.
link::Failure failure_of(const Evidence& evidence, GroupRank group_rank, const std::string& host);

}  // namespace cpprun
