// Sockets that a server listens on. Thread-safety: as Boost.Asio's sockets.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>

namespace quorate::rpc {

// What an IPv6 socket takes.
enum class Families { kOwn, kBoth };

// Opens `acceptor`, and listens on the endpoint; a port may be taken again at once after a restart.
// The error is that of the first step that failed.
boost::system::error_code ListenOn(const boost::asio::ip::tcp::endpoint& endpoint,
                                   Families families, boost::asio::ip::tcp::acceptor* acceptor);

// The same on all addresses of this machine: those of IPv6 and IPv4, or of IPv4 alone where there
// is no IPv6.
boost::system::error_code ListenOnAll(uint16_t port, boost::asio::ip::tcp::acceptor* acceptor);

}  // namespace quorate::rpc
