// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/json_text.h"

namespace quorate::rpc::admin {
namespace {

// Returns the text of a value that is neither an object nor an array.
std::string ScalarText(const Json& value) {
  return value.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// Appends `value`, which is inside of `depth` objects.
void Append(const Json& value, size_t depth, std::string* to) {
  if (value.is_array()) {
    *to += "[ ";
    const char* separator = "";
    for (const Json& item : value) {
      *to += separator;
      separator = ", ";
      Append(item, depth, to);
    }
    *to += value.empty() ? "]" : " ]";
  } else if (value.is_object() && value.empty()) {
    *to += "{ }";
  } else if (value.is_object()) {
    const char* separator = "{\n";
    for (const auto& [key, member] : value.items()) {
      *to += separator;
      separator = ",\n";
      to->append(2 * depth + 2, ' ');
      *to += ScalarText(key) + " : ";
      Append(member, depth + 1, to);
    }
    *to += '\n';
    to->append(2 * depth, ' ');
    *to += '}';
  } else {
    *to += ScalarText(value);
  }
}

}  // namespace

std::string JsonText(const Json& value) {
  std::string text;
  Append(value, 0, &text);
  return text;
}

}  // namespace quorate::rpc::admin
