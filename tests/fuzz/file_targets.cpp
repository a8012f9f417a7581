// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/file_targets.h"

#include <cstring>
#include <string>

#include "launcher/failure/evidence.h"
#include "proto/worker_contract.h"
#include "tests/fuzz/targets.h"
#include "worker/torch/files/pickle.h"
#include "worker/torch/files/safetensors.h"

namespace cpprun::fuzz {

namespace {

// Every index of a pickle's value points at a value.
void check_indices(const pickle::Pickle& read) {
  const auto inside = [&](pickle::Index index) {
    promise(index < read.values.size(), "an index without a value");
  };
  inside(read.root);
  for (const pickle::Value& value : read.values) {
    if (const auto* list = std::get_if<pickle::List>(&value)) {
      for (const auto index : list->items) inside(index);
    } else if (const auto* tuple = std::get_if<pickle::Tuple>(&value)) {
      for (const auto index : tuple->items) inside(index);
    } else if (const auto* dict = std::get_if<pickle::Dict>(&value)) {
      for (const auto& [key, item] : dict->items) inside(key), inside(item);
    } else if (const auto* tensor = std::get_if<pickle::Tensor>(&value)) {
      inside(tensor->storage);
    }
  }
}

}  // namespace

void error_file(std::string_view bytes) {
  const std::string text(bytes);
  const auto parsed = parse_error_file(text);
  promise(parsed || !parsed.error().reason.empty(), "a refusal without a reason");
  const auto with_code = with_exit_code(text, 3);
  if (!with_code) {
    promise(!with_code.error().reason.empty(), "a refusal without a reason");
    return;
  }
  if (!parsed) return;
  const auto again = parse_error_file(*with_code);
  promise(again && again->message == parsed->message, "the exit code has changed the message");
}

void heartbeat_file(std::string_view bytes) {
  const auto record = parse_heartbeat(bytes);
  if (!record) {
    promise(!record.error().reason.empty(), "a refusal without a reason");
    return;
  }
  promise(std::memcmp(&*record, bytes.data(), bytes.size()) == 0, "read something else");
}

void safetensors_head(std::string_view bytes) {
  constexpr std::string_view file = "x.safetensors";
  const auto json_bytes = json_bytes_of(bytes, bytes.size(), std::string(file));
  if (!json_bytes) return;
  promise(safetensors_length_bytes + *json_bytes <= bytes.size(), "a head beyond the file");
  const auto json = bytes.substr(safetensors_length_bytes, *json_bytes);
  const auto data_bytes = bytes.size() - safetensors_length_bytes - *json_bytes;
  const auto head = parse_safetensors(json, data_bytes, std::string(file));
  if (!head) {
    promise(head.error().reason.find(file) != std::string::npos, "the file is not named");
    return;
  }
  for (const TensorEntry& entry : head->tensors) {
    promise(entry.begin <= entry.end && entry.end <= data_bytes, "a tensor beyond the data");
  }
  std::string text = to_text(*head);
  const auto again =
      parse_safetensors(std::string_view(text).substr(safetensors_length_bytes), data_bytes, "y");
  promise(again && *again == *head, "another head after writing and reading");
  if (const auto checksum = take_checksum(text)) set_checksum(text, *checksum);
}

void pickle_file(std::string_view bytes) {
  const auto read = pickle::read_pickle(bytes);
  if (!read) {
    promise(!read.error().reason.empty(), "a refusal without a reason");
    return;
  }
  check_indices(*read);
}

}  // namespace cpprun::fuzz
