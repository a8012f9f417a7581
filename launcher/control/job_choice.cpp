// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/job_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "proto/link/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::size_t listed_max = 20;

std::string quoted(const std::string& id) {
  return fmt::format("\"{}\"", plain_line(id, bounds::name_shown_bytes_max));
}

// Adds the endpoint if two endpoints have a job of the same name.
std::string listed_jobs(const std::vector<KnownJob>& known, const std::vector<std::size_t>& which) {
  std::string text;
  for (std::size_t at = 0; at < which.size() && at < listed_max; ++at) {
    const KnownJob& job = known[which[at]];
    const bool is_double = std::ranges::count(known, job.id, &KnownJob::id) > 1;
    text += at == 0 ? "" : ", ";
    text += quoted(job.id);
    if (is_double) text += fmt::format(" at {}", plain_line(job.place));
  }
  if (which.size() > listed_max) text += fmt::format(" and {} more", which.size() - listed_max);
  return text;
}

NoJob cannot_tell(const std::string& wanted, const std::vector<std::string>& silent) {
  std::string places;
  for (std::size_t at = 0; at < silent.size() && at < listed_max; ++at) {
    places += (at == 0 ? "" : ", ") + plain_line(silent[at]);
  }
  if (silent.size() > listed_max) places += fmt::format(" and {} more", silent.size() - listed_max);
  if (wanted.empty()) {
    return {.sentence = fmt::format("cannot choose a job: no response from {}", places),
            .hint = "give the name of the job",
            .is_unknown = true};
  }
  return {.sentence = fmt::format("cannot tell whether job {} is running: no response from {}",
                                  quoted(wanted), places),
          .hint = "retry, or choose a program with --address",
          .is_unknown = true};
}

// Several jobs have that name or that prefix.
NoJob ambiguous(const std::vector<KnownJob>& known, const std::string& wanted,
                const std::vector<std::size_t>& found, bool is_name) {
  if (is_name) {
    return {.sentence = fmt::format("several jobs are named {}: {}", quoted(wanted),
                                    listed_jobs(known, found)),
            .hint = "choose one with --address"};
  }
  return {.sentence = fmt::format("several jobs have names that begin with {}: {}", quoted(wanted),
                                  listed_jobs(known, found)),
          .hint = "give the full name"};
}

}  // namespace

tl::expected<std::size_t, NoJob> choose_job(const std::vector<KnownJob>& known,
                                            const std::string& wanted, NameMatch match,
                                            const std::vector<std::string>& silent) {
  std::vector<std::size_t> all;
  std::vector<std::size_t> exact;
  std::vector<std::size_t> begins;
  for (std::size_t at = 0; at < known.size(); ++at) {
    all.push_back(at);
    if (known[at].id == wanted) exact.push_back(at);
    if (known[at].id.starts_with(wanted)) begins.push_back(at);
  }
  if (exact.size() == 1) return exact.front();
  if (exact.size() > 1) return tl::unexpected(ambiguous(known, wanted, exact, true));
  const bool is_choice_safe = match == NameMatch::prefix || (wanted.empty() && silent.empty());
  if (is_choice_safe && begins.size() == 1) return begins.front();
  if (!silent.empty() && (begins.size() < 2 || match == NameMatch::whole)) {
    return tl::unexpected(cannot_tell(wanted, silent));
  }
  if (known.empty()) return tl::unexpected(NoJob{.sentence = "no jobs found"});
  if (wanted.empty()) {
    return tl::unexpected(
        NoJob{.sentence = fmt::format("found several jobs: {}", listed_jobs(known, all)),
              .hint = "give the name of one"});
  }
  if (match == NameMatch::prefix && !begins.empty()) {
    return tl::unexpected(ambiguous(known, wanted, begins, false));
  }
  NoJob none{.sentence =
                 fmt::format("unknown job {}; known: {}", quoted(wanted), listed_jobs(known, all))};
  if (!begins.empty()) none.hint = "give the full name; only read-only commands accept a prefix";
  return tl::unexpected(std::move(none));
}

std::string which_endpoint(const std::vector<KnownEndpoint>& known) {
  std::string text;
  for (const auto& each : known) {
    std::vector<KnownJob> jobs;
    std::vector<std::size_t> all;
    for (const auto& job : each.jobs) {
      all.push_back(jobs.size());
      jobs.push_back({job, each.place});
    }
    text += text.empty() ? "" : "; ";
    text += fmt::format("{} ({})", plain_line(each.place),
                        jobs.empty() ? "no job yet" : listed_jobs(jobs, all));
  }
  return fmt::format("{} programs host jobs here: {}", known.size(), text);
}

std::string escaped(const std::string& id) {
  std::string text;
  for (const char letter : id) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_plain =
        std::isalnum(byte) != 0 || letter == '-' || letter == '.' || letter == '_' || letter == '~';
    text += is_plain && byte < 0x80 ? std::string(1, letter) : fmt::format("%{:02X}", byte);
  }
  return text;
}

}  // namespace cpprun
