// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/store_fuzz.h"

#include <algorithm>

#include "proto/c10d/decoder.h"
#include "proto/c10d/encoder.h"
#include "rendezvous/store/store.h"
#include "tests/fuzz/targets.h"

namespace cpprun::fuzz {
namespace {

constexpr ConnectionId speaker{1};
constexpr ConnectionId bystander{2};

// Writes down what the speaker hears; a drop ends the session.
bool hear(const Actions& actions, std::string& heard) {
  for (const Action& action : actions) {
    if (const auto* drop = std::get_if<Drop>(&action)) {
      promise(drop->connection == speaker && !drop->reason.empty(), "a drop without a reason");
      heard += "\ndropped";
      return false;
    }
    if (const auto* parcel = std::get_if<Parcel>(&action)) {
      promise(parcel->to == speaker || parcel->to == bystander, "a parcel for nobody");
      if (parcel->to == speaker) heard += parcel->reply.text();
      continue;
    }
    const auto& answer = std::get<Answer>(action);
    promise(answer.to == speaker || answer.to == bystander, "an answer to nobody");
    std::string bytes;
    c10d::encode(answer.reply, bytes);
    promise(bytes.size() == c10d::encoded_size(answer.reply), "a reply of another size");
    if (answer.to == speaker) heard += bytes;
  }
  return true;
}

}  // namespace

std::string session(std::string_view bytes, std::size_t piece_size, c10d::Dialect dialect) {
  Store store;
  Actions actions;
  // Somebody else waits, watches and holds values meanwhile.
  const c10d::Bytes keys[] = {"/k", "/never"};
  store.apply(bystander, c10d::WatchKey{"/k"}, actions);
  store.apply(bystander, c10d::Wait{keys}, actions);

  c10d::Decoder decoder;
  c10d::Conversation conversation{dialect, false};
  c10d::Progress progress;
  std::string heard;
  std::size_t start = 0;
  std::size_t needed = 0;
  for (std::size_t end = 0; end < bytes.size();) {
    end = std::min(bytes.size(), end + piece_size);
    while (start < end && end - start >= needed) {
      const std::string_view rest = bytes.substr(start, end - start);
      const c10d::Decoded decoded = decoder.decode(rest, conversation, progress);
      if (const auto* malformed = std::get_if<c10d::Malformed>(&decoded)) {
        promise(!malformed->reason.empty(), "a refusal without a reason");
        return heard + "\nmalformed";
      }
      if (const auto* more = std::get_if<c10d::NeedMore>(&decoded)) {
        promise(more->size > rest.size(), "asks for bytes that are there");
        needed = more->size;
        break;
      }
      const auto* complete = std::get_if<c10d::Complete>(&decoded);
      if (complete == nullptr) {
        needed = rest.size() + 1;
        break;
      }
      promise(complete->size > 0 && complete->size <= rest.size(), "took what is not there");
      actions.clear();
      store.apply(speaker, complete->request, actions);
      if (!hear(actions, heard)) return heard;
      start += complete->size;
      needed = 0;
    }
  }
  actions.clear();
  store.forget(speaker, actions);
  store.forget(bystander, actions);
  promise(store.parked_count() == 0, "a wait that nobody waits for");
  return heard + "\nopen";
}

}  // namespace cpprun::fuzz
