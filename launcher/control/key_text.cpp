// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/key_text.h"

#include <fmt/format.h>
#include <string.h>

#include <chrono>

#include "proto/text.h"

namespace cpprun {
namespace {

// Thirty-two, so that each is as likely as the others; without those that look like another.
constexpr std::string_view letters = "abcdefghijkmnpqrstuvwxyz23456789";
static_assert(letters.size() == 32);

}  // namespace

std::string secret_id(WallTime now, const IdBytes& random) {
  const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(now)};
  std::string id =
      fmt::format("{:04}{:02}{:02}-", static_cast<int>(day.year()),
                  static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
  for (const unsigned char byte : random) id += letters[byte % letters.size()];
  return id;
}

std::string made_text(std::string_view id, std::string_view path) {
  return fmt::format(
      "made the secret {} in {}\n"
      "Every node needs this file, readable for its user alone: copy it there (scp -p), or use a "
      "home\nthat they share. A cpprund that runs knows it from its next SIGHUP on, or, where it "
      "had none,\nfrom its next start. Whoever has it can join your jobs and end them.\n",
      id, plain_line(path));
}

std::string added_text(std::string_view id, std::string_view path, std::string_view old_id) {
  return fmt::format(
      "made the secret {} in {}, before {}\n"
      "Copy the file to every node, and have each cpprund read it again (SIGHUP). Whoever has it "
      "takes\nboth. When all have it, and the jobs that began before are over, take the line of "
      "the "
      "old one\nout everywhere.\n",
      id, plain_line(path), old_id);
}

std::string secrets_text(const Secrets& secrets) {
  std::string text;
  // At once: what is outgrown is not wiped.
  text.reserve(secret_file_bytes_max);
  for (const auto& secret : secrets) {
    std::string line = secret_line(secret);
    text += line;
    text += '\n';
    ::explicit_bzero(line.data(), line.size());
  }
  return text;
}

}  // namespace cpprun
