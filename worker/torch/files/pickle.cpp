// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "worker/torch/files/bounds.h"

namespace cpprun::pickle {

namespace {

// An error in an instruction; read_pickle() catches it.
struct Refused {
  std::string reason;
};

[[noreturn]] void refuse(std::string reason) {
  throw Refused{std::move(reason)};
}

// A machine with a stack and a memo, like pickle's. An instruction is one byte and its operand.
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
  // Returns true at the end of the pickle.
  bool step() {
    instruction_at_ = at_;
    const auto code = static_cast<unsigned char>(take(1)[0]);
    if (code == '.') return true;
    if (!constant(code) && !container(code) && !memory(code) && !object(code)) {
      refuse(fmt::format("unsupported opcode {:#04x}, which torch.save never writes", code));
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
      case 'B':  // bytes become a text too
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
      case 0x80:  // the protocol version
        if (unsigned_number(1) > 5) refuse("unsupported pickle protocol");
        return true;
      case 0x95:  // a frame; its length is only for stream readers
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
        if (module == nullptr || name == nullptr) refuse("a name is not a string");
        return push_global(*module, *name);
      }
      case 'Q':
        return push_result(storage_of(values_, tuple(pop())));
      case 'R': {
        const auto& arguments = tuple(pop());
        const auto* const function = std::get_if<Global>(&values_[pop()]);
        if (function == nullptr) refuse("a value is called that is not the name of a function");
        return push_result(rebuild(values_, function->name, arguments));
      }
      case 'b':
        return set_state(pop());
      default:
        return false;
    }
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) refuse("the file ends in the middle of a value");
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
    if (count > 8) refuse("an integer has more than 64 bits");
    if (count == 0) return 0;
    const auto unused_bits = static_cast<unsigned>(64 - 8 * count);
    // Shifting up and back extends the sign.
    return static_cast<std::int64_t>(unsigned_number(count) << unused_bits) >> unused_bits;
  }

  double real() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = (bits << 8U) | static_cast<unsigned char>(byte);
    return std::bit_cast<double>(bits);
  }

  std::string line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) refuse("a name has no end");
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
      refuse(
          fmt::format("unexpected name {}, not needed in a file of tensors; nothing was executed",
                      whole.substr(0, 100)));
    }
    return push(Global{std::move(whole)});
  }

  Index top() const {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back())) {
      refuse("stack underflow");
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
    if (marks_.empty()) refuse("a sequence ends without a start");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> popped(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return popped;
  }

  bool recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) refuse("a reference names a value that does not exist");
    stack_.push_back(found->second);
    return true;
  }

  bool append(const std::vector<Index>& items) {
    auto* const list = std::get_if<List>(&values_[top()]);
    if (list == nullptr) refuse("a list item is added to a value that is not a list");
    list->items.insert(list->items.end(), items.begin(), items.end());
    return true;
  }

  bool set_items(const std::vector<Index>& items) {
    auto* const dict = std::get_if<Dict>(&values_[top()]);
    if (dict == nullptr || items.size() % 2 != 0)
      refuse("a dict entry is added to a value that is not a dict");
    for (std::size_t i = 0; i < items.size(); i += 2) {
      dict->items.emplace_back(items[i], items[i + 1]);
    }
    return true;
  }

  bool set_state(Index state) {
    // An OrderedDict may have attributes (a state_dict's `_metadata`); they are ignored.
    if (std::holds_alternative<Dict>(values_[top()])) return true;
    auto changed = with_state(values_, top(), state);
    if (!changed) refuse(changed.error().reason);
    values_[top()] = std::move(*changed);
    return true;
  }

  // By reference: a small file may refer to the same large tuple a million times.
  const std::vector<Index>& tuple(Index index) const {
    const auto* const found = std::get_if<Tuple>(&values_[index]);
    if (found == nullptr) refuse("the arguments are not a tuple");
    return found->items;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t instruction_at_ = 0;
  std::vector<Value> values_;
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack, ascending
  std::unordered_map<std::uint64_t, Index> memo_;
};

}  // namespace

