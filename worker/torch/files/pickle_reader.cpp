// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pickle_reader.h"

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <unordered_map>

#include "proto/bounds.h"
#include "worker/torch/files/pickle_array.h"
#include "worker/torch/files/pickle_rebuild.h"

namespace cpprun::pickle {
namespace {

// What went wrong, on its way from an instruction to read_pickle(), which catches it.
struct Refused {
  std::string reason;
};

[[noreturn]] void refuse(std::string reason) {
  throw Refused{std::move(reason)};
}

// A machine with a stack and a memo, as pickle's own; each instruction is one byte and its operand.
class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Pickle run() {
    while (!step()) {
    }
    const Index root = pop();
    return {.values = std::move(values_), .root = root};
  }
  std::size_t offset() const { return instruction_at_; }

 private:
  // Returns true at the end.
  bool step() {
    instruction_at_ = at_;
    const auto code = static_cast<unsigned char>(take(1)[0]);
    if (code == '.') return true;
    if (!constant(code) && !container(code) && !memory(code) && !object(code)) {
      refuse(fmt::format("the instruction {:#04x}, which no file of torch.save has", code));
    }
    return false;
  }

  bool constant(unsigned char code) {
    switch (code) {
      case 'N':
        return push(None{});
      case 0x88:
        return push(true);
      case 0x89:
        return push(false);
      case 'K':
        return push(static_cast<std::int64_t>(unsigned_number(1)));
      case 'M':
        return push(static_cast<std::int64_t>(unsigned_number(2)));
      case 'J':
        return push(signed_number(4));
      case 0x8a:
        return push(signed_number(unsigned_number(1)));
      case 'G':
        return push(real());
      case 'X':
      case 'T':
      case 'B':  // bytes are a text as well
        return push(std::string(take(unsigned_number(4))));
      case 0x8c:
      case 'U':
      case 'C':
        return push(std::string(take(unsigned_number(1))));
      default:
        return false;
    }
  }

  bool container(unsigned char code) {
    switch (code) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '}':
        return push(Dict{});
      case ']':
        return push(List{});
      case ')':
        return push(Tuple{});
      case 't':
        return push(Tuple{pop_to_mark()});
      case 0x85:
      case 0x86:
      case 0x87:
        return push(Tuple{pop_many(code - 0x84U)});
      case 'a':
        return append(pop_many(1));
      case 'e':
        return append(pop_to_mark());
      case 's':
        return set_items(pop_many(2));
      case 'u':
        return set_items(pop_to_mark());
      default:
        return false;
    }
  }

  bool memory(unsigned char code) {
    switch (code) {
      case 0x80:  // the protocol's version
        if (unsigned_number(1) > 5) refuse("a version of pickle that is not known");
        return true;
      case 0x95:  // a frame: its length serves readers of streams
        static_cast<void>(take(8));
        return true;
      case 'q':
        memo_[unsigned_number(1)] = top();
        return true;
      case 'r':
        memo_[unsigned_number(4)] = top();
        return true;
      case 0x94:
        memo_.emplace(memo_.size(), top());
        return true;
      case 'h':
        return recall(unsigned_number(1));
      case 'j':
        return recall(unsigned_number(4));
      case '0':
        static_cast<void>(pop());
        return true;
      default:
        return false;
    }
  }

