// SPDX-License-Identifier: Apache-2.0

// From the name that a client has proved to the id that access control lists have: Kerberos names,
// and the rules of security.auth_to_local.
//
// Thread-safety: values; constant functions may be called from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace quorate::rpc::sasl {

// A name service[/host][@realm].
struct KerberosName {
  std::string service;
  std::optional<std::string> host;
  std::optional<std::string> realm;
};

// Returns the parts of a name; nullopt if it has an @ and is malformed. A name without an @ is a
// service as a whole, even with a slash, as in ZooKeeper.
std::optional<KerberosName> ParseKerberosName(std::string_view name);

// Rules by which a Kerberos name gets a short name, one after another with or without spaces:
// - DEFAULT gives the service of names in the default realm;
// - RULE:[N:FORMAT](PATTERN)s/FROM/TO/g applies to names with N parts before the @. FORMAT gives a
//   text from the parts ($0 is the realm). If all of the text matches PATTERN, what matches FROM is
//   replaced by TO. All but RULE:[N:FORMAT] may be left out.
// The first rule that applies counts. The syntax of patterns is that of RE2.
class NameRules {
 public:
  // Returns InvalidArgument with the reason if `text` has a rule that is not valid.
  static absl::StatusOr<NameRules> Parse(std::string_view text, std::string default_realm);

  // Returns the short name. Returns NotFound if no rule applies, and InvalidArgument if the first
  // rule that applies gives a name with / or @.
  absl::StatusOr<std::string> ShortName(const KerberosName& name) const;

  NameRules(NameRules&&) noexcept;
  NameRules& operator=(NameRules&&) noexcept;
  ~NameRules();

 private:
  struct Rule;

  explicit NameRules(std::string default_realm);

  std::string default_realm_;
  std::vector<std::unique_ptr<const Rule>> rules_;
};

class IdMapping {
 public:
  // `removes_host` and `removes_realm`: ids have no host, and no realm.
  IdMapping(NameRules rules, bool removes_host, bool removes_realm)
      : rules_(std::move(rules)), removes_host_(removes_host), removes_realm_(removes_realm) {}

  // Returns the id of a client that has proved to be `name` and asks to act as `wanted`, which may be
  // empty: the short name, with the host and realm of `name` if they are not removed. If no rule
  // gives a short name, the id is `name`. ZooKeeper gives such a client the id `wanted`, which the
  // client chooses; here the two must then be equal. Returns Unauthenticated if they are not, and if
  // `name` is malformed.
  absl::StatusOr<std::string> IdOf(std::string_view name, std::string_view wanted) const;

 private:
  NameRules rules_;
  bool removes_host_;
  bool removes_realm_;
};

}  // namespace quorate::rpc::sasl
