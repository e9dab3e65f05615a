// SPDX-License-Identifier: Apache-2.0

// Files of the Java Authentication and Authorization Service (JAAS), in which users of ZooKeeper
// name their SASL users or the Kerberos principal of a server:
//
//     Server {
//       org.apache.zookeeper.server.auth.DigestLoginModule required
//       user_bob="secret";
//     };
//
// A value is a word, or text between double quotes with Java's escapes (\" \\ \n \101 ...) on one
// line. In a value, ${name} stands for a property of Java, and ${/} for a slash. Comments are
// // and # to the end of the line, and /* */.
//
// Thread-safety: values, and a function without state.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace quorate::rpc::sasl {

struct LoginModule {
  std::string java_class;
  std::map<std::string, std::string, std::less<>> options;
};

// The modules of each section, in the order of the file. No section is empty.
using JaasFile = std::map<std::string, std::vector<LoginModule>, std::less<>>;

// Returns the value of a property of Java; nullopt if it is not set.
using PropertyLookup = std::function<std::optional<std::string>(std::string_view name)>;

inline constexpr size_t kJaasBytesMax = 1u << 20;

// Parses `text`, the content of `file`. Returns InvalidArgument with the file, the line and the
// reason, and without any value of the file. Texts above kJaasBytesMax are refused.
absl::StatusOr<JaasFile> ParseJaas(std::string_view file, std::string_view text,
                                   const PropertyLookup& property);

}  // namespace quorate::rpc::sasl
