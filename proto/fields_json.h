// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Values as JSON, written and read by one list of their fields. A format is a struct with such a
// list for each of its values:
//
//   struct DiskFormat {
//     void fields(auto& f, Of<Disk> auto& disk) const {
//       f("path", disk.path), f("size", disk.size);
//     }
//   };
//
// `f` is a FieldsWriter or a FieldsReader. A field may itself have a list, and be in an optional
// (null if empty) or a vector. Where a format has a function `write` or `read` for a type, that is
// used instead. Invalid JSON throws: the library's exception, or that of a `read`.
//
// A format whose `read` functions take a JsonText is read from the text, without a tree of values
// (read_text).

#include <chrono>
#include <concepts>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "proto/clock.h"
#include "proto/json_text.h"
#include "proto/rank.h"

namespace cpprun {

// A value that is written, or the same value that is read.
template <class T, class Value>
concept Of = std::same_as<std::remove_const_t<T>, Value>;

// A field that is null if it is empty or zero.
template <class T>
struct OrNull {
  T& value;
};
template <class T>
OrNull(T&) -> OrNull<T>;

// A time in JSON for people and scripts: seconds since 1970, with a fraction.
inline double unix_seconds(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// For a field that is null otherwise.
template <class T>
std::optional<T> only_if(bool is_known, T value) {
  return is_known ? std::optional<T>(std::move(value)) : std::nullopt;
}

// As text. Invalid UTF-8 is replaced, since names, paths and the output of workers may have it.
template <class Json>
std::string text_of_json(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// For readers that take a missing member for null.
template <class Json>
const Json& member_or_null(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

namespace field {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_or_null = false;
template <class T>
inline constexpr bool is_or_null<OrNull<T>> = true;
template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
template <class T>
inline constexpr bool is_list<std::deque<T>> = true;
template <class T>
inline constexpr bool is_id = false;
template <class Tag, class Value>
inline constexpr bool is_id<Id<Tag, Value>> = true;

}  // namespace field

template <class Json, class Format, class T>
Json json_of(const Format& format, const T& value);

template <class Json, class Format>
class FieldsWriter {
 public:
  static constexpr bool reads = false;
  FieldsWriter(const Format& format, Json& object) : format_(format), object_(object) {}

  template <class T>
  void operator()(const char* key, const T& value) {
    object_[key] = json_of<Json>(format_, value);
  }
  // A field that is omitted if it is empty or zero.
  template <class T>
  void where_known(const char* key, const T& value) {
    if constexpr (requires { value.is_known(); }) {
      if (value.is_known()) (*this)(key, value);
    } else {
      if (value != T{}) (*this)(key, value);
    }
  }
  // A field that earlier versions did not write.
  template <class T>
  void added(const char* key, const T& value) {
    (*this)(key, value);
  }

 private:
  const Format& format_;
  Json& object_;
};

template <class Json, class Format, class T>
Json json_of(const Format& format, const T& value) {
  if constexpr (std::same_as<T, Json>) {
    return value;
  } else if constexpr (requires { format.write(value); }) {
    return format.write(value);
  } else if constexpr (requires(FieldsWriter<Json, Format>& f) { format.fields(f, value); }) {
    Json object = Json::object();
    FieldsWriter<Json, Format> writer(format, object);
    format.fields(writer, value);
    return object;
  } else if constexpr (field::is_optional<T>) {
    return value ? json_of<Json>(format, *value) : Json();
  } else if constexpr (field::is_or_null<T>) {
    const bool is_null = value.value == std::remove_cvref_t<decltype(value.value)>{};
    return is_null ? Json() : json_of<Json>(format, value.value);
  } else if constexpr (field::is_id<T>) {
    return value.value;
  } else if constexpr (field::is_list<T>) {
    Json list = Json::array();
    for (const auto& each : value) list.push_back(json_of<Json>(format, each));
    return list;
  } else {
    return value;
  }
}

template <class Json, class Format, class T>
void read_json(const Format& format, const char* key, const Json& json, T& value);

template <class Json, class Format>
class FieldsReader {
 public:
  static constexpr bool reads = true;
  FieldsReader(const Format& format, const Json& object) : format_(format), object_(object) {}

  template <class T>
  void operator()(const char* key, T&& value) {
    if constexpr (requires { format_.member(object_, key); }) {
      read_json(format_, key, format_.member(object_, key), value);
    } else {
      read_json(format_, key, object_.at(key), value);
    }
  }
  template <class T>
  void where_known(const char* key, T&& value) {
    if (object_.contains(key)) (*this)(key, value);
  }
  template <class T>
  void added(const char* key, T&& value) {
    where_known(key, value);
  }

 private:
  const Format& format_;
  const Json& object_;
};

template <class Json, class Format, class T>
concept ReadByFormat = requires(const Format& format, const Json& json, T& value) {
  format.read("", json, value);
} || requires(const Format& format, FieldsReader<Json, Format>& f, T& value) {
  format.fields(f, value);
} || field::is_id<T>;

// Reads the field `key`, which errors may name. A value that the format does not know is read as
// the library does.
template <class Json, class Format, class T>
void read_json(const Format& format, const char* key, const Json& json, T& value) {
  if constexpr (requires { format.read(key, json, value); }) {
    format.read(key, json, value);
  } else if constexpr (requires(FieldsReader<Json, Format>& f) { format.fields(f, value); }) {
    FieldsReader<Json, Format> reader(format, json);
    format.fields(reader, value);
  } else if constexpr (field::is_optional<T>) {
    value.reset();
    if (!json.is_null()) read_json(format, key, json, value.emplace());
  } else if constexpr (field::is_or_null<T>) {
    value.value = {};
    if (!json.is_null()) read_json(format, key, json, value.value);
  } else if constexpr (field::is_id<T>) {
    read_json(format, key, json, value.value);
  } else if constexpr (field::is_list<T>) {
    if constexpr (ReadByFormat<Json, Format, typename T::value_type>) {
      value.clear();
      for (const Json& each : json) read_json(format, key, each, value.emplace_back());
    } else {
      value = json.template get<T>();
    }
  } else {
    value = json.template get<T>();
  }
}

template <class T, class Json, class Format>
T value_of_json(const Format& format, const Json& json) {
  T value{};
  read_json(format, "", json, value);
  return value;
}

template <class Format, class T>
void read_text(const Format& format, const char* key, JsonText& json, T& value);

// Reads the next value into the field that `key` names, and counts the fields.
template <class Format>
struct TextMember {
  static constexpr bool reads = true;
  const Format& format;
  JsonText& json;
  std::string_view key;  // valid until the value is read
  std::uint64_t& found;  // a bit for each field
  bool is_read = false;
  std::uint64_t bit = 1;

  template <class T>
  void operator()(const char* name, T&& value) {
    if (!is_read && key == name) {
      is_read = true;
      found |= bit;
      read_text(format, name, json, value);
    }
    bit <<= 1U;
  }
  template <class T>
  void where_known(const char* name, T&& value) {
    (*this)(name, value);
  }
};

// Throws for the first field that must be there and was not found.
struct TextMembersCheck {
  static constexpr bool reads = true;
  std::uint64_t found = 0;

  void operator()(const char* name, auto&&) {
    if ((found & 1U) == 0) throw JsonText::Invalid(std::string("no \"") + name + '"');
    found >>= 1U;
  }
  void where_known(const char*, auto&&) { found >>= 1U; }
};

template <class Format, class T>
void read_text(const Format& format, const char* key, JsonText& json, T& value) {
  if constexpr (requires { format.read(key, json, value); }) {
    format.read(key, json, value);
  } else if constexpr (field::is_optional<T>) {
    value.reset();
    if (!json.take_null()) read_text(format, key, json, value.emplace());
  } else if constexpr (field::is_id<T>) {
    read_text(format, key, json, value.value);
  } else if constexpr (std::same_as<T, bool>) {
    value = json.boolean();
  } else {
    std::uint64_t found = 0;
    json.each_member([&](std::string_view name) {
      TextMember<Format> member{format, json, name, found};
      format.fields(member, value);
      if (!member.is_read) json.skip();
    });
    TextMembersCheck check{found};
    format.fields(check, value);
  }
}

template <class T, class Format>
T value_of_text(const Format& format, JsonText json) {
  T value{};
  read_text(format, "", json, value);
  json.end();
  return value;
}

// The alternative with that index, default-constructed. The index is in range.
template <class Variant, std::size_t at = 0>
Variant alternative(std::size_t index) {
  if constexpr (at + 1 < std::variant_size_v<Variant>) {
    if (index != at) return alternative<Variant, at + 1>(index);
  }
  return Variant(std::in_place_index<at>);
}

}  // namespace cpprun
