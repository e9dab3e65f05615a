// SPDX-License-Identifier: Apache-2.0

#include "tree/acl.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tree/acl_table.h"

namespace quorate::tree {
namespace {

Acl MakeAcl(int32_t permissions, std::string scheme, std::string id) {
  return Acl{permissions, Identity{std::move(scheme), std::move(id)}};
}

bool Allowed(const std::vector<Acl>& acl, const std::vector<Identity>& identities,
             int32_t permissions) {
  return IsAllowed(acl, identities, permissions);
}

bool Resolve(const std::vector<Acl>& acl, const std::vector<Identity>& identities,
             std::vector<Acl>* resolved) {
  return ResolveAcl(acl, identities, resolved);
}

TEST_CASE("an ACL id is checked by the rules of its scheme") {
  struct Case {
    std::string_view scheme;
    std::string_view id;
    bool valid;
  };
  for (const Case& c : std::vector<Case>{
           {"digest", "user:hash", true},
           {"digest", ":hash", true},
           {"digest", "a:b:", true},  // Java's split drops empty parts at the end
           {"digest", "user:", false},
           {"digest", "user", false},
           {"digest", "a:b:c", false},
           {"digest", "", false},
           {"ip", "127.0.0.1", true},
           {"ip", "10.0.0.0/8", true},
           {"ip", "10.0.0.0/0", true},
           {"ip", "10.0.0.0/32", true},
           {"ip", "10.0.0.0/33", false},
           {"ip", "10.0.0.0/-1", false},
           {"ip", "10.0.0.0/", false},
           {"ip", "10.0.0.0/8/8", false},
           {"ip", "10.0.0", false},
           {"ip", "10.0.0.0.1", false},
           {"ip", "10.0.0.256", false},
           {"ip", "10.0.0.x", false},
           {"ip", "", false},
           {"ip", "::1", true},
           {"ip", "::", true},
           {"ip", "fe80::1/64", true},
           {"ip", "1:2:3:4:5:6:7:8", true},
           {"ip", "::ffff:1.2.3.4", true},
           {"ip", "1:2:3:4:5:6:1.2.3.4", true},
           {"ip", "fe80::1/129", false},
           {"ip", "1:2:3:4:5:6:7", false},
           {"ip", "1:2:3:4:5:6:7:8:9", false},
           {"ip", "1::2::3", false},
           {"ip", ":::", false},
           {"ip", "12345::", false},
           {"ip", "g::", false},
           {"ip", "1:2:3:4:5:6:7:", false},
           {"x509", "CN=host,O=org", true},
           {"x509", "CN=a\\,b", true},
           {"x509", "host", false},
           {"x509", "CN=a,b", false},
           {"x509", "", false},
           {"sasl", "user", true},
           {"sasl", "user@REALM", true},
           {"sasl", "user/host@REALM", true},
           {"sasl", "user/a/b@REALM", false},
           {"sasl", "user@A@B", false},
           {"world", "somebody", false},
           {"unknown", "x", false},
           {"", "", false},
       }) {
    CAPTURE(c.scheme, c.id);
    CHECK(IsValidId(c.scheme, c.id) == c.valid);
  }
}

TEST_CASE("IsAllowed: identities are matched by the rules of their scheme") {
  using permission::kRead;
  using permission::kWrite;
  const std::vector<Identity> nobody;
  const std::vector<Identity> alice = {{"ip", "10.1.2.3"}, {"digest", "alice:x"}};
  const std::vector<Identity> super = {{"super", ""}};

  const std::vector<Acl> world_reads = {MakeAcl(kRead, "world", "anyone")};
  CHECK(Allowed(world_reads, nobody, kRead));
  CHECK_FALSE(Allowed(world_reads, nobody, kWrite));
  CHECK(Allowed(world_reads, super, kWrite));
  CHECK(Allowed(world_reads, nobody, kRead | permission::kAdmin));

  const std::vector<Acl> alice_writes = {MakeAcl(kWrite, "digest", "alice:x")};
  CHECK(Allowed(alice_writes, alice, kWrite));
  CHECK_FALSE(Allowed(alice_writes, alice, kRead));
  CHECK_FALSE(Allowed(alice_writes, nobody, kWrite));
  CHECK_FALSE(Allowed({MakeAcl(kWrite, "digest", "alice:y")}, alice, kWrite));
  CHECK_FALSE(Allowed({MakeAcl(kWrite, "x509", "alice:x")}, alice, kWrite));

  CHECK(Allowed({MakeAcl(kRead, "sasl", "bob")}, {{"sasl", "super"}}, kRead));
  CHECK_FALSE(Allowed({MakeAcl(kRead, "sasl", "bob")}, {{"sasl", "eve"}}, kRead));
}

TEST_CASE("an address matches a range by its prefix") {
  const auto matches = [](std::string expression, std::string address) {
    return Allowed({MakeAcl(1, "ip", std::move(expression))}, {{"ip", std::move(address)}}, 1);
  };
  CHECK(matches("10.1.2.3", "10.1.2.3"));
  CHECK_FALSE(matches("10.1.2.3", "10.1.2.4"));
  CHECK(matches("10.1.2.0/24", "10.1.2.200"));
  CHECK_FALSE(matches("10.1.2.0/24", "10.1.3.1"));
  CHECK(matches("10.1.2.128/25", "10.1.2.129"));
  CHECK_FALSE(matches("10.1.2.128/25", "10.1.2.127"));
  CHECK(matches("0.0.0.0/0", "1.2.3.4"));
  CHECK_FALSE(matches("0.0.0.0/0", "::1"));
  CHECK(matches("fe80::/10", "fe80:0:0:0:1:2:3:4"));
  CHECK(matches("::1", "0:0:0:0:0:0:0:1"));
  CHECK_FALSE(matches("fe80::/10", "2001:db8::1"));
}

TEST_CASE("ResolveAcl replaces auth entries by the caller's identities") {
  const std::vector<Identity> caller = {{"ip", "10.0.0.1"}, {"digest", "u:h"}, {"sasl", "u"}};
  std::vector<Acl> resolved;
  CHECK_FALSE(Resolve({}, caller, &resolved));

  REQUIRE(Resolve({MakeAcl(31, "auth", "ignored")}, caller, &resolved));
  CHECK(resolved == std::vector<Acl>{MakeAcl(31, "digest", "u:h"), MakeAcl(31, "sasl", "u")});
  CHECK_FALSE(Resolve(std::vector<Acl>{MakeAcl(31, "auth", "")}, {{"ip", "10.0.0.1"}}, &resolved));

  const Acl world = MakeAcl(1, "world", "anyone");
  const Acl digest = MakeAcl(2, "digest", "a:b");
  REQUIRE(Resolve(std::vector<Acl>{world, digest, world, digest}, caller, &resolved));
  CHECK(resolved == std::vector<Acl>{world, digest});
  CHECK_FALSE(Resolve(std::vector<Acl>{world, MakeAcl(1, "ip", "nowhere")}, caller, &resolved));
  CHECK_FALSE(Resolve(std::vector<Acl>{MakeAcl(1, "world", "me")}, caller, &resolved));
}

TEST_CASE("MaskDigestId hides the hash of a digest id") {
  CHECK(MaskDigestId("user:hash") == "user:x");
  CHECK(MaskDigestId("a:b:") == "a:x");
  CHECK(MaskDigestId("user") == "user");
}

// Returns a list with entries of all schemes, many of which are equal.
std::vector<Acl> RandomAcl(uint64_t* state) {
  const auto next = [state](uint64_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
  };
  const auto number = [&](uint64_t below) { return std::to_string(next(below)); };
  std::vector<Acl> acl;
  const uint64_t count = 9 + next(30);
  for (uint64_t i = 0; i < count; ++i) {
    const int32_t permissions = static_cast<int32_t>(next(32));
    switch (next(8)) {
      case 0:
        acl.push_back(MakeAcl(permissions, "sasl", next(4) == 0 ? "super" : "user" + number(5)));
        break;
      case 1:
        acl.push_back(MakeAcl(permissions, "ip", "10.0." + number(3) + "." + number(4)));
        break;
      case 2:
        acl.push_back(
            MakeAcl(permissions, "ip", "10." + number(2) + ".0.0/" + std::to_string(next(33))));
        break;
      case 3:
        acl.push_back(MakeAcl(permissions, "ip", "fe80::" + number(4) + "/" + number(129)));
        break;
      case 4:
        acl.push_back(MakeAcl(permissions, "world", next(8) == 0 ? "anyone" : "somebody"));
        break;
      case 5:
        // "10.0.0" is not an address, but imported data may have such an entry.
        acl.push_back(MakeAcl(permissions, "ip", "10.0.0"));
        break;
      default:
        acl.push_back(MakeAcl(permissions, "digest", "user" + number(9) + ":hash"));
    }
  }
  return acl;
}

TEST_CASE("an index of an ACL permits exactly what the list permits") {
  const std::vector<std::vector<Identity>> callers = {
      {},
      {{"digest", "user3:hash"}},
      {{"ip", "10.0.0.1"}, {"digest", "user7:hash"}, {"digest", "user1:hash"}},
      {{"ip", "10.1.200.3"}},
      {{"ip", "fe80::2"}},
      {{"ip", "10.0.0"}},
      {{"ip", "nonsense"}},
      {{"sasl", "user2"}},
      {{"sasl", "super"}},
      {{"world", "somebody"}},
      {{"super", ""}},
  };
  uint64_t state = 1;
  int allowed = 0;
  for (int round = 0; round < 500; ++round) {
    const std::vector<Acl> acl = RandomAcl(&state);
    AclTable table;
    const uint32_t id = table.Ref(acl);
    for (const std::vector<Identity>& caller : callers) {
      for (int32_t permission = 1; permission <= permission::kAll; permission *= 2) {
        CAPTURE(round, caller.empty() ? "nobody" : caller[0].id, permission);
        const bool expected = IsAllowed(acl, caller, permission);
        REQUIRE(table.Allows(id, caller, permission) == expected);
        if (expected) ++allowed;
      }
    }
  }
  CHECK(allowed > 1000);
  CHECK(allowed < 500 * 11 * 5 - 1000);
}

TEST_CASE("equal ACLs share an entry until the last reference is dropped") {
  AclTable table;
  CHECK(table.Ref(OpenAcl()) == kOpenAclId);
  const std::vector<Acl> a = {MakeAcl(1, "world", "anyone")};
  const std::vector<Acl> b = {MakeAcl(2, "digest", "u:h")};
  const uint32_t id = table.Ref(a);
  CHECK(id != kOpenAclId);
  table.Ref(id);
  CHECK(table.Get(id) == a);
  CHECK(table.Hash(id) != table.Hash(kOpenAclId));
  const uint64_t hash = table.Hash(id);
  CHECK(table.size() == 2);
  table.Unref(id);
  CHECK(table.Get(id) == a);
  table.Unref(id);
  CHECK(table.size() == 1);
  CHECK(table.Ref(b) == id);
  CHECK(table.Get(id) == b);
  const uint32_t again = table.Ref(a);
  CHECK(again != id);
  CHECK(table.Hash(again) == hash);
  CHECK(table.Ref(a) == again);
  table.Ref(kOpenAclId);
  table.Unref(kOpenAclId);
  CHECK(table.Get(kOpenAclId) == OpenAcl());
}

}  // namespace
}  // namespace quorate::tree
