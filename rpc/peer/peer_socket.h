// SPDX-License-Identifier: Apache-2.0

// Functions that both ends of a connection between servers use.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

namespace quorate::rpc {

// Returns an address as text; an IPv4 address has the same text on an IPv4 and on an IPv6 socket.
std::string HostText(boost::asio::ip::address address);

// Configures a socket to send without delay, and to fail within seconds if the machine at the other
// end no longer responds. Otherwise a server that comes back would be refused because of its old
// connection. Returns the error of the socket, which cannot be used then.
boost::system::error_code ConfigurePeerSocket(int descriptor);

// Return the addresses of the two ends of a connected socket. Set `*error` if it has none.
boost::asio::ip::tcp::endpoint OwnEnd(int descriptor, boost::system::error_code* error);
boost::asio::ip::tcp::endpoint OtherEnd(int descriptor, boost::system::error_code* error);

// Returns the error of the last system call of this thread.
boost::system::error_code LastError();

}  // namespace quorate::rpc
