// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/store_fuzz.h"

#include <stdexcept>

#include "proto/c10d/codec.h"
#include "tests/fuzz/targets.h"
#include "tests/rendezvous/store/string_sockets.h"

namespace cpprun::fuzz {
namespace {

std::string outcome_of(const StringSockets::Client& client) {
  if (client.handed_over) return client.heard + "\nhanded over";
  if (!client.end) return client.heard + "\nopen";
  promise(!client.end->empty(), "closed without a reason");
  return client.heard + "\nclosed";
}

}  // namespace

std::string session(std::string_view bytes, std::size_t piece_size, c10d::Dialect dialect) {
  try {
    StringSockets sockets;
    const int speaker = sockets.dial(dialect);
    // Another client waits, watches and holds values meanwhile.
    const int bystander = sockets.dial(c10d::Dialect::a);
    const c10d::Bytes keys[] = {"/k", "/never"};
    std::string said;
    promise(c10d::encode(c10d::WatchKey{"/k"}, c10d::Dialect::a, said) &&
                c10d::encode(c10d::Wait{keys}, c10d::Dialect::a, said),
            "cannot say what a bystander says");
    sockets.ask(bystander, said);
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), piece_size))) {
      sockets.say(speaker, bytes.substr(0, piece_size));
      sockets.until_quiet();
    }
    promise(!sockets[bystander].end, "a bystander was closed");
    const std::string outcome = outcome_of(sockets[speaker]);
    if (!sockets[speaker].handed_over) sockets.leave(speaker);
    sockets.leave(bystander);
    sockets.until_quiet();
    promise(sockets.store.parked_count() == 0, "a wait without a client");
    sockets.store.clear();
    sockets.until_quiet();
    promise(sockets.accounting->bytes_held() == 0, "unused memory is still charged");
    return outcome;
  } catch (const BrokenPromise&) {
    throw;
  } catch (const std::logic_error& broken) {
    throw BrokenPromise(broken.what());  // an invariant of the sessions themselves
  }
}

}  // namespace cpprun::fuzz
