#include "launcher/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "proto/bounds.h"

namespace cpprun {

namespace {

std::string errno_in_words(int error_number) {
  return std::generic_category().message(error_number);
}

std::string not_started(const SpawnError& error, const std::string& executable) {
  const auto what = error.stage == SpawnStage::exec ? fmt::format("execute \"{}\"", executable)
                                                    : in_words(error.stage);
  return fmt::format("could not be started: cannot {}: {}", what,
                     errno_in_words(error.error_number));
}

std::string advice_for(const SpawnError& error) {
  const bool exec = error.stage == SpawnStage::exec;
  switch (error.error_number) {
    case ENOEXEC:
      return exec ? "a script has to begin with #! and its interpreter" : "";
    case ENOENT:
      return exec ? "if the file is there, the interpreter its #! line names is not" : "";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case EAGAIN:
      return "raise the limit of processes (ulimit -u, or the container's pids limit)";
    default:
      return "";
  }
}

std::string advice_for(const Outcome& outcome) {
  if (outcome.given_up) {
    return "it sits in the kernel, most often in a driver or on a lost disk; only a reboot may end "
           "it";
  }
  if (outcome.spawn_error) return advice_for(*outcome.spawn_error);
  if (outcome.our_signal != 0 || !outcome.status.signalled) return "";
  switch (outcome.status.value) {
    case SIGKILL:
      return "somebody else killed it; most often the kernel, when memory ran out: see dmesg and "
             "the "
             "container's memory limit";
    case SIGBUS:
      return "most often /dev/shm or a memory-mapped disk is full";
    default:
      return "";
  }
}

// The last line that says something: a Python traceback ends with the exception itself.
std::string last_word(const std::vector<std::string>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->find_first_not_of(" \t") != std::string::npos) return *line;
  }
  return "";
}

// How many bytes of a well-formed UTF-8 character begin the text; 0 where none does.
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = first < 0x80U                     ? 1
                             : first >= 0xC2U && first < 0xE0U ? 2
                             : first >= 0xE0U && first < 0xF0U ? 3
                             : first >= 0xF0U && first < 0xF5U ? 4
                                                               : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) return 0;
  }
  return length;
}

// A worker's words as they may travel in a message: one line, text only, not too long.
std::string travelling(std::string_view text) {
  std::string result;
  while (!text.empty() && result.size() + 4 <= bounds::failure_message_bytes_max) {
    const auto length = character_length(text);
    const bool control = length == 1 && static_cast<unsigned char>(text.front()) < 0x20U;
    if (length == 0) {
      result += '?';
    } else if (control || text.front() == '\x7f') {
      result += ' ';
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace

std::string in_words(const link::ExitStatus& status) {
  if (!status.signalled) return fmt::format("exited with code {}", status.value);
  const auto meaning = signal_meaning(status.value);
  return meaning.empty() ? fmt::format("was killed by {}", signal_name(status.value))
                         : fmt::format("was killed by {} ({})", signal_name(status.value), meaning);
}

std::string in_words(const Outcome& outcome, const std::string& executable) {
  if (outcome.spawn_error) return not_started(*outcome.spawn_error, executable);
  if (outcome.given_up) return "did not die of SIGKILL and was given up";
  if (outcome.our_signal == 0) return in_words(outcome.status);
  const auto signal = signal_name(outcome.our_signal);
  const bool by_us = outcome.status.signalled && outcome.status.value == outcome.our_signal;
  if (by_us) return fmt::format("was ended by us with {}", signal);
  return fmt::format("{} after we sent it {}", in_words(outcome.status), signal);
}

Diagnosis diagnose(const Evidence& evidence) {
  const auto& outcome = evidence.outcome;
  Diagnosis diagnosis;
  diagnosis.ending = in_words(outcome, evidence.executable);
  diagnosis.advice = advice_for(outcome);
  if (!evidence.error_text.empty()) {
    auto error = parse_error_file(evidence.error_text);
    if (error) {
      diagnosis.message = std::move(error->message);
      diagnosis.traceback = std::move(error->traceback);
    } else {
      diagnosis.advice += diagnosis.advice.empty() ? "" : "; ";
      diagnosis.advice += error.error().reason;
    }
  }
  if (diagnosis.message.empty()) diagnosis.message = last_word(evidence.last_lines);
  return diagnosis;
}

link::Failure failure_of(const Evidence& evidence, GroupRank group_rank, const std::string& host) {
  const auto diagnosis = diagnose(evidence);
  const auto& outcome = evidence.outcome;
  link::Failure failure;
  failure.rank = outcome.rank;
  failure.local_rank = outcome.local_rank;
  failure.group_rank = group_rank;
  failure.host = host;
  failure.pid = outcome.pid;
  failure.status = outcome.status;
  failure.time = outcome.time;
  const bool unusual = outcome.spawn_error || outcome.given_up;
  failure.message = travelling(unusual ? diagnosis.ending : diagnosis.message);
  return failure;
}

}  // namespace cpprun
