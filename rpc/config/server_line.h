// SPDX-License-Identifier: Apache-2.0

// The value of a server.N line, which holds the addresses of one member: of ZooKeeper's
// configuration files, of the znode /zookeeper/config, and of the membership in the log.
//
// Thread-safety: plain values and functions without state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace quorate::rpc {

// host:peerPort[:electionPort][:participant|observer][;[clientHost:]clientPort]
struct ServerLine {
  std::string host = {};  // a name, or an address without brackets
  uint16_t peer_port = 0;
  uint16_t election_port = 0;  // shown, but not used; 0: not given
  bool observer = false;
  std::string client_host = {};  // empty: all addresses
  uint16_t client_port = 0;      // 0: not given in this line

  friend bool operator==(const ServerLine&, const ServerLine&) = default;
};

// The members by their numbers.
using ServerLines = std::map<uint32_t, ServerLine>;

// Parses the value of a server.N line; spaces around its parts are ignored. InvalidArgument, with
// the value and the form that it has to have, if it is malformed.
absl::StatusOr<ServerLine> ParseServerLine(std::string_view value);
// Returns the value as ZooKeeper writes it: with the role, and with 0.0.0.0 for all addresses.
std::string FormatServerLine(const ServerLine& line);

// Returns the content of /zookeeper/config: a line server.N=VALUE for each member, and
// version=VERSION at the end. `version` is the zxid of the change that made these members, in
// hexadecimal digits, or 0 if they come from a configuration file.
std::string FormatMembers(const ServerLines& members, std::string_view version);

// Returns `host`, in brackets if it is an IPv6 address, so that a port can follow.
std::string InBrackets(std::string_view host);

}  // namespace quorate::rpc
