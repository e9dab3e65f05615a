// SPDX-License-Identifier: Apache-2.0

// Opens the sockets that a server listens on. Thread-safety: as Boost.Asio's sockets.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>

namespace quorate::rpc {

// Which connections an IPv6 socket accepts: those over IPv6 only, or those over IPv4 too.
enum class Families { kOwn, kBoth };

// Opens `acceptor` and listens on `endpoint`. Sets SO_REUSEADDR, so that a restarted server can
// bind the port at once. Returns the error of the first step that failed.
boost::system::error_code ListenOn(const boost::asio::ip::tcp::endpoint& endpoint,
                                   Families families, boost::asio::ip::tcp::acceptor* acceptor);

// Does the same on all addresses of this machine: IPv6 and IPv4, or IPv4 alone on a machine without
// IPv6.
boost::system::error_code ListenOnAll(uint16_t port, boost::asio::ip::tcp::acceptor* acceptor);

}  // namespace quorate::rpc
