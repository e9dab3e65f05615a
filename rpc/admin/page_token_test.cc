// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/page_token.h"

#include <catch2/catch.hpp>
#include <string>

#include "base/testing/manual_clock.h"

namespace quorate::rpc::admin {
namespace {

TEST_CASE("a token is good for its caller and its time, and for no other") {
  ManualClock clock;
  const PageTokens tokens(&clock, RandomBytes::System());
  const PageTokens of_another_start(&clock, RandomBytes::System());
  HttpRequest request;
  request.caller.address = "10.0.0.1";
  request.caller.subject = "CN=a";
  request.authorization = "Basic dTpw";
  request.page_token = tokens.Make(request);
  CHECK(tokens.IsGood(request));
  CHECK_FALSE(of_another_start.IsGood(request));

  HttpRequest other = request;
  other.caller.address = "10.0.0.2";
  CHECK_FALSE(tokens.IsGood(other));
  other = request;
  other.caller.subject = "CN=b";
  CHECK_FALSE(tokens.IsGood(other));
  other = request;
  other.authorization = "";
  CHECK_FALSE(tokens.IsGood(other));
  other = request;
  other.caller.subject = "CN=aB";
  other.authorization = "asic dTpw";
  CHECK_FALSE(tokens.IsGood(other));

  constexpr int64_t kLifetimeMs = std::chrono::milliseconds(PageTokens::kLifetime).count();
  clock.Advance(kLifetimeMs - 1);
  CHECK(tokens.IsGood(request));
  clock.Advance(1);
  CHECK_FALSE(tokens.IsGood(request));
}

TEST_CASE("what is no token is not good") {
  ManualClock clock;
  const PageTokens tokens(&clock, RandomBytes::System());
  HttpRequest request;
  const std::string good = tokens.Make(request);
  const std::string expiry = good.substr(0, good.find('.'));
  for (const std::string& token :
       {std::string(), std::string("."), std::string("1"), expiry, expiry + ".", "9" + good,
        good + "0", good.substr(0, good.size() - 1), std::string(200'000, '1'),
        "99999999999999999999" + good.substr(expiry.size())}) {
    request.page_token = token;
    INFO(token.substr(0, 100));
    CHECK_FALSE(tokens.IsGood(request));
  }
}

}  // namespace
}  // namespace quorate::rpc::admin
