// SPDX-License-Identifier: Apache-2.0

// The address at which the other servers reach a server.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "consensus/core/types.h"

namespace quorate::rpc {

struct PeerAddress {
  std::string host;  // a name, or an address without brackets
  uint16_t port = 0;

  std::string ToString() const;  // host:port
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};

// The addresses of members by their numbers.
using PeerAddresses = std::map<consensus::MemberId, PeerAddress>;

}  // namespace quorate::rpc
