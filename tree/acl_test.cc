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

TEST_CASE("ids are checked by their scheme") {
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

TEST_CASE("who is allowed what") {
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

TEST_CASE("addresses match by prefix") {
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

TEST_CASE("ACLs are resolved against the caller") {
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

TEST_CASE("digest ids are masked behind the user") {
  CHECK(MaskDigestId("user:hash") == "user:x");
  CHECK(MaskDigestId("a:b:") == "a:x");
  CHECK(MaskDigestId("user") == "user");
}

TEST_CASE("equal lists share an entry until the last reference goes") {
  AclTable table;
  CHECK(table.Ref(OpenAcl()) == kOpenAclId);
  const std::vector<Acl> a = {MakeAcl(1, "world", "anyone")};
  const std::vector<Acl> b = {MakeAcl(2, "digest", "u:h")};
  const uint32_t id = table.Ref(a);
  CHECK(id != kOpenAclId);
  CHECK(table.Ref(a) == id);
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
  table.Unref(kOpenAclId);
  CHECK(table.Get(kOpenAclId) == OpenAcl());
}

}  // namespace
}  // namespace quorate::tree
