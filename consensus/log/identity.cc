// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/identity.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/strings.h"
#include "consensus/log/file_names.h"
#include "consensus/log/segment.h"

namespace quorate::consensus {
namespace {

constexpr std::string_view kIdentityMagic = "QuorDir\n";
constexpr size_t kIdentityCrcBytes = 4;
// A valid file is far smaller; reading more is not needed to see that the file is damaged.
constexpr uint64_t kIdentityBytesMax = 4096;

std::string EncodeIdentity(const Identity& identity) {
  std::string bytes;
  LittleEndianWriter writer(&bytes);
  writer.Raw(kIdentityMagic);
  writer.Int(kDataDirFormatVersion);
  writer.Int(identity.member.value());
  writer.String(identity.cluster_id);
  writer.Int(identity.directory_epoch);
  writer.Int(Crc32c(bytes));
  return bytes;
}

// Decodes an identity file. Magic, version and the CRC at the end have the same place in every
// version, so that damage can be distinguished from a newer format.
absl::StatusOr<Identity> ParseIdentity(const std::string& path, std::string_view bytes) {
  const absl::Status damaged = absl::DataLossError(absl::StrCat(
      path, ": is damaged: it no longer says whose directory this is", ToAbsl(kRejoinAdvice)));
  if (bytes.size() < kIdentityMagic.size() + kIdentityCrcBytes ||
      !bytes.starts_with(kIdentityMagic)) {
    return damaged;
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kIdentityCrcBytes);
  if (Crc32c(body) != LoadInt<std::endian::little, uint32_t>(body.data() + body.size())) {
    return damaged;
  }
  LittleEndianReader reader(body.substr(kIdentityMagic.size()));
  const uint32_t version = reader.Int<uint32_t>();
  if (version > kDataDirFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": the directory has format version ", version, ", this program knows up to ",
        kDataDirFormatVersion, ": run the version that wrote it, or newer"));
  }
  Identity identity;
  identity.member = MemberId(reader.Int<uint32_t>());
  identity.cluster_id = std::string(reader.String());
  if (version > 1) identity.directory_epoch = reader.Int<uint64_t>();
  if (!reader.ok() || !reader.empty() ||
      (!identity.cluster_id.empty() && identity.cluster_id.size() != kClusterIdBytes)) {
    return damaged;
  }
  return identity;
}

absl::Status Replace(Env* env, const std::string& temporary, const std::string& path,
                     std::string_view bytes) {
  absl::StatusOr<std::unique_ptr<File>> file = env->OpenFile(temporary, /*create=*/true);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  if (absl::Status s = (*file)->WriteAt(0, {&bytes, 1}); !s.ok()) return s;
  if (absl::Status s = (*file)->Sync(); !s.ok()) return s;
  return env->Rename(temporary, path);
}

// Overwrites the file in place, which needs no free space. A crash leaves the old or the new bytes,
// because they are in one sector, which is written whole or not at all. Returns ResourceExhausted
// if the length of the file would change. Removes the file `temporary`.
absl::Status WriteOver(Env* env, const std::string& temporary, const std::string& path,
                       std::string_view bytes) {
  if (env->Exists(temporary)) {
    if (absl::Status s = env->Remove(temporary); !s.ok()) return s;
  }
  absl::StatusOr<std::unique_ptr<File>> file = env->OpenFile(path, /*create=*/false);
  if (!file.ok()) return file.status();
  absl::StatusOr<uint64_t> size = (*file)->Size();
  if (!size.ok()) return size.status();
  if (*size != bytes.size()) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": no space is left on the disk"));
  }
  if (absl::Status s = (*file)->WriteAt(0, {&bytes, 1}); !s.ok()) return s;
  return (*file)->Sync();
}

}  // namespace

absl::StatusOr<Identity> ReadIdentityFile(Env* env, const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", ToAbsl(kIdentityName));
  absl::StatusOr<std::unique_ptr<File>> file = env->OpenFile(path, /*create=*/false);
  if (!file.ok()) return file.status();
  absl::StatusOr<uint64_t> size = (*file)->Size();
  if (!size.ok()) return size.status();
  std::string bytes(std::min<uint64_t>(*size, kIdentityBytesMax), '\0');
  absl::StatusOr<size_t> got = (*file)->ReadAt(0, bytes.size(), bytes.data());
  if (!got.ok()) return got.status();
  bytes.resize(*got);
  return ParseIdentity(path, bytes);
}

absl::Status WriteIdentityFile(Env* env, const std::string& directory, const Identity& identity) {
  const std::string path = absl::StrCat(directory, "/", ToAbsl(kIdentityName));
  const std::string temporary = absl::StrCat(directory, "/", ToAbsl(kIdentityTemporaryName));
  const std::string bytes = EncodeIdentity(identity);
  absl::Status status = Replace(env, temporary, path, bytes);
  if (absl::IsResourceExhausted(status) && env->Exists(path)) {
    status = WriteOver(env, temporary, path, bytes);
  }
  return status.ok() ? env->SyncDirectory(directory) : status;
}

}  // namespace quorate::consensus
