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
// `*error`, if the name is not known. An IP address is returned at once. A name blocks until the
// resolver answers; from the fifth second on, and then each minute, that is logged, with `key`, the
// key of the configuration that has the name.
std::vector<boost::asio::ip::tcp::endpoint> LookUpOwnName(const std::string& key,
                                                          const std::string& host, uint16_t port,
                                                          boost::system::error_code* error);

}  // namespace quorate::rpc
