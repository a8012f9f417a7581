// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/encoder.h"

#include <array>
#include <cstring>

#include "proto/machine.h"

namespace cpprun::c10d {
namespace {

constexpr std::uint8_t watch_registered = 3;

template <class Integer>
void put(Integer integer, std::string& out) {
  std::array<char, sizeof integer> raw;
  std::memcpy(raw.data(), &integer, sizeof integer);
  out.append(raw.data(), raw.size());
}

void put_byte(std::uint8_t byte, std::string& out) {
  out.push_back(static_cast<char>(byte));
}

void put_text(Bytes text, std::string& out) {
  put(std::uint64_t{text.size()}, out);
  out.append(text);
}

void put_texts(std::span<const Bytes> texts, std::string& out) {
  for (const Bytes text : texts) put_text(text, out);
}

void put_keys(std::span<const Bytes> keys, std::string& out) {
  put(std::uint64_t{keys.size()}, out);
  put_texts(keys, out);
}

std::uint64_t text_size(Bytes text) {
  return sizeof(std::uint64_t) + text.size();
}

std::uint64_t texts_size(std::span<const Bytes> texts) {
  std::uint64_t size = 0;
  for (const Bytes text : texts) size += text_size(text);
  return size;
}

// The fields of a request, after its opcode.
struct PutFields {
  std::string& out;
  void operator()(const Validate&) const { put(validate_magic, out); }
  void operator()(const Ping& ping) const { put(ping.nonce, out); }
  void operator()(const CompareSet& request) const {
    put_text(request.key, out);
    put_text(request.expected, out);
    put_text(request.desired, out);
  }
  void operator()(const Add& request) const {
    put_text(request.key, out);
    put(request.delta, out);
  }
  void operator()(const Barrier& request) const {
    put_text(request.key, out);
    put(request.world_size, out);
  }
  void operator()(const MultiSet& request) const {
    put(std::uint64_t{request.entries.size()}, out);
    for (const KeyValue& entry : request.entries) {
      put_text(entry.key, out);
      put_text(entry.value, out);
    }
  }
  void operator()(const Check& request) const { put_keys(request.keys, out); }
  void operator()(const Wait& request) const { put_keys(request.keys, out); }
  void operator()(const MultiGet& request) const { put_keys(request.keys, out); }
  void operator()(const Set& request) const { put_pair(request.key, request.value); }
  void operator()(const Append& request) const { put_pair(request.key, request.value); }
  void operator()(const QueuePush& request) const { put_pair(request.key, request.value); }
  void operator()(const Get& request) const { put_text(request.key, out); }
  void operator()(const DeleteKey& request) const { put_text(request.key, out); }
  void operator()(const QueuePop& request) const { put_text(request.key, out); }
  void operator()(const QueueLen& request) const { put_text(request.key, out); }
  void operator()(const WatchKey& request) const { put_text(request.key, out); }
  void operator()(const CancelWait&) const {}
  void operator()(const GetNumKeys&) const {}
  void operator()(const ListKeys&) const {}

  void put_pair(Bytes key, Bytes value) const {
    put_text(key, out);
    put_text(value, out);
  }
};

// In the order of the variant.
constexpr std::array operations{
    Operation::validate,    Operation::ping,         Operation::set,        Operation::compare_set,
    Operation::get,         Operation::add,          Operation::check,      Operation::wait,
    Operation::cancel_wait, Operation::get_num_keys, Operation::delete_key, Operation::append,
    Operation::multi_get,   Operation::multi_set,    Operation::queue_push, Operation::queue_pop,
    Operation::queue_len,   Operation::list_keys,    Operation::barrier,    Operation::watch_key};
static_assert(operations.size() == std::variant_size_v<Request>);

}  // namespace

void encode(const Reply& reply, std::string& out) {
  std::visit(Overloaded{
                 [&](const Pong& pong) { put(pong.nonce, out); },
                 [&](const Value& value) { put_text(value.value, out); },
                 [&](const Number& number) { put(number.number, out); },
                 [&](const Checked& checked) { put_byte(checked.ready ? 0 : 1, out); },
                 [&](const Waited& waited) { put_byte(waited.cancelled ? 1 : 0, out); },
                 [&](const Values& values) { put_texts(values.values, out); },
                 [&](const Popped& popped) {
                   put(popped.length_before, out);
                   if (popped.length_before > 0) put_text(popped.value, out);
                 },
                 [&](const Keys& keys) { put_keys(keys.keys, out); },
                 [&](const WatchRegistered&) { put_byte(watch_registered, out); },
                 [&](const WatchNotice& notice) {
                   put_byte(static_cast<std::uint8_t>(notice.change), out);
                   put_text(notice.key, out);
                   put_text(notice.old_value, out);
                   put_text(notice.new_value, out);
                 },
             },
             reply);
}

std::uint64_t encoded_size(const Reply& reply) {
  constexpr std::uint64_t number_bytes = 8;
  return std::visit(Overloaded{
                        [](const Pong&) -> std::uint64_t { return 4; },
                        [](const Value& value) { return text_size(value.value); },
                        [](const Number&) { return number_bytes; },
                        [](const Checked&) -> std::uint64_t { return 1; },
                        [](const Waited&) -> std::uint64_t { return 1; },
                        [](const Values& values) { return texts_size(values.values); },
                        [](const Popped& popped) {
                          return number_bytes +
                                 (popped.length_before > 0 ? text_size(popped.value) : 0);
                        },
                        [](const Keys& keys) { return number_bytes + texts_size(keys.keys); },
                        [](const WatchRegistered&) -> std::uint64_t { return 1; },
                        [](const WatchNotice& notice) {
                          return 1 + text_size(notice.key) + text_size(notice.old_value) +
                                 text_size(notice.new_value);
                        },
                    },
                    reply);
}

bool encode(const Request& request, Dialect dialect, std::string& out) {
  const std::uint8_t opcode = opcode_of(dialect, operations[request.index()]);
  if (opcode == unknown_opcode) return false;
  put_byte(opcode, out);
  std::visit(PutFields{out}, request);
  return true;
}

}  // namespace cpprun::c10d
