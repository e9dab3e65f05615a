// SPDX-License-Identifier: Apache-2.0

// Looks up the addresses of this machine on which a server listens.
//
// Thread-safety: a function without state.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace quorate::rpc {

// Returns the endpoints of `host`, an IP address or a name, with `port`; none, and the reason in
// `*error`, if the name is not known. For an IP address it returns at once. For a name it blocks
// until the resolver answers, and logs the wait after 5 seconds and then each minute, with `key`,
// the configuration key that has the name.
std::vector<boost::asio::ip::tcp::endpoint> LookUpOwnName(const std::string& key,
                                                          const std::string& host, uint16_t port,
                                                          boost::system::error_code* error);

}  // namespace quorate::rpc
