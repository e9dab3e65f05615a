// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/authorization.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace quorate::rpc {
namespace {

constexpr Requirement kRequirements[] = {
    Requirement::kAdministrator, Requirement::kReduced,  Requirement::kAccessLists,
    Requirement::kOwnSession,    Requirement::kWordList, Requirement::kOpen,
    Requirement::kNobody,
};

constexpr char kIntroduction[] =
    "# Who may do what\n"
    "\n"
    "Every call that a server takes, and what its caller needs. The file is generated from\n"
    "`rpc/frontend/authorization.h`; a test compares it with real servers. How to set up\n"
    "administrators is in [the guide](../guides/administrators.md).\n"
    "\n"
    "A port may ask for more: with `ssl.clientAuth=need` or `grpcTlsClientAuth=need` nothing is\n"
    "reached without a valid certificate.\n";

constexpr absl::string_view kTitles[] = {"gRPC", "ZooKeeper's opcodes", "Four-letter words",
                                         "HTTP"};

}  // namespace

std::string Principal::Name() const {
  if (!token.empty()) return "token:" + token;
  if (!subject.empty()) return "x509:" + subject;
  if (!digest_user.empty()) return "digest:" + digest_user;
  return origin == Origin::kUnixSocket ? "unix" : "ip:" + address;
}

Principal::Origin OriginOfAddress(std::string_view address) {
  const std::string text(address);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == 127 ? Principal::Origin::kLoopback
                                         : Principal::Origin::kRemote;
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return Principal::Origin::kRemote;
  const bool is_mapped_loopback = IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6) || is_mapped_loopback ? Principal::Origin::kLoopback
                                                         : Principal::Origin::kRemote;
}

std::string_view NameOf(Requirement requirement) {
  switch (requirement) {
    case Requirement::kNobody:
      return "nobody";
    case Requirement::kOpen:
      return "open";
    case Requirement::kReduced:
      return "reduced";
    case Requirement::kOwnSession:
      return "own session";
    case Requirement::kAccessLists:
      return "ACL";
    case Requirement::kWordList:
      return "word list";
    case Requirement::kAdministrator:
      return "administrator";
  }
  return "";
}

std::string_view MeaningOf(Requirement requirement) {
  switch (requirement) {
    case Requirement::kNobody:
      return "No client may call it, administrators included.";
    case Requirement::kOpen:
      return "Anyone who reaches the port.";
    case Requirement::kReduced:
      return "Anyone who reaches the port sees the state of members and positions in the log, "
             "about "
             "what ZooKeeper's `srvr` shows. Addresses, the digest, the id of the cluster, and the "
             "sizes of data and disks are for administrators.";
    case Requirement::kOwnSession:
      return "Concerns only the session, the connection or the identities of the caller.";
    case Requirement::kAccessLists:
      return "The access control list of each znode decides. `superDigest`, "
             "`X509AuthenticationProvider.superUser` and `skipACL` pass all lists; an "
             "administrator's token and `administrator.subjects` do not.";
    case Requirement::kWordList:
      return "Anyone who reaches the port, if `4lw.commands.whitelist` names the word.";
    case Requirement::kAdministrator:
      return "An administrator: a token of `administratorTokenFile`, a certificate of "
             "`administrator.subjects` or `X509AuthenticationProvider.superUser`, the credentials "
             "of `superDigest`, or a caller through `grpcUnixSocket`. If none of these keys is "
             "set, any caller from a loopback address of the server's machine.";
  }
  return "";
}

std::string AuthorizationPage() {
  std::string page = kIntroduction;
  absl::StrAppend(&page, "\n| needs | meaning |\n| --- | --- |\n");
  for (const Requirement requirement : kRequirements) {
    absl::StrAppend(&page, "| ", ToAbsl(NameOf(requirement)), " | ", ToAbsl(MeaningOf(requirement)),
                    " |\n");
  }
  for (const Protocol protocol :
       {Protocol::kGrpc, Protocol::kZooKeeper, Protocol::kFourLetterWord, Protocol::kHttp}) {
    absl::StrAppend(&page, "\n## ", kTitles[static_cast<size_t>(protocol)],
                    "\n\n| call | needs | remark |\n| --- | --- | --- |\n");
    for (const OperationInfo& info : kOperations) {
      if (info.protocol != protocol) continue;
      absl::StrAppend(&page, "| `", ToAbsl(info.name), "` | ", ToAbsl(NameOf(info.requirement)),
                      " | ", ToAbsl(info.remark), " |\n");
    }
  }
  return page;
}

}  // namespace quorate::rpc
