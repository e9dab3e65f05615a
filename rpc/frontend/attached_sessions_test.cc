// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/attached_sessions.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "rpc/frontend/client_identities.h"

namespace quorate::rpc {
namespace {

constexpr tree::SessionId kSession{7};

std::shared_ptr<AttachedSession> ClientWith(uint32_t tag, int64_t attach_zxid = 0) {
  auto client = std::make_shared<AttachedSession>();
  client->tag = tag;
  client->attach_zxid = tree::Zxid(attach_zxid);
  return client;
}

TEST_CASE("a session has its newest client, which only its own tag removes") {
  AttachedSessions sessions;
  CHECK(sessions.Find(kSession) == nullptr);
  sessions.Attach(kSession, ClientWith(1));
  sessions.Attach(kSession, ClientWith(2));
  sessions.Detach(kSession, 1);
  sessions.Update(kSession, ClientWith(1));
  REQUIRE(sessions.Find(kSession) != nullptr);
  CHECK(sessions.Find(kSession)->tag == 2);
  CHECK(sessions.Find(tree::SessionId(8)) == nullptr);
  const auto newer = ClientWith(2);
  sessions.Update(kSession, newer);
  CHECK(sessions.Find(kSession) == newer);
  sessions.Detach(kSession, 2);
  sessions.Update(kSession, newer);
  CHECK(sessions.Find(kSession) == nullptr);
}

TEST_CASE("an earlier attachment that is shown late does not replace a later one") {
  AttachedSessions sessions;
  sessions.Attach(kSession, ClientWith(2, 20));
  sessions.Attach(kSession, ClientWith(1, 10));
  CHECK(sessions.Find(kSession)->tag == 2);
  sessions.Attach(kSession, ClientWith(3, 30));
  CHECK(sessions.Find(kSession)->tag == 3);
}

TEST_CASE("identities are shown without hashes, in ASCII, and only so many") {
  std::vector<tree::Identity> identities = {
      {"ip", "10.0.0.1"}, {"digest", "al\xFF:hash"}, {"x509", std::string(1000, 'x')}};
  std::vector<std::string> texts = IdentityTexts(identities);
  REQUIRE(texts.size() == 3);
  CHECK(texts[0] == "ip:10.0.0.1");
  CHECK(texts[1] == "digest:al\\xff");
  CHECK(texts[2].size() == kShownIdentityBytesMax);
  identities.assign(100, {"digest", std::string(1000, '\xFF')});
  texts = IdentityTexts(identities);
  CHECK(texts.size() == kShownIdentitiesMax);
  CHECK(texts[0].size() <= kShownIdentityBytesMax);
}

}  // namespace
}  // namespace quorate::rpc
