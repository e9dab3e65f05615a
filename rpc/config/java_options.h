// SPDX-License-Identifier: Apache-2.0

// Properties of a Java machine, in the options -Dname=value that users of ZooKeeper keep in the
// environment variables SERVER_JVMFLAGS and JVMFLAGS, and in JAVA_OPTS for Debian's package.
//
// Thread-safety: functions without state. Those that read the environment must not run while
// another thread changes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quorate::rpc {

// Returns the options in the environment, in the order in which zkServer.sh gives them to Java.
std::string JavaOptionsOfEnvironment();

// Returns the names and values of the properties in `options`, in their order; the last of two with
// the same name counts.
std::vector<std::pair<std::string, std::string>> JavaProperties(std::string_view options);

// Returns the value of a property in the environment; nullopt if it is not set. The properties that
// Java sets by itself are not known, except for user.home and user.name.
std::optional<std::string> JavaPropertyOfEnvironment(std::string_view name);

}  // namespace quorate::rpc
