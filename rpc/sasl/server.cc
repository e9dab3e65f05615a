// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/server.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/strings.h"
#include "rpc/sasl/gssapi.h"
#include "rpc/sasl/names.h"
#include "rpc/sasl/passwords.h"

namespace quorate::rpc::sasl {
namespace {

constexpr absl::string_view kDigestModule = "org.apache.zookeeper.server.auth.DigestLoginModule";
constexpr absl::string_view kKerberosModule = "com.sun.security.auth.module.Krb5LoginModule";
constexpr absl::string_view kUserPrefix = "user_";
constexpr char kSuper[] = "super";
// The sections of ZooKeeper's SASL between servers.
constexpr const char* kMemberSections[] = {"QuorumServer", "QuorumLearner"};

// Returns the option; empty if it is not set.
std::string OptionOf(const LoginModule& module, std::string_view key) {
  const auto found = module.options.find(key);
  return found == module.options.end() ? "" : found->second;
}

absl::Status Unusable(const Options& options, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(options.file, ": section ", options.section, ": ", problem));
}

// ZooKeeper looks at these sections only with quorum.auth.enableSasl=true, which is refused.
std::string NoMemberSasl(const Options& options, absl::string_view section) {
  return absl::StrCat(
      options.file, ": section ", section,
      ": has no effect: there is no SASL between servers; they authenticate with certificates "
      "(sslQuorum, ssl.quorum.*) or a shared secret (memberSecretFile); remove the section");
}

absl::StatusOr<std::unique_ptr<Authenticator>> MakeDigest(const Options& options,
                                                          const std::vector<LoginModule>& modules,
                                                          IdMapping ids,
                                                          std::vector<std::string>* warnings) {
  Passwords::Users users;
  for (const LoginModule& module : modules) {
    for (const auto& [key, value] : module.options) {
      absl::string_view name = key;
      if (!absl::ConsumePrefix(&name, kUserPrefix)) continue;
      if (name.empty()) return Unusable(options, "the option user_ has no name of a user");
      // ZooKeeper takes the password of the last module.
      users[std::string(name)] = value;
    }
  }
  if (users.empty()) {
    return Unusable(options, "it has no user; give each as user_NAME=\"PASSWORD\"");
  }
  const auto super = users.find(kSuper);
  if (super != users.end() && !options.super_password.empty()) {
    super->second = options.super_password;
  }
  if (super == users.end() && !options.super_password.empty()) {
    warnings->push_back(absl::StrCat(options.file, ": section ", options.section,
                                     ": there is no user_super, so that "
                                     "SASLAuthenticationProvider.superPassword has no effect"));
  }
  for (const auto& [name, password] : users) {
    if (password.empty()) {
      return Unusable(options, absl::StrCat("the password of user ", name, " is empty"));
    }
    // Cyrus SASL takes what is before it for the password.
    if (password.find('\0') != std::string::npos) {
      return Unusable(options, absl::StrCat("the password of user ", name, " has a zero byte"));
    }
  }
  absl::StatusOr<std::unique_ptr<Passwords>> made =
      Passwords::Create(std::move(users), std::move(ids), options.random, options.clock);
  if (!made.ok()) return made.status();
  return *std::move(made);
}

absl::StatusOr<std::unique_ptr<Authenticator>> MakeKerberos(const Options& options,
                                                            const LoginModule& module,
                                                            IdMapping ids) {
  KerberosOptions kerberos;
  kerberos.principal = OptionOf(module, "principal");
  if (kerberos.principal.empty() || kerberos.principal == "*") {
    return Unusable(
        options, "the module of Kerberos needs principal=\"zookeeper/HOST@REALM\", of this server");
  }
  absl::string_view keytab;
  const std::string value = OptionOf(module, "keyTab");
  keytab = value;
  if (!absl::EqualsIgnoreCase(OptionOf(module, "useKeyTab"), "true")) {
    return Unusable(options,
                    "the module of Kerberos needs useKeyTab=true and keyTab=\"PATH\": clients are "
                    "accepted with the key in a keytab, not with a ticket");
  }
  for (const char* prefix : {"file:", "FILE:"}) absl::ConsumePrefix(&keytab, prefix);
  kerberos.keytab = std::string(keytab);
  kerberos.allows_super =
      std::ranges::find(options.super_users, kSuper) != options.super_users.end();
  absl::StatusOr<std::unique_ptr<Gssapi>> made = Gssapi::Create(kerberos, std::move(ids));
  if (!made.ok()) {
    return absl::Status(made.status().code(), Unusable(options, made.status().message()).message());
  }
  return *std::move(made);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Authenticator>> MakeAuthenticator(
    const Options& options, std::string_view text, const PropertyLookup& property,
    std::vector<std::string>* warnings) {
  const absl::StatusOr<JaasFile> file = ParseJaas(options.file, text, property);
  if (!file.ok()) return file.status();
  const std::string rules =
      options.auth_to_local_rules.empty() ? "DEFAULT" : options.auth_to_local_rules;
  absl::StatusOr<NameRules> names = NameRules::Parse(
      rules, options.default_realm.empty() ? DefaultRealm() : options.default_realm);
  if (!names.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("security.auth_to_local: ", names.status().message()));
  }
  for (const char* unsupported : kMemberSections) {
    if (file->contains(unsupported)) warnings->push_back(NoMemberSasl(options, unsupported));
  }
  const auto section = file->find(options.section);
  if (section == file->end()) {
    warnings->push_back(absl::StrCat(options.file, ": there is no section ", options.section,
                                     ": clients cannot authenticate by SASL"));
    return nullptr;
  }
  IdMapping ids(*std::move(names), options.removes_host, options.removes_realm);
  const std::vector<LoginModule>& modules = section->second;
  for (const LoginModule& module : modules) {
    if (module.java_class != kDigestModule && module.java_class != kKerberosModule) {
      return Unusable(
          options, absl::StrCat("the module ", module.java_class, " is not supported; there are ",
                                kDigestModule, " and ", kKerberosModule));
    }
  }
  if (modules[0].java_class == kKerberosModule) {
    return MakeKerberos(options, modules[0], std::move(ids));
  }
  return MakeDigest(options, modules, std::move(ids), warnings);
}

}  // namespace quorate::rpc::sasl
