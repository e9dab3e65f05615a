// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/access.h"

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

namespace quorate::tools {
namespace {

constexpr size_t kTokenFileBytesMax = 2u << 20;

absl::Status Wrong(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--token-file: ", path, ": ", why));
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

}  // namespace

absl::StatusOr<std::string> ParseToken(std::string_view text) {
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    if (colon != absl::string_view::npos) line.remove_prefix(colon + 1);
    const bool is_printable = std::all_of(line.begin(), line.end(), [](char c) {
      return absl::ascii_isgraph(static_cast<unsigned char>(c));
    });
    if (line.empty() || !is_printable) {
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

absl::StatusOr<Access> Access::Load(const TlsOptions& tls, const std::string& token_file,
                                    const std::vector<std::string>& servers) {
  Access access;
  auto channels = internal::ChannelFactory::Create(tls);
  if (!channels.ok()) return channels.status();
  access.channels_ = *std::move(channels);
  if (token_file.empty()) return access;
  for (const std::string& server : servers) {
    if (tls.enabled || IsOnThisMachine(server)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--token-file: the token would be sent unencrypted to ", server,
                     "; use TLS (--tls, --ca)"));
  }
  auto text = ReadTokenFile(token_file);
  if (!text.ok()) return text.status();
  auto token = ParseToken(*text);
  if (!token.ok()) return Wrong(token_file, token.status().message());
  access.authorization_ = "Bearer " + *token;
  return access;
}

void Access::Authorize(grpc::ClientContext* context) const {
  if (!authorization_.empty()) context->AddMetadata("authorization", authorization_);
}

}  // namespace quorate::tools
