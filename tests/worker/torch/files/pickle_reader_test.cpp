// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pickle.h"

#include <doctest/doctest.h>

namespace pickle_reader_test {

using namespace cpprun;
using namespace std::string_literals;

namespace {

// Why the pickle `body` is rejected, after the header of protocol 2.
std::string refusal(const std::string& body) {
  const auto read = pickle::read_pickle("\x80\x02" + body);
  return read ? "" : read.error().reason;
}

pickle::Pickle accepted(const std::string& body) {
  auto read = pickle::read_pickle("\x80\x02" + body);
  INFO((read ? "" : read.error().reason));
  REQUIRE(read);
  return *read;
}

template <class T>
T only(const std::string& body) {
  const auto read = accepted(body);
  return std::get<T>(read.values[read.root]);
}

// ("storage", torch.FloatStorage, "0", "cpu", 6), as persistent id.
const std::string storage =
    "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"s + "0X\x03\0\0\0cpuK\x06tQ"s;

}  // namespace

TEST_CASE("numbers and texts are read as pickle writes them") {
  CHECK(only<std::int64_t>("K\xff.") == 255);
  CHECK(only<std::int64_t>("M\x01\x02.") == 513);
  CHECK(only<std::int64_t>("J\xfe\xff\xff\xff.") == -2);
  CHECK(only<std::int64_t>("\x8a\x05\0\0\0\0\x80."s) == -549'755'813'888);
  CHECK(only<std::int64_t>("\x8a\0."s) == 0);
  CHECK(only<double>("G\x3f\xb9\x99\x99\x99\x99\x99\x9a."s) == 0.1);
  CHECK(only<std::string>("X\x02\0\0\0hi."s) == "hi");
  CHECK(only<bool>("\x88."));
}

TEST_CASE("an object that a pickle mentions twice is one value") {
  // [x, x] with x = []
  const auto read = accepted(
      "](]q\x01h\x01"
      "e.");
  const auto items = std::get<pickle::List>(read.values[read.root]).items;
  REQUIRE(items.size() == 2);
  CHECK(items[0] == items[1]);
}

TEST_CASE("a tensor is described by storage, offset, sizes and strides") {
  const auto read = accepted("ctorch._utils\n_rebuild_tensor_v2\n(" + storage +
                             "K\x01K\x02K\x02\x86K\x01K\x02\x86\x89"
                             "ccollections\nOrderedDict\n)RtR.");
  const auto& tensor = std::get<pickle::Tensor>(read.values[read.root]);
  CHECK(tensor.offset == 1);
  CHECK(tensor.sizes == std::vector<std::int64_t>{2, 2});
  CHECK(tensor.strides == std::vector<std::int64_t>{1, 2});
  CHECK(std::get<pickle::Storage>(read.values[tensor.storage]).key == "0");
}

TEST_CASE("an OrderedDict keeps its entries, and its attributes are dropped") {
  const auto read = accepted("ccollections\nOrderedDict\n)R(X\x01\0\0\0aK\x05u}b."s);
  const auto& dict = std::get<pickle::Dict>(read.values[read.root]);
  REQUIRE(dict.items.size() == 1);
  CHECK(std::get<std::int64_t>(read.values[dict.items[0].second]) == 5);
}

TEST_CASE("an unknown function is rejected by name, and nothing is called") {
  CHECK(refusal("cos\nsystem\nX\x02\0\0\0ls\x85R."s) ==
        "at byte 2 of the pickle: unexpected name os.system, not needed in a file of tensors; "
        "nothing was executed");
  CHECK(refusal("cbuiltins\neval\n.").find("builtins.eval") != std::string::npos);
  CHECK(refusal("ctorch\nload\n)R.").find("call of torch.load is not supported") !=
        std::string::npos);
  CHECK(refusal("ctorch.hub\nload\n.").find("torch.hub.load") != std::string::npos);
}

TEST_CASE("a pickle that ends too early or lacks an operand is rejected with the position") {
  CHECK(refusal("X\x10\0\0\0hi"s) ==
        "at byte 2 of the pickle: the file ends in the middle of a value");
  CHECK(refusal("") == "at byte 2 of the pickle: the file ends in the middle of a value");
  CHECK(refusal("a.") == "at byte 2 of the pickle: stack underflow");
  CHECK(refusal("h\x07.") ==
        "at byte 2 of the pickle: a reference names a value that does not exist");
  CHECK(refusal("t.") == "at byte 2 of the pickle: a sequence ends without a start");
  CHECK(refusal("K\x01(a.").find("stack underflow") != std::string::npos);
  CHECK(refusal("\x01.") ==
        "at byte 2 of the pickle: unsupported opcode 0x01, which torch.save never writes");
}

TEST_CASE("values in invalid places are rejected") {
  CHECK(refusal("K\x01K\x02"
                "a.")
            .find("not a list") != std::string::npos);
  CHECK(refusal("](K\x01u.").find("not a dict") != std::string::npos);
  CHECK(refusal("}(K\x01u.").find("not a dict") != std::string::npos);
  CHECK(refusal("K\x01)R.").find("not the name of a function") != std::string::npos);
  CHECK(refusal("K\x01Q.").find("not a tuple") != std::string::npos);
  CHECK(refusal("K\x01}b.").find("an object has an unsupported state") != std::string::npos);
  CHECK(refusal("\x8a\x09\0\0\0\0\0\0\0\0\0."s).find("64 bits") != std::string::npos);
}

TEST_CASE("a pickle with any byte changed or truncated is either read or rejected") {
  const std::string whole =
      "\x80\x02}q\x01(X\x01\0\0\0a"s + "ctorch._utils\n_rebuild_tensor_v2\n(" + storage +
      "K\x01K\x02\x85K\x01\x85\x89"
      "ccollections\nOrderedDict\n)RtR" +
      "X\x01\0\0\0b](K\x01h\x01G\x3f\xb9\x99\x99\x99\x99\x99\x9a\x8a\x02\x01\x02"s + "eu.";
  REQUIRE(pickle::read_pickle(whole));
  const auto sound = [](const std::string& bytes) {
    const auto read = pickle::read_pickle(bytes);
    return read ? read->root < read->values.size() : !read.error().reason.empty();
  };
  bool all_sound = true;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    all_sound = all_sound && sound(whole.substr(0, at));
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = whole;
      changed[at] = static_cast<char>(byte);
      all_sound = all_sound && sound(changed);
    }
  }
  CHECK(all_sound);
}

}  // namespace pickle_reader_test
