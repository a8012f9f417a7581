// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pickle.h"

#include <doctest/doctest.h>

#include <variant>

namespace pickle_writer_test {

using namespace cpprun;
using pickle::Writer;

// That torch.load opens what is written is tested by parity_test.py.

namespace {

pickle::Pickle read_back(Writer& writer) {
  const auto read = pickle::read_pickle(writer.finish());
  REQUIRE(read);
  return *read;
}

template <class T>
const T& as(const pickle::Pickle& read, pickle::Index index) {
  return std::get<T>(read.values.at(index));
}

}  // namespace

TEST_CASE("numbers, texts and None are read back from a tuple") {
  Writer writer;
  writer.begin_tuple();
  for (const std::int64_t value : {-1L, 2'147'483'647L, -2'147'483'649L, 5'000'000'000L}) {
    writer.integer(value);
  }
  writer.real(-0.1);
  writer.text("größer");
  writer.boolean(true);
  writer.none();
  writer.end_tuple();
  const auto read = read_back(writer);
  const auto& items = as<pickle::Tuple>(read, read.root).items;
  REQUIRE(items.size() == 8);
  CHECK(as<std::int64_t>(read, items[0]) == -1);
  CHECK(as<std::int64_t>(read, items[1]) == 2'147'483'647);
  CHECK(as<std::int64_t>(read, items[2]) == -2'147'483'649);
  CHECK(as<std::int64_t>(read, items[3]) == 5'000'000'000);
  CHECK(as<double>(read, items[4]) == -0.1);
  CHECK(as<std::string>(read, items[5]) == "größer");
  CHECK(as<bool>(read, items[6]));
  CHECK(std::holds_alternative<pickle::None>(read.values.at(items[7])));
}

TEST_CASE("a dict holds lists and dicts, including empty ones") {
  Writer writer;
  writer.begin_dict();
  writer.text("list");
  writer.begin_list();
  writer.integer(1);
  writer.begin_list();
  writer.end_list();
  writer.end_list();
  writer.text("dict");
  writer.begin_dict();
  writer.end_dict();
  writer.end_dict();
  const auto read = read_back(writer);
  const auto& items = as<pickle::Dict>(read, read.root).items;
  REQUIRE(items.size() == 2);
  CHECK(as<pickle::List>(read, items[0].second).items.size() == 2);
  CHECK(as<pickle::Dict>(read, items[1].second).items.empty());
}

TEST_CASE("a tensor's type is that of its storage, or is written where no storage has it") {
  Writer writer;
  writer.begin_list();
  writer.tensor({.key = "0",
                 .storage_type = "FloatStorage",
                 .dtype = "float32",
                 .bytes = 24,
                 .elements = 6,
                 .sizes = {2, 3},
                 .strides = {3, 1}});
  writer.tensor({.key = "1",
                 .storage_type = "",
                 .dtype = "uint16",
                 .bytes = 8,
                 .elements = 4,
                 .sizes = {4},
                 .strides = {1}});
  writer.end_list();
  const auto read = read_back(writer);
  const auto& items = as<pickle::List>(read, read.root).items;
  const auto& old = as<pickle::Tensor>(read, items.at(0));
  CHECK(old.dtype == "");
  CHECK(old.sizes == std::vector<std::int64_t>{2, 3});
  CHECK(as<pickle::Storage>(read, old.storage).type == "torch.FloatStorage");
  const auto& typed = as<pickle::Tensor>(read, items.at(1));
  CHECK(typed.dtype == "torch.uint16");
  CHECK(as<pickle::Storage>(read, typed.storage).type == "torch.storage.UntypedStorage");
  CHECK(as<pickle::Storage>(read, typed.storage).key == "1");
}

}  // namespace pickle_writer_test
