// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/membership_file.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/strings.h"
#include "consensus/core/membership.h"
#include "consensus/log/file_names.h"
#include "consensus/log/segment.h"

namespace quorate::consensus {
namespace {

constexpr std::string_view kMagic = "QuorMem\n";
constexpr uint32_t kFormatVersion = 1;
constexpr size_t kCrcBytes = 4;
// A valid file is smaller; reading more is not needed to see that the file is damaged.
constexpr uint64_t kBytesMax = 4096;

std::string Encode(const Membership& membership) {
  std::string bytes;
  LittleEndianWriter writer(&bytes);
  writer.Raw(kMagic);
  writer.Int(kFormatVersion);
  writer.String(EncodeMembership(membership));
  writer.Int(Crc32c(bytes));
  return bytes;
}

// Decodes a membership file. Magic, version and the CRC at the end have the same place in every
// version, so that damage can be distinguished from a newer format.
absl::StatusOr<Membership> Parse(const std::string& path, std::string_view bytes) {
  const absl::Status damaged = absl::DataLossError(absl::StrCat(
      path, ": is damaged: it no longer says with which members this member was started",
      ToAbsl(kRejoinAdvice)));
  if (bytes.size() < kMagic.size() + kCrcBytes || !bytes.starts_with(kMagic)) return damaged;
  const std::string_view body = bytes.substr(0, bytes.size() - kCrcBytes);
  if (Crc32c(body) != LoadInt<std::endian::little, uint32_t>(body.data() + body.size())) {
    return damaged;
  }
  LittleEndianReader reader(body.substr(kMagic.size()));
  const auto version = reader.Int<uint32_t>();
  if (version > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": has format version ", version,
                                                      ", this program knows up to ", kFormatVersion,
                                                      ": run the version that wrote it, or newer"));
  }
  absl::StatusOr<Membership> membership = DecodeMembership(reader.String());
  if (!reader.ok() || !reader.empty() || !membership.ok() || membership->joint()) return damaged;
  return membership;
}

}  // namespace

absl::StatusOr<Membership> ReadMembershipFile(Env* env, const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", ToAbsl(kMembershipName));
  absl::StatusOr<std::unique_ptr<File>> file = env->OpenFile(path, /*create=*/false);
  if (!file.ok()) return file.status();
  absl::StatusOr<uint64_t> size = (*file)->Size();
  if (!size.ok()) return size.status();
  std::string bytes(std::min<uint64_t>(*size, kBytesMax), '\0');
  absl::StatusOr<size_t> got = (*file)->ReadAt(0, bytes.size(), bytes.data());
  if (!got.ok()) return got.status();
  bytes.resize(*got);
  return Parse(path, bytes);
}

absl::Status WriteMembershipFile(Env* env, const std::string& directory,
                                 const Membership& membership) {
  ASSERT(!membership.joint());
  Membership kept = membership;
  kept.addresses.clear();
  const std::string temporary = absl::StrCat(directory, "/", ToAbsl(kMembershipTemporaryName));
  absl::StatusOr<std::unique_ptr<File>> file = env->OpenFile(temporary, /*create=*/true);
  if (!file.ok()) return file.status();
  const std::string bytes = Encode(kept);
  const std::string_view piece = bytes;
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  if (absl::Status s = (*file)->WriteAt(0, {&piece, 1}); !s.ok()) return s;
  if (absl::Status s = (*file)->Sync(); !s.ok()) return s;
  const std::string path = absl::StrCat(directory, "/", ToAbsl(kMembershipName));
  if (absl::Status s = env->Rename(temporary, path); !s.ok()) return s;
  return env->SyncDirectory(directory);
}

}  // namespace quorate::consensus
