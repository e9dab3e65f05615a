// SPDX-License-Identifier: Apache-2.0

#include "client/access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace quorate::internal {
namespace {

constexpr size_t kTokenFileBytesMax = 2u << 20;

absl::Status Wrong(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the token file ", path, ": ", why));
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return Wrong(path, absl::StrCat("cannot be read: ", strerror(errno)));
  struct stat facts {};
  std::string text;
  absl::Status status;
  if (fstat(descriptor, &facts) == 0 && (facts.st_mode & S_IRWXO) != 0) {
    status = Wrong(path, "other users can use it; run chmod 600");
  }
  char buffer[4096];
  ssize_t count = 0;
  while (status.ok() && text.size() <= kTokenFileBytesMax &&
         (count = read(descriptor, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(count));
  }
  if (count < 0) status = Wrong(path, absl::StrCat("cannot be read: ", strerror(errno)));
  close(descriptor);
  if (status.ok() && text.size() > kTokenFileBytesMax) status = Wrong(path, "is too long");
  if (!status.ok()) return status;
  return text;
}

bool IsPrintable(absl::string_view token) {
  return !token.empty() && std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
}

absl::StatusOr<std::string> TokenOf(const TokenSource& source) {
  if (source.file.empty()) {
    if (IsPrintable(source.token)) return source.token;
    return absl::InvalidArgumentError(
        "the token may have only printable characters of ASCII, no spaces");
  }
  auto text = ReadTokenFile(source.file);
  if (!text.ok()) return text.status();
  auto token = ParseToken(*text);
  if (!token.ok()) return Wrong(source.file, token.status().message());
  return token;
}

}  // namespace

absl::StatusOr<std::string> ParseToken(std::string_view text) {
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    if (colon != absl::string_view::npos) line.remove_prefix(colon + 1);
    if (!IsPrintable(line)) {
      return absl::InvalidArgumentError(
          "its first line has to be TOKEN or NAME:TOKEN, in printable characters of ASCII");
    }
    return std::string(line);
  }
  return absl::InvalidArgumentError("there is no token in it");
}

bool IsOnThisMachine(std::string_view address) {
  if (address.starts_with("unix:")) return true;
  const std::string_view host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" || host == "::1" ||
         (host.starts_with("127.") &&
          host.find_first_not_of("0123456789.") == std::string_view::npos);
}

absl::StatusOr<Access> Access::Load(const TlsOptions& tls, const TokenSource& source,
                                    const std::vector<std::string>& servers) {
  Access access;
  auto channels = ChannelFactory::Create(tls);
  if (!channels.ok()) return channels.status();
  access.channels_ = *std::move(channels);
  if (source.token.empty() && source.file.empty()) return access;
  if (!source.token.empty() && !source.file.empty()) {
    return absl::InvalidArgumentError("give a token or the file with a token, not both");
  }
  access.is_encrypted_ = tls.enabled;
  auto token = TokenOf(source);
  if (!token.ok()) return token.status();
  access.authorization_ = "Bearer " + *token;
  if (absl::Status s = access.Check(servers); !s.ok()) return s;
  return access;
}

absl::Status Access::Check(const std::vector<std::string>& servers) const {
  if (authorization_.empty() || is_encrypted_) return absl::OkStatus();
  for (const std::string& server : servers) {
    if (IsOnThisMachine(server)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the token would be sent unencrypted to ", server, "; use TLS"));
  }
  return absl::OkStatus();
}

void Access::Authorize(grpc::ClientContext* context) const {
  if (!authorization_.empty()) context->AddMetadata("authorization", authorization_);
}

}  // namespace quorate::internal