Result<Pickle> read_pickle(std::string_view bytes) {
  Machine machine(bytes);
  try {
    return machine.run();
  } catch (const Refused& refused) {
    return failure(fmt::format("at byte {} of the pickle: {}", machine.offset(), refused.reason));
  }
}

namespace {

using Values = std::vector<Value>;

constexpr std::array<std::string_view, 5> functions = {
    "collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter", "torch.Size"};

// Limits what is copied from value to value: a small file may ask for a million copies of a large
// value.
constexpr std::size_t dimensions_max = 64;  // LibTorch's own limit
constexpr std::size_t name_bytes_max = 256;

template <class T>
const T* as(const Values& values, Index index) {
  return std::get_if<T>(&values.at(index));
}

// Absent unless all are integers and none is negative.
std::optional<std::vector<std::int64_t>> counts(const Values& values, Index index) {
  const Tuple* const tuple = as<Tuple>(values, index);
  if (tuple == nullptr || tuple->items.size() > dimensions_max) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const Index item : tuple->items) {
    const auto* const number = as<std::int64_t>(values, item);
    if (number == nullptr || *number < 0) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// (storage, offset, sizes, strides, requires_grad, hooks), and the dtype in version 3.
Result<Value> tensor_of(const Values& values, const std::vector<Index>& arguments, bool typed) {
  if (arguments.size() < (typed ? 7U : 6U) || as<Storage>(values, arguments[0]) == nullptr) {
    return failure("a tensor has no storage");
  }
  // A further argument marks the values as conjugated or negated. Ignoring it would give wrong
  // values.
  const std::size_t last = typed ? 7 : 6;
  if (arguments.size() > last) {
    const auto* const bits = as<Dict>(values, arguments[last]);
    if (bits == nullptr || !bits->items.empty()) {
      return failure(
          "conjugated or negated views are not supported: save with .resolve_conj().resolve_neg()");
    }
  }
  const auto* const offset = as<std::int64_t>(values, arguments[1]);
  const auto sizes = counts(values, arguments[2]);
  const auto strides = counts(values, arguments[3]);
  if (offset == nullptr || *offset < 0 || !sizes || !strides || sizes->size() != strides->size()) {
    return failure("a tensor has an invalid offset, size or stride");
  }
  Tensor tensor{.storage = arguments[0], .offset = *offset, .sizes = *sizes, .strides = *strides};
  if (typed) {
    const auto* const dtype = as<Global>(values, arguments[6]);
    if (dtype == nullptr) return failure("a tensor has no type");
    tensor.dtype = dtype->name;
  }
  return tensor;
}

}  // namespace

bool is_known(const std::string& global) {
  if (std::find(functions.begin(), functions.end(), global) != functions.end()) return true;
  // torch.FloatStorage and the like, torch.float32 and the like; no names in submodules.
  if (is_array_name(global)) return true;
  constexpr std::string_view torch = "torch.";
  if (global.size() > name_bytes_max) return false;
  if (global == "torch.storage.UntypedStorage") return true;
  return global.starts_with(torch) && global.find('.', torch.size()) == std::string::npos;
}

Result<Value> rebuild(const Values& values, const std::string& global,
                      const std::vector<Index>& arguments) {
  if (global == "collections.OrderedDict") {
    // Python 3 adds the entries afterwards.
    if (!arguments.empty()) return failure("an OrderedDict has arguments");
    return Dict{};
  }
  if (global == "torch._utils._rebuild_tensor_v2") return tensor_of(values, arguments, false);
  if (global == "torch._utils._rebuild_tensor_v3") return tensor_of(values, arguments, true);
  if (global == "torch._utils._rebuild_parameter") {
    const auto* const tensor = arguments.empty() ? nullptr : as<Tensor>(values, arguments[0]);
    if (tensor == nullptr) return failure("a parameter is not a tensor");
    return *tensor;
  }
  if (global == "torch.Size") {
    const auto* const sizes = arguments.empty() ? nullptr : as<Tuple>(values, arguments[0]);
    if (sizes == nullptr || sizes->items.size() > dimensions_max) {
      return failure("a torch.Size is not a tuple of sizes");
    }
    return *sizes;
  }
  if (is_array_name(global)) return make_array_part(values, global, arguments);
  return failure(fmt::format("call of {} is not supported", global));
}

Result<Value> storage_of(const Values& values, const std::vector<Index>& id) {
  const auto text = [&](std::size_t at) { return as<std::string>(values, id[at]); };
  const bool known = id.size() >= 5 && text(0) != nullptr && *text(0) == "storage" &&
                     as<Global>(values, id[1]) != nullptr && text(2) != nullptr &&
                     text(2)->size() <= name_bytes_max;
  if (!known) return failure("a reference does not name a storage");
  return Storage{.type = as<Global>(values, id[1])->name, .key = *text(2)};
}

namespace {

using Values = std::vector<Value>;

constexpr std::string_view dtype_name = "numpy.dtype";
// numpy has moved the function; ndarray is its argument.
constexpr std::array<std::string_view, 4> module_names = {"numpy.core.multiarray._reconstruct",
                                                          "numpy._core.multiarray._reconstruct",
                                                          "numpy.ndarray", dtype_name};
constexpr std::size_t type_bytes_max = 16;
constexpr std::size_t array_dimensions_max = 64;

template <class T>
const T* value_as(const Values& values, Index index) {
  return std::get_if<T>(&values.at(index));
}

// (version, shape, dtype, whether columns come first, bytes)
Result<Value> filled(const Values& values, const Tuple& state) {
  if (state.items.size() != 5) return failure("the state of an array does not have five parts");
  const auto* const shape = value_as<Tuple>(values, state.items[1]);
  const auto* const type = value_as<Global>(values, state.items[2]);
  const auto* const by_columns = value_as<bool>(values, state.items[3]);
  if (shape == nullptr || shape->items.size() > array_dimensions_max || type == nullptr ||
      !type->name.starts_with(dtype_name) ||
      value_as<std::string>(values, state.items[4]) == nullptr) {
    return failure("an array has an invalid shape, type or content");
  }
  if (by_columns != nullptr && *by_columns)
    return failure("arrays in column-major order are not supported");
  Array array{.dtype = type->name.substr(dtype_name.size() + 1), .bytes = state.items[4]};
  for (const Index item : shape->items) {
    const auto* const size = value_as<std::int64_t>(values, item);
    if (size == nullptr || *size < 0) return failure("an array has an invalid size");
    array.sizes.push_back(*size);
  }
  return array;
}

}  // namespace

bool is_array_name(const std::string& global) {
  return std::find(module_names.begin(), module_names.end(), global) != module_names.end();
}

Result<Value> make_array_part(const Values& values, const std::string& global,
                              const std::vector<Index>& arguments) {
  if (global.ends_with("._reconstruct")) return Array{};
  const auto* const type = global == dtype_name && !arguments.empty()
                               ? value_as<std::string>(values, arguments[0])
                               : nullptr;
  if (type == nullptr || type->size() > type_bytes_max) return failure("an array has no type");
  return Global{std::string(dtype_name) + ':' + *type};
}

Result<Value> with_state(const Values& values, Index target, Index state) {
  const auto* const parts = value_as<Tuple>(values, state);
  if (value_as<Array>(values, target) != nullptr && parts != nullptr) return filled(values, *parts);
  // The state of a type is its byte order; a type of single bytes has none.
  if (const auto* const type = value_as<Global>(values, target);
      type != nullptr && type->name.starts_with(std::string(dtype_name) + ':')) {
    return *type;
  }
  return failure("an object has an unsupported state");
}

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
