// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/close_up.h"

#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/bounds.h"
#include "rendezvous/daemon/io/sandbox.h"
#include "rendezvous/daemon/sandbox.h"
#include "rendezvous/status/io/door.h"

namespace cpprun {

namespace {

// Of the folders for the socket for tools the first that can be had. It is made now: behind the
// sandbox none is. A disk that hangs is given a moment, and is no reason not to serve. `note` says
// that it is not in $TMPDIR, and why.
Result<DoorFolder> prepared_door(SideProcesses& side, const std::vector<DoorFolder>& folders,
                                 std::string& note) {
  std::string why = "there is no folder for it";
  const DoorFolder* wrong_temporary = nullptr;
  bool has_why = false;
  for (const auto& folder : folders) {
    const auto make = [&folder] {
      const auto made = make_door_folder(folder);
      return made ? std::string() : made.error().reason;
    };
    const auto wrong = folder.is_at_hand() ? make() : side.ask(make, bounds::log_farewell);
    if (wrong && wrong->empty()) {
      if (wrong_temporary != nullptr) {
        note = fmt::format("note: TMPDIR={} cannot be used ({}); the control socket is in {}",
                           wrong_temporary->parent, why, folder.path());
      }
      return folder;
    }
    if (!has_why || !folder.is_parent_own) {
      why = wrong ? *wrong
                  : fmt::format(
                        "the folder \"{}\" for sockets of tools is on a disk that does not answer",
                        folder.path());
    }
    if (!folder.is_parent_own && wrong_temporary == nullptr) wrong_temporary = &folder;
    has_why = true;
  }
  return failure(why);
}

bool is_link(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode);
}

// Where its secrets lie, for SIGHUP: the folder of a file, since an editor puts another file in its
// place. And the folder above, where the folder itself may be exchanged for another: a link, as
// Kubernetes makes them, or the one that holds all owners.
std::vector<std::string> secret_places(const DaemonOptions& options) {
  if (!options.has_secrets()) return {};
  const bool has_folder = !options.secrets_folder.empty();
  const auto above = [](const std::string& path) {
    const auto slash =
        path.find_last_not_of('/') == path.npos ? 0 : path.rfind('/', path.find_last_not_of('/'));
    return slash == path.npos ? std::string(".") : path.substr(0, slash);
  };
  const std::string folder = has_folder ? options.secrets_folder : above(options.secret_file);
  std::vector<std::string> places = {folder.empty() ? "/" : folder};
  const std::string next = above(folder);
  if (!next.empty() && (has_folder || is_link(folder))) places.push_back(next);
  if (!has_folder && is_link(options.secret_file)) {
    std::array<char, PATH_MAX> file{};
    // Where it leads nowhere, there is nothing to be opened.
    const bool leads = ::realpath(options.secret_file.c_str(), file.data()) != nullptr;
    if (leads) places.push_back(above(file.data()));
  }
  return places;
}

// Gives up what is not needed any more, and says what that is.
void shut_in(const DaemonOptions& options, const std::optional<DoorFolder>& door, DaemonLog& log) {
  // Its secrets are read again at SIGHUP.
  SandboxWants wants{
      .readable = secret_places(options), .door = door, .connects = options.follows()};
  if (options.follows()) {
    // Names are looked up whenever somebody is dialled.
    for (const char* const place : {"/etc", "/lib", "/usr/lib", "/run/systemd/resolve"}) {
      if (::access(place, R_OK) == 0) wants.readable.emplace_back(place);
    }
  }
#ifdef __SANITIZE_ADDRESS__
  // It reads about this process, and about the program, whatever it wants to complain about.
  wants.readable.emplace_back("/");
#endif
  const auto in_force = enter_sandbox(wants);
  if (!in_force.why_none.empty()) {
    // A kernel without it is what it is; one that refuses it is not as it should be.
    log.say(in_force.has_failed ? LogLevel::warning : LogLevel::debug,
            fmt::format("Landlock is not in force: {}", in_force.why_none));
  }
  for (const auto& each : in_force.left_out)
    log.say(LogLevel::debug, "the sandbox closes: " + each);
  log.say(LogLevel::info, sandbox_line(in_force, wants));
}

}  // namespace

void close_up(CoordinatorServer& server, SideProcesses& side, const DaemonOptions& options,
              DaemonLog& log) {
  DoorPlan plan{.folders = options.door_folders, .patience = bounds::log_farewell};
  if (!options.has_sandbox) log.say(LogLevel::info, "sandbox: off (--no-sandbox)");
  if (options.status_access == StatusAccess::none) {
    if (options.has_sandbox) shut_in(options, std::nullopt, log);
    return;
  }
  std::string note;
  const auto door = prepared_door(side, options.door_folders, note);
  if (options.has_sandbox) shut_in(options, door ? std::optional(*door) : std::nullopt, log);
  if (!door) return log.write({.text = no_door_text(door.error().reason)});
  if (!note.empty()) log.write({.text = note});
  plan.folders = {*door};
  server.open_door(side, std::move(plan));
}

}  // namespace cpprun
