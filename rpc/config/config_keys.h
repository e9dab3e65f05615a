// SPDX-License-Identifier: Apache-2.0

// The table of configuration keys, in which each key is declared once. It drives the parser of the
// configuration file, the suggestions for misspelt keys, the lines of the four-letter word `conf`,
// the tables of docs/reference/configuration.md, and deploy/zoo.cfg.sample.
//
// Thread-safety: constant tables and pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/config/config.h"
#include "rpc/config/config_value.h"

namespace quorate::rpc {

// The section of docs/reference/configuration.md to which a key belongs.
enum class Section { kCluster, kData, kTimes, kLimits, kAccess, kTls, kMemberTls, kSasl, kHttp };

// The name under which the table lists the server.N lines, which the parser reads without the
// table.
inline constexpr std::string_view kServerKey = "server.N";

// The form of the log's lines, which the program reads before the configuration, because the parser logs
// warnings.
inline constexpr std::string_view kLogFormatKey = "log.format";

// A key that has an effect. `default_text`, `range` and `meaning` are Markdown.
struct ConfigKey {
  std::string_view name;
  Value value;  // Unchecked only for the two keys above
  Section section;
  bool is_property = false;            // accepted with the prefix "zookeeper." too
  bool is_required = false;            // a standalone server cannot start without it
  std::string_view default_text = {};  // empty: the value of the field of Config without the key
  std::string_view range = {};         // empty: the range of the type
  std::string_view example = {};       // a valid value; empty: the value without the key
  std::string_view meaning;
};

// A key of ZooKeeper that has no effect.
struct IgnoredKey {
  std::string_view name;
  std::string_view why;
  Value value = {};  // required of a value if the key is written without the prefix "zookeeper."
};

// A ZooKeeper key that requests protection that is not implemented. A server that only logged a
// warning would admit clients or servers that the key is meant to keep out. Therefore the start is
// refused.
struct ProtectionKey {
  std::string_view name;
  std::string_view harmless;  // the value that requests no protection; empty: there is none
  std::string_view missing;   // what is not implemented
};

// Returns the keys that have an effect, in the order of the sections.
std::span<const ConfigKey> ConfigKeys();

// Returns the key with an effect that is written as `key` in a file; nullptr if there is none.
const ConfigKey* FindConfigKey(std::string_view key);

// Returns the key without effect that is written as `key` in a file, with or without the prefix
// "zookeeper."; nullptr if there is none.
const IgnoredKey* FindIgnoredKey(std::string_view key);

// Returns all keys without effect, and all keys that request protection, by name; and the row for keys
// of TLS that are not known.
std::span<const IgnoredKey> IgnoredKeys();
std::span<const ProtectionKey> ProtectionKeys();
const ProtectionKey& UnknownTls();

// Returns the key that requests protection and is written as `key` in a file, with or without the
// prefix "zookeeper."; nullptr if there is none. All unknown keys of TLS (ssl.*) are such a key.
const ProtectionKey* FindProtectionKey(std::string_view key);

// Returns `key` without the prefix of ZooKeeper's Java properties, "zookeeper.", if it has that
// prefix.
std::string_view WithoutPropertyPrefix(std::string_view key);

// Returns the most likely keys of which `key` may be a misspelling.
std::vector<std::string> SimilarKeys(const std::string& key);

// Returns whether the value of `key` is a secret, such as a password, which no log, error or reply
// shows. The path of a file with a secret is none, nor is whether a secret is required.
bool IsSecretKey(std::string_view key);

// Returns "key=value\n" with the value in `config`; "key=(hidden)\n" if it is a secret. REQUIRES: `key` is the name of a ConfigKey or
// an IgnoredKey.
std::string ConfigLine(std::string_view key, const Config& config);

}  // namespace quorate::rpc
