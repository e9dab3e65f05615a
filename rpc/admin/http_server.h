// SPDX-License-Identifier: Apache-2.0

// An HTTP server for administrators and monitoring, on one port, with or without TLS. Parsing is
// done by Boost.Beast.
//
// It has five threads of its own (HttpThread), and takes nothing from the threads of clients. Each
// handles one request at a time. What a connection may take is bounded:
// - Headers have at most kHeaderBytesMax bytes (431 otherwise), bodies kBodyBytesMax (413).
// - From the end of one response, the next request has to be there completely within the idle
//   timeout; so a client that sends a byte now and then is closed, too. So is a client that does not
//   take a response within that time.
// - Responses that clients have not taken are at most unsent_bytes_max together, without those of less
//   than 64 KiB; a request whose response would exceed it gets 503.
// - Of a stream, one piece is in memory, as large as the stream makes it, and the next one is made when
//   the client has taken it. A client that does not take kStreamBytesPerTimeout bytes within the idle
//   timeout is closed, and so is one that has taken less than stream_rate_min on average after
//   stream_grace. The handler limits how many streams there are at once.
// - Only a few requests may wait for each of the threads of the console, of changes and of streams;
//   further ones get 503. A change that has waited for kChangeWaitMax gets 503 and is not made: its client is about to
//   give up, and would be told that it failed.
// - With connections_max connections, or connections_per_address_max from one address, a new one
//   replaces one, of that address in the second case: the first that has had its last response, then the
//   one that has waited longest for its request, then the one that has taken longest to fetch its
//   response. It is refused if the requests of all others are being handled.
//
// Thread-safety: Start and Stop are called from one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "rpc/admin/http.h"
#include "rpc/tls/current_context.h"

namespace quorate::rpc::admin {

inline constexpr size_t kHeaderBytesMax = 16u << 10;
inline constexpr size_t kBodyBytesMax = 64u << 10;
inline constexpr size_t kStreamBytesPerTimeout = 64u << 10;
inline constexpr auto kChangeWaitMax = std::chrono::seconds(3);

struct HttpServerOptions {
  enum class Encryption : uint8_t { kNone, kEither, kTls };

  std::string address_key;  // the configuration keys of address and port, for errors
  std::string port_key;
  std::string address;  // an IP address or a name of this machine; 0.0.0.0: all, IPv6 too
  uint16_t port = 0;    // 0: the system chooses
  Encryption encryption = Encryption::kNone;
  tls::CurrentContext* tls = nullptr;  // outlives the server; needed for TLS
  int idle_timeout_ms = 30'000;
  size_t connections_max = 256;
  size_t connections_per_address_max = 64;
  size_t unsent_bytes_max = 64u << 20;
  // The bytes per second that the client of a stream has to take on average since the stream began; checked
  // once stream_grace is over. While a stream lasts, the store cannot delete the files that it reads, and
  // other clients wait for their snapshot. 64 KiB/s is slower than any network over which whole trees are
  // copied; at that rate 10 GB take less than two days.
  uint64_t stream_rate_min = 64u << 10;
  std::chrono::milliseconds stream_grace = std::chrono::minutes(1);
  const Clock* clock = Clock::System();  // outlives the server; for kChangeWaitMax
  // Called for each TLS handshake that does not succeed, on the thread that serves all connections; may be
  // empty. `is_refused`: the client has proved nothing, or speaks no TLS; otherwise it was given up, took
  // too long, or had to give way.
  std::function<void(const std::string& address, std::string_view why, bool is_refused)>
      on_failed_handshake = {};
};

class HttpServer {
 public:
  // `handler` must outlive the server.
  HttpServer(HttpServerOptions options, HttpHandler* handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Begins to serve. Unavailable, with the key of the port and the way out, if it cannot listen
  // there; InvalidArgument if the address is no address and no known name.
  absl::Status Start();
  // Returns the port. REQUIRES: Start returned OK.
  uint16_t port() const;
  // Closes all connections and ends the threads; the handler is not called afterwards.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::rpc::admin
