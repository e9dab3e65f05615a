// SPDX-License-Identifier: Apache-2.0

#include "tools/certs/directory.h"

#include <fcntl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/tls/stores.h"
#include "tools/certs/certificate_facts.h"

namespace quorate::tools::certs {
namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;

absl::Status ErrorOf(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

absl::Status WriteAll(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrorOf("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return fsync(file) == 0 ? absl::OkStatus() : ErrorOf("write", path);
}

// Makes the names in the directory of `path` durable.
absl::Status SyncDirectoryOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string directory = parent.empty() ? "." : parent;
  const int file = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return ErrorOf("open", directory);
  const absl::Status status = fsync(file) == 0 ? absl::OkStatus() : ErrorOf("sync", directory);
  close(file);
  return status;
}

}  // namespace

absl::Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), kDirectoryMode) == 0) return absl::OkStatus();
  if (errno != EEXIST) return ErrorOf("make the directory", path);
  return CheckDirectory(path);
}

absl::Status CheckDirectory(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return ErrorOf("look at", path);
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a directory; name another one"));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("others can write to %s (mode %o), and could replace keys there; run chmod "
                        "700 %s, or name another directory",
                        path, info.st_mode & 07777, path));
  }
  return absl::OkStatus();
}

bool IsThere(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

absl::Status WriteNewFile(const std::string& path, std::string_view bytes) {
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode);
  if (file < 0) return ErrorOf("make", path);
  absl::Status status = WriteAll(file, bytes, path);
  if (close(file) != 0 && status.ok()) status = ErrorOf("write", path);
  if (status.ok()) status = SyncDirectoryOf(path);
  if (!status.ok()) unlink(path.c_str());
  return status;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return ErrorOf("open", path);
  std::string bytes(bytes_max + 1, '\0');
  size_t size = 0;
  ssize_t got = 0;
  do {
    got = read(file, bytes.data() + size, bytes.size() - size);
    if (got > 0) size += static_cast<size_t>(got);
  } while ((got > 0 && size < bytes.size()) || (got < 0 && errno == EINTR));
  const absl::Status status = got < 0 ? ErrorOf("read", path) : absl::OkStatus();
  close(file);
  if (!status.ok()) return status;
  if (size > bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is larger than ", bytes_max, " bytes"));
  }
  bytes.resize(size);
  return bytes;
}

absl::Status CheckNoMember(const std::string& directory, const std::string& name) {
  std::error_code error;
  for (std::filesystem::directory_iterator each(directory, error), end; !error && each != end;
       each.increment(error)) {
    const std::string path = each->path().string();
    if (each->path().extension() != ".pem") continue;
    const auto bytes = ReadFile(path, rpc::tls::kStoreBytesMax);
    if (!bytes.ok()) continue;
    const auto store = rpc::tls::ParseKeyStore(path, *bytes, "");
    if (!store.ok()) continue;  // such as ca.pem, which has no key
    const CertificateFacts facts = FactsOf(store->certificate.get());
    const auto has = [](const std::vector<std::string>& all, const std::string& one) {
      return std::find(all.begin(), all.end(), one) != all.end();
    };
    const bool has_name = facts.subject == "CN=" + name || has(facts.names, "DNS:" + name) ||
                          has(facts.names, "IP:" + name);
    if (!has(facts.uses, "server") || !has_name) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("a client cannot have the name ", name, ": the member of ", path,
                     " has it, and the client would have the member's identity; choose another "
                     "name"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Identity> ReadAuthority(const std::string& directory) {
  const std::string key_path = directory + "/ca.key";
  const std::string certificate_path = directory + "/ca.pem";
  if (!IsThere(key_path) && !IsThere(certificate_path)) {
    return absl::NotFoundError(absl::StrCat("there is no CA in ", directory,
                                            "; make one with quorate certs create ", directory,
                                            " HOST..."));
  }
  // One of the two files is there, so that a missing one is not NotFound.
  auto key = ReadFile(key_path, rpc::tls::kStoreBytesMax);
  if (!key.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the CA cannot sign without its key: ", key.status().message(),
                     "; bring the key back, or use another directory"));
  }
  auto certificate = ReadFile(certificate_path, rpc::tls::kStoreBytesMax);
  if (!certificate.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the CA cannot sign without its certificate: ", certificate.status().message(),
                     "; bring it back, or use another directory"));
  }
  auto store = rpc::tls::ParseKeyStore(absl::StrCat(key_path, " and ", certificate_path),
                                       absl::StrCat(*key, "\n", *certificate), "");
  if (!store.ok()) return store.status();
  if (X509_check_ca(store->certificate.get()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(certificate_path, " is not the certificate of a CA; use another directory"));
  }
  return Identity{std::move(store->key), std::move(store->certificate)};
}

}  // namespace quorate::tools::certs
