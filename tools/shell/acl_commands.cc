// SPDX-License-Identifier: Apache-2.0

// The commands on access control and identities: getAcl, setAcl, addauth, whoami.

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/escape.h"
#include "tools/shell/command.h"
#include "tools/shell/printing.h"
#include "tools/shell/shell.h"
#include "tools/shell/walk.h"

namespace quorate::tools::shell {
namespace {

absl::Status GetAcl(Invocation& invocation) {
  auto read = invocation.client().GetAcl(invocation.path());
  if (!read.ok()) return read.status();
  invocation.Line(ToText(read->acl));
  if (invocation.Has('s')) invocation.Line(ToText(read->stat));
  invocation.json()["acl"] = ToJson(read->acl);
  invocation.json()["stat"] = ToJson(read->stat);
  return absl::OkStatus();
}

// Sets the lists of many znodes, with several requests outstanding, and continues after a failure.
class AclSetter {
 public:
  AclSetter(Invocation& invocation, std::vector<Acl> acl, std::optional<int32_t> version)
      : invocation_(invocation), acl_(std::move(acl)), version_(version) {}

  void Begin(const std::string& path) {
    if (pending_.size() == kAhead) FinishOne();
    pending_.push_back({path, invocation_.client().AsyncSetAcl(path, acl_, {.version = version_})});
  }
  // Waits for all requests. Returns the first failure.
  absl::Status Finish() {
    while (!pending_.empty()) FinishOne();
    invocation_.json()["changed"] = changed_;
    return failure_;
  }

 private:
  static constexpr size_t kAhead = 256;
  struct Pending {
    std::string path;
    Call<Stat> call;
  };

  void FinishOne() {
    Pending first = std::move(pending_.front());
    pending_.pop_front();
    auto stat = first.call.Wait();
    if (stat.ok()) {
      ++changed_;
      if (invocation_.Has('s')) invocation_.Line(ToText(*stat));
      if (first.path == invocation_.path()) invocation_.json()["stat"] = ToJson(*stat);
      return;
    }
    const bool has_vanished =
        first.path != invocation_.path() && ErrorOf(stat.status()) == ErrorCode::kNoNode;
    if (!has_vanished) failure_.Update(Failure(stat.status(), first.path));
  }

  Invocation& invocation_;
  const std::vector<Acl> acl_;
  const std::optional<int32_t> version_;
  std::deque<Pending> pending_;
  size_t changed_ = 0;
  absl::Status failure_;
};

absl::Status SetAcl(Invocation& invocation) {
  const auto version = invocation.Version();
  if (!version.ok()) return version.status();
  auto acl = ParseAcls(invocation.arguments()[1]);
  if (!acl.ok()) return acl.status();
  AclSetter setter(invocation, *std::move(acl), *version);
  if (!invocation.Has('R')) {
    setter.Begin(invocation.path());
    return setter.Finish();
  }
  const absl::Status walked =
      WalkSubtree(invocation.client(), invocation.path(),
                  [&setter](const std::string& path) { setter.Begin(path); });
  absl::Status status = setter.Finish();
  status.Update(walked);
  return status;
}

absl::Status AddAuth(Invocation& invocation) {
  const Credential credential = {.scheme = invocation.arguments()[0],
                                 .secret = invocation.argument(1).value_or("")};
  const absl::Status status = invocation.client().AddCredential(credential);
  if (ErrorOf(status) == ErrorCode::kAuthFailed) {
    return absl::UnauthenticatedError(
        absl::StrCat("addauth: the servers do not accept credentials of scheme \"",
                     credential.scheme, "\" (or have 128 of this session); they accept digest"));
  }
  if (status.ok()) invocation.shell().AddCredential(credential);
  return status;
}

absl::Status WhoAmI(Invocation& invocation) {
  auto identities = invocation.client().WhoAmI();
  if (!identities.ok()) return identities.status();
  invocation.Line("Auth scheme: User");
  auto& json = invocation.json()["identities"] = nlohmann::ordered_json::array();
  for (const Identity& identity : *identities) {
    invocation.Line(absl::StrCat(EscapeLine(identity.scheme), ": ", EscapeLine(identity.id)));
    json.push_back({{"scheme", identity.scheme}, {"id", identity.id}});
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Command> AclCommands() {
  return {
      {.name = "getAcl",
       .options = {{'s', "", "print the metadata of the znode, too"}},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Prints the access control list of a znode",
       .details = "",
       .example = "getAcl /app",
       .run = GetAcl},
      {.name = "setAcl",
       .options = {{'s', "", "print the metadata of the znode afterwards"},
                   {'v', "version", "only if this is the version of its list (aclVersion)"},
                   {'R', "", "also set the lists of all znodes below it"}},
       .arguments = "path acl",
       .arguments_min = 2,
       .arguments_max = 2,
       .summary = "Replaces the access control list of a znode",
       .details =
           "A list is scheme:id:permissions[,scheme:id:permissions...]. Permissions are\n"
           "letters: c create, d delete (children), r read, w write, a admin (setAcl).\n"
           "    world:anyone:r           all clients\n"
           "    auth::cdrwa              all identities of this session (whoami)\n"
           "    digest:alice:HASH:rw     clients with alice's password; HASH is the base64 of\n"
           "                             the SHA-1 of alice:PASSWORD\n"
           "    x509:CN=app:cdrwa        clients with a certificate of this subject\n"
           "    sasl:alice:cdrwa         clients that have authenticated as alice by SASL\n"
           "    ip:10.0.0.0/8:r          clients at these addresses",
       .example = "addauth digest alice:secret\nsetAcl /app auth::cdrwa,world:anyone:r",
       .run = SetAcl},
      {.name = "addauth",
       .options = {},
       .arguments = "scheme auth",
       .arguments_min = 1,
       .arguments_max = 2,
       .summary = "Adds an identity to this shell, by proving it",
       .details = "The line is not saved in the history file.",
       .example = "addauth digest alice:secret",
       .takes_path = false,
       .run = AddAuth},
      {.name = "whoami",
       .options = {},
       .arguments = "",
       .summary = "Lists the identities of this session",
       .details = "",
       .example = "whoami",
       .takes_path = false,
       .run = WhoAmI},
  };
}

}  // namespace quorate::tools::shell