  bool object(unsigned char code) {
    switch (code) {
      case 'c': {
        const std::string module = line();
        return push_global(module, line());
      }
      case 0x93: {
        const auto names = pop_many(2);
        const auto* const module = std::get_if<std::string>(&values_[names[0]]);
        const auto* const name = std::get_if<std::string>(&values_[names[1]]);
        if (module == nullptr || name == nullptr) refuse("a name that is no text");
        return push_global(*module, *name);
      }
      case 'Q':
        return push_result(storage_of(values_, tuple(pop())));
      case 'R': {
        const auto& arguments = tuple(pop());
        const auto* const function = std::get_if<Global>(&values_[pop()]);
        if (function == nullptr) refuse("a call of something that has no name");
        return push_result(rebuild(values_, function->name, arguments));
      }
      case 'b':
        return set_state(pop());
      default:
        return false;
    }
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) refuse("the end of the file in the middle of a value");
    const auto taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  std::uint64_t unsigned_number(std::uint64_t count) {
    const auto bytes = take(count);
    std::uint64_t number = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      number = (number << 8U) | static_cast<unsigned char>(bytes[i]);
    }
    return number;
  }

  std::int64_t signed_number(std::uint64_t count) {
    if (count > 8) refuse("a whole number of more than 64 bits");
    if (count == 0) return 0;
    const auto unused_bits = static_cast<unsigned>(64 - 8 * count);
    // Shifted up and back, the sign fills what the bytes do not.
    return static_cast<std::int64_t>(unsigned_number(count) << unused_bits) >> unused_bits;
  }

  double real() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = (bits << 8U) | static_cast<unsigned char>(byte);
    return std::bit_cast<double>(bits);
  }

  std::string line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) refuse("a name without an end");
    const auto text = std::string(take(end - at_));
    static_cast<void>(take(1));
    return text;
  }

  bool push(Value value) {
    if (values_.size() == bounds::pickle_values_max) {
      refuse(fmt::format("more than {} values", bounds::pickle_values_max));
    }
    values_.push_back(std::move(value));
    stack_.push_back(values_.size() - 1);
    return true;
  }

  bool push_result(Result<Value> result) {
    if (!result) refuse(result.error().reason);
    return push(std::move(*result));
  }

  bool push_global(const std::string& module, const std::string& name) {
    std::string whole = module + '.' + name;
    if (!is_known(whole)) {
      refuse(fmt::format("it names {}, which a file of tensors does not need; nothing was executed",
                         whole.substr(0, 100)));
    }
    return push(Global{std::move(whole)});
  }

  Index top() const {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back())) {
      refuse("an instruction without a value to work on");
    }
    return stack_.back();
  }

  Index pop() {
    const Index index = top();
    stack_.pop_back();
    return index;
  }

  std::vector<Index> pop_many(std::size_t count) {
    std::vector<Index> popped(count);
    for (std::size_t i = count; i-- > 0;) popped[i] = pop();
    return popped;
  }

  std::vector<Index> pop_to_mark() {
    if (marks_.empty()) refuse("the end of a sequence without its beginning");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> popped(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return popped;
  }

  bool recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) refuse("a reference to a value that was never there");
    stack_.push_back(found->second);
    return true;
  }

  bool append(const std::vector<Index>& items) {
    auto* const list = std::get_if<List>(&values_[top()]);
    if (list == nullptr) refuse("an item for something that is no list");
    list->items.insert(list->items.end(), items.begin(), items.end());
    return true;
  }

  bool set_items(const std::vector<Index>& items) {
    auto* const dict = std::get_if<Dict>(&values_[top()]);
    if (dict == nullptr || items.size() % 2 != 0) refuse("an entry for something that is no dict");
    for (std::size_t i = 0; i < items.size(); i += 2) {
      dict->items.emplace_back(items[i], items[i + 1]);
    }
    return true;
  }

  bool set_state(Index state) {
    // An OrderedDict may carry attributes (a state_dict's `_metadata`); the values stand alone.
    if (std::holds_alternative<Dict>(values_[top()])) return true;
    auto changed = with_state(values_, top(), state);
    if (!changed) refuse(changed.error().reason);
    values_[top()] = std::move(*changed);
    return true;
  }

  // Not a copy: a small file may ask for the same large tuple a million times.
  const std::vector<Index>& tuple(Index index) const {
    const auto* const found = std::get_if<Tuple>(&values_[index]);
    if (found == nullptr) refuse("arguments that are no tuple");
    return found->items;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t instruction_at_ = 0;
  std::vector<Value> values_;
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;  // sizes the stack had, rising
  std::unordered_map<std::uint64_t, Index> memo_;
};

}  // namespace

Result<Pickle> read_pickle(std::string_view bytes) {
  Machine machine(bytes);
  try {
    return machine.run();
  } catch (const Refused& refused) {
    return failure(fmt::format("at byte {} of its pickle: {}", machine.offset(), refused.reason));
  }
}

}  // namespace cpprun::pickle
