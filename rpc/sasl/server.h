// SPDX-License-Identifier: Apache-2.0

// Makes the Authenticator that a JAAS file describes.
//
// Thread-safety: functions without state.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/random.h"
#include "rpc/sasl/exchange.h"
#include "rpc/sasl/jaas.h"

namespace quorate::rpc::sasl {

struct Options {
  std::string file;            // its name, for messages
  std::string section;         // of the file
  std::string super_password;  // of the user "super" in place of that in the file; empty: none
  std::vector<std::string> super_users;  // ids that pass every access control list
  bool removes_host = false;             // from Kerberos names, for ids
  bool removes_realm = false;
  std::string auth_to_local_rules;  // empty: DEFAULT
  std::string default_realm;        // empty: that of krb5.conf
  // Both must outlive the Authenticator.
  RandomBytes* random = RandomBytes::System();
  const Clock* clock = Clock::System();
};

// Returns the Authenticator for `text`, the content of the JAAS file: GSSAPI if the first module of
// the section is that of Kerberos, else DIGEST-MD5. Returns nullptr if there is no such section.
// Adds to `*warnings` what has no effect. Returns InvalidArgument or FailedPrecondition, with the
// reason and without any secret, if the section cannot be used.
absl::StatusOr<std::unique_ptr<Authenticator>> MakeAuthenticator(
    const Options& options, std::string_view text, const PropertyLookup& property,
    std::vector<std::string>* warnings);

}  // namespace quorate::rpc::sasl
