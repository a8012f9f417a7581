// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pickle_writer.h"

#include <bit>
#include <limits>
#include <utility>

namespace cpprun::pickle {
namespace {

// The operations, under their names in Python's pickletools.
constexpr char proto = '\x80';
constexpr char stop = '.';
constexpr char mark = '(';
constexpr char none_code = 'N';
constexpr char new_true = '\x88';
constexpr char new_false = '\x89';
constexpr char bin_int = 'J';
constexpr char long1 = '\x8a';
constexpr char bin_float = 'G';
constexpr char bin_unicode = 'X';
constexpr char empty_list = ']';
constexpr char appends = 'e';
constexpr char tuple = 't';
constexpr char empty_tuple = ')';
constexpr char empty_dict = '}';
constexpr char set_items = 'u';
constexpr char global_code = 'c';
constexpr char reduce = 'R';
constexpr char bin_pers_id = 'Q';

constexpr char protocol = 2;

}  // namespace

Writer::Writer() {
  code(proto);
  code(protocol);
}

void Writer::none() {
  code(none_code);
}

void Writer::boolean(bool value) {
  code(value ? new_true : new_false);
}

void Writer::integer(std::int64_t value) {
  using Small = std::numeric_limits<std::int32_t>;
  const bool small = Small::min() <= value && value <= Small::max();
  code(small ? bin_int : long1);
  if (!small) code(sizeof value);
  little_endian(static_cast<std::uint64_t>(value), small ? 4 : 8);
}

void Writer::real(double value) {
  code(bin_float);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) code(static_cast<char>((bits >> shift) & 0xFFU));
}

void Writer::text(std::string_view value) {
  code(bin_unicode);
  little_endian(value.size(), 4);
  bytes_ += value;
}

// torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks), and the
// dtype in version 3, where the storage holds bytes.
void Writer::tensor(const TensorOf& value) {
  const bool typed = value.storage_type.empty();
  global("torch._utils", typed ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  begin_tuple();
  begin_tuple();
  text("storage");
  typed ? global("torch.storage", "UntypedStorage") : global("torch", value.storage_type);
  text(value.key);
  text("cpu");
  integer(static_cast<std::int64_t>(typed ? value.bytes : value.elements));
  end_tuple();
  code(bin_pers_id);
  integer(0);
  numbers(value.sizes);
  numbers(value.strides);
  boolean(false);
  global("collections", "OrderedDict");
  code(empty_tuple);
  code(reduce);
  if (typed) global("torch", value.dtype);
  end_tuple();
  code(reduce);
}

void Writer::begin_list() {
  code(empty_list);
  code(mark);
}
void Writer::end_list() {
  code(appends);
}
void Writer::begin_tuple() {
  code(mark);
}
void Writer::end_tuple() {
  code(tuple);
}
void Writer::begin_dict() {
  code(empty_dict);
  code(mark);
}
void Writer::end_dict() {
  code(set_items);
}

std::string Writer::finish() {
  code(stop);
  return std::move(bytes_);
}

void Writer::code(char operation) {
  bytes_ += operation;
}

void Writer::little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    code(static_cast<char>(value & 0xFFU));
    value >>= 8U;
  }
}

void Writer::global(std::string_view module, std::string_view name) {
  code(global_code);
  bytes_ += module;
  bytes_ += '\n';
  bytes_ += name;
  bytes_ += '\n';
}

void Writer::numbers(const std::vector<std::int64_t>& values) {
  begin_tuple();
  for (const std::int64_t value : values) integer(value);
  end_tuple();
}

}  // namespace cpprun::pickle
