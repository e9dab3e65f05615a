// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quorate::rpc {
namespace {

constexpr char kKey[] = "grpcUnixSocket";
constexpr char kPattern[] = "/.quorate-XXXXXX";

absl::Status Problem(const std::string& path, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(kKey, ": ", path, ": ", why));
}

// Returns whether a process listens at `path`.
bool IsListenedTo(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return false;
  const int result = connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  const bool is_listened_to = result == 0 || errno == EAGAIN;
  close(descriptor);
  return is_listened_to;
}

absl::Status CheckPlace(const std::string& path) {
  struct stat facts {};
  if (lstat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return Problem(path, absl::StrCat("it cannot be looked at: ", strerror(errno)));
  }
  if (!S_ISSOCK(facts.st_mode)) {
    return Problem(path, "there is a file that is no socket; remove it, or choose another path");
  }
  if (IsListenedTo(path)) {
    return Problem(path, "another process listens there; stop it, or choose another path");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnixSocketFile>> UnixSocketFile::Create(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string directory = path.substr(0, slash == std::string::npos ? 0 : slash) + kPattern;
  // Room for "/s" and the NUL at the end.
  const size_t longest = sizeof(sockaddr_un::sun_path) - 3;
  if (directory.size() > longest || path.size() > longest) {
    return Problem(path, absl::StrCat("the path is too long; its directory may have ",
                                      longest - (sizeof(kPattern) - 1), " bytes"));
  }
  if (absl::Status s = CheckPlace(path); !s.ok()) return s;
  if (mkdtemp(directory.data()) == nullptr) {
    return Problem(path, absl::StrCat("its directory cannot be written to: ", strerror(errno)));
  }
  return std::unique_ptr<UnixSocketFile>(new UnixSocketFile(path, std::move(directory)));
}

UnixSocketFile::UnixSocketFile(std::string path, std::string directory)
    : path_(std::move(path)), directory_(std::move(directory)) {}

UnixSocketFile::~UnixSocketFile() {
  struct stat facts {};
  if (is_published_ && lstat(path_.c_str(), &facts) == 0 && facts.st_dev == device_ &&
      facts.st_ino == inode_) {
    unlink(path_.c_str());
  }
  unlink(listen_path().c_str());
  rmdir(directory_.c_str());
}

absl::Status UnixSocketFile::Publish() {
  const std::string from = listen_path();
  struct stat facts {};
  if (chmod(from.c_str(), S_IRUSR | S_IWUSR) != 0 || lstat(from.c_str(), &facts) != 0 ||
      std::rename(from.c_str(), path_.c_str()) != 0) {
    return Problem(path_, absl::StrCat("the socket cannot be put there: ", strerror(errno)));
  }
  device_ = facts.st_dev;
  inode_ = facts.st_ino;
  is_published_ = true;
  rmdir(directory_.c_str());
  return absl::OkStatus();
}

}  // namespace quorate::rpc
