// SPDX-License-Identifier: Apache-2.0

// The tokens of the web console's pages. A page reads one with the overview, which no page of another
// site can read, and sends it with each change in the header X-Quorate-Page. So a change comes from a
// page of this server, even where the address or the certificate of a browser alone would allow it.
//
// A token is for one caller (its address, certificate and credentials) and for a limited time. The
// server keeps none of them: a token is a time and the HMAC-SHA256 of it and of the caller, by a key
// that the server draws at its start.
//
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "rpc/admin/http.h"

namespace quorate::rpc::admin {

class PageTokens {
 public:
  static constexpr auto kLifetime = std::chrono::minutes(5);

  // `clock` must outlive the object.
  PageTokens(const Clock* clock, RandomBytes* random) : clock_(clock), key_(random->Make(32)) {}

  // Returns a token for the caller that sends the request.
  std::string Make(const HttpRequest& request) const;
  // Returns whether the request has a token that was made for its caller within kLifetime.
  bool IsGood(const HttpRequest& request) const;

 private:
  std::string Proof(std::string_view expiry, const HttpRequest& request) const;
  int64_t NowMs() const;

  const Clock* const clock_;
  const std::string key_;
};

}  // namespace quorate::rpc::admin
