// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Sends tensors from one rank to another, and objects between ranks. A receive must match a send of
// the same shape, type and tag. Messages with the same tag between two ranks arrive in order.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "worker/torch/group/process_group.h"
#include "worker/torch/group/work.h"

namespace cpprun {

namespace bounds {
// A string or plain value exchanged between ranks; anything larger should be a tensor.
inline constexpr std::size_t worker_object_bytes_max = 64 * 1024 * 1024;
}  // namespace bounds

inline constexpr int any_source = -1;

// Returns when the tensor may be changed again. It may not have been received yet.
void send(const at::Tensor& tensor, int destination, const ProcessGroup& group, int tag = 0);

// Fills `tensor` and returns the sender's rank. Over gloo `source` may be any_source.
int recv(at::Tensor tensor, int source, const ProcessGroup& group, int tag = 0);

// These return at once; after wait() the tensor is free, or filled. Use them if two ranks both send
// before they receive: with the blocking functions both may wait forever.
Work isend(const at::Tensor& tensor, int destination, const ProcessGroup& group, int tag = 0);
Work irecv(at::Tensor tensor, int source, const ProcessGroup& group, int tag = 0);

// Sends strings and plain values between ranks, under torch.distributed's names for Python objects.
// They are sent as bytes, not as pickles: both ends are the same C++ program.

// A string, or a type that can be copied byte by byte and holds no pointer.
template <class Object>
concept Sendable = std::is_same_v<Object, std::string> ||
                   (std::is_trivially_copyable_v<Object> && !std::is_pointer_v<Object>);

// Bytes of any length up to bounds::worker_object_bytes_max. The length may differ between ranks.
std::string broadcast_bytes(const std::string& bytes, const ProcessGroup& group, int source);
std::vector<std::string> all_gather_bytes(const std::string& bytes, const ProcessGroup& group);
void send_bytes(const std::string& bytes, int destination, const ProcessGroup& group, int tag);
std::string recv_bytes(int source, const ProcessGroup& group, int tag);

template <Sendable Object>
std::string to_bytes(const Object& object) {
  if constexpr (std::is_same_v<Object, std::string>) {
    return object;
  } else {
    std::string bytes(sizeof(Object), '\0');
    std::memcpy(bytes.data(), &object, sizeof(Object));
    return bytes;
  }
}

template <Sendable Object>
Object from_bytes(const std::string& bytes) {
  if constexpr (std::is_same_v<Object, std::string>) {
    return bytes;
  } else {
    if (bytes.size() != sizeof(Object)) {
      throw DistributedError("expected an object of " + std::to_string(sizeof(Object)) +
                             " bytes, received " + std::to_string(bytes.size()) +
                             " bytes: the ranks use different types");
    }
    Object object{};
    std::memcpy(&object, bytes.data(), sizeof(Object));
    return object;
  }
}

// Every rank gets the object of `source`.
template <Sendable Object>
Object broadcast_object(const Object& object, const ProcessGroup& group, int source = 0) {
  return from_bytes<Object>(broadcast_bytes(to_bytes(object), group, source));
}

// The objects of all ranks, in rank order.
template <Sendable Object>
std::vector<Object> all_gather_object(const Object& object, const ProcessGroup& group) {
  std::vector<Object> objects;
  for (const std::string& bytes : all_gather_bytes(to_bytes(object), group)) {
    objects.push_back(from_bytes<Object>(bytes));
  }
  return objects;
}

// On `root` the objects of all ranks, in rank order; empty on the others.
template <Sendable Object>
std::vector<Object> gather_object(const Object& object, const ProcessGroup& group, int root = 0) {
  auto objects = all_gather_object(object, group);
  return group.rank() == root ? objects : std::vector<Object>();
}

// Rank r gets the r-th object of `root`. `objects` is used on `root` only.
template <Sendable Object>
Object scatter_object(const std::vector<Object>& objects, const ProcessGroup& group, int root = 0,
                      int tag = 0) {
  if (group.rank() != root) return from_bytes<Object>(recv_bytes(root, group, tag));
  if (objects.size() != static_cast<std::size_t>(group.size())) {
    throw DistributedError("scatter_object: pass one object for each rank");
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == root) continue;
    send_bytes(to_bytes(objects[static_cast<std::size_t>(rank)]), rank, group, tag);
  }
  return objects[static_cast<std::size_t>(root)];
}

template <Sendable Object>
void send_object(const Object& object, int destination, const ProcessGroup& group, int tag = 0) {
  send_bytes(to_bytes(object), destination, group, tag);
}

template <Sendable Object>
Object recv_object(int source, const ProcessGroup& group, int tag = 0) {
  return from_bytes<Object>(recv_bytes(source, group, tag));
}

}  // namespace cpprun
