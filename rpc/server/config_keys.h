// The names of configuration keys: which ZooKeeper keys have no effect here and why, which ask for
// protection that this server does not have, and what a mistyped key probably means.
//
// Thread-safety: constant tables.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quorate::rpc {

// A ZooKeeper key that asks for protection which is not implemented. A server that only warned
// would admit clients or servers that the key is meant to keep out, so the start is refused.
struct Protection {
  std::string harmless;  // the value that asks for no protection; empty: there is none
  std::string missing;   // what is not implemented
};

// Returns why `key` of ZooKeeper has no effect here, for the log; empty if it is not such a key.
// Covers the keys of TLS stores (ssl.*) too.
std::string WhyIgnored(std::string_view key);

// The keys that ask for protection which is not implemented, without the prefix "zookeeper.".
const std::map<std::string, Protection>& Protections();

// Returns the keys that somebody who wrote `key` probably meant, the most likely ones only.
std::vector<std::string> SimilarKeys(const std::string& key);

}  // namespace quorate::rpc
