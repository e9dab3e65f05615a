// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/hard_state_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/seeded_bug.h"
#include "base/strings.h"
#include "consensus/log/segment.h"

namespace quorate::consensus {
namespace {

constexpr std::string_view kMagic = "QuorHrd\n";
// Version 1 has no member state and stands for kNormal. A kNormal state is still written as version
// 1, so that the member can go back to a program that knows only version 1.
constexpr uint32_t kFormatVersion = 2;
constexpr uint32_t kFormatVersionNormal = 1;
constexpr size_t kCrcAt = kHardStateCopyBytes - 4;

}  // namespace

std::string HardStateFile::Encode(const Copy& copy) {
  std::string bytes;
  LittleEndianWriter writer(&bytes);
  writer.Raw(kMagic);
  const MemberState member_state = copy.content.state.member_state;
  writer.Int(member_state == MemberState::kNormal ? kFormatVersionNormal : kFormatVersion);
  writer.Int(copy.sequence);
  writer.Int(copy.content.state.term.value());
  writer.Int(copy.content.state.vote.value());
  writer.Int(copy.content.state.commit.value());
  writer.Int(copy.content.durable_index.value());
  if (member_state != MemberState::kNormal) writer.Int(static_cast<uint8_t>(member_state));
  ASSERT(bytes.size() < kCrcAt);
  bytes.resize(kCrcAt, '\0');
  writer.Int(Crc32c(bytes));
  ASSERT(bytes.size() == kHardStateCopyBytes);
  return bytes;
}

absl::StatusOr<std::unique_ptr<HardStateFile>> HardStateFile::Create(Env* env, std::string path) {
  absl::StatusOr<std::unique_ptr<File>> file = env->OpenFile(path, /*create=*/true);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  if (absl::Status s = (*file)->Preallocate(kCopies * kHardStateCopyBytes); !s.ok()) return s;
  std::unique_ptr<HardStateFile> result(new HardStateFile(std::move(path), *std::move(file)));
  if (absl::Status s = result->Write(New()); !s.ok()) return s;
  return result;
}

absl::StatusOr<std::unique_ptr<HardStateFile>> HardStateFile::Open(Env* env, std::string path) {
  absl::StatusOr<std::unique_ptr<File>> file = env->OpenFile(path, /*create=*/false);
  if (!file.ok()) return file.status();
  std::unique_ptr<HardStateFile> result(new HardStateFile(std::move(path), *std::move(file)));
  if (absl::Status s = result->Recover(); !s.ok()) return s;
  return result;
}

absl::StatusOr<std::optional<HardStateFile::Copy>> HardStateFile::Decode(const std::string& path,
                                                                         std::string_view page) {
  // Magic and CRC have the same place in every version.
  if (page.size() != kHardStateCopyBytes || !page.starts_with(kMagic) ||
      LoadInt<std::endian::little, uint32_t>(page.data() + kCrcAt) !=
          Crc32c(page.substr(0, kCrcAt))) {
    return std::nullopt;
  }
  LittleEndianReader reader(page.substr(kMagic.size()));
  const uint32_t version = reader.Int<uint32_t>();
  if (version > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": has format version ", version,
                                                      ", this program knows up to ", kFormatVersion,
                                                      ": run the version that wrote it, or newer"));
  }
  Copy copy;
  copy.sequence = reader.Int<uint64_t>();
  copy.content.state.term = Term(reader.Int<uint64_t>());
  copy.content.state.vote = MemberId(reader.Int<uint32_t>());
  copy.content.state.commit = Index(reader.Int<uint64_t>());
  copy.content.durable_index = Index(reader.Int<uint64_t>());
  if (version > kFormatVersionNormal) {
    copy.content.state.member_state = static_cast<MemberState>(reader.Int<uint8_t>());
  }
  ASSERT(reader.ok());
  return copy;
}

absl::StatusOr<HardStateFile::Found> HardStateFile::Find(const std::string& path,
                                                         const File& file) {
  std::string bytes(kCopies * kHardStateCopyBytes, '\0');
  absl::StatusOr<size_t> got = file.ReadAt(0, bytes.size(), bytes.data());
  if (!got.ok()) return got.status();
  Found found;
  for (size_t place = 0; place < kCopies; ++place) {
    absl::StatusOr<std::optional<Copy>> copy = Decode(
        path, std::string_view(bytes).substr(place * kHardStateCopyBytes, kHardStateCopyBytes));
    if (!copy.ok()) return copy.status();
    found.copies[place] = *copy;
    if (!copy->has_value()) continue;
    // Of two copies with the same number, the one at PlaceOf was written first and is durable.
    const std::optional<Copy>& newest = found.copies[found.newest_place];
    if (!newest.has_value() || (*copy)->sequence > newest->sequence ||
        ((*copy)->sequence == newest->sequence && place == PlaceOf((*copy)->sequence))) {
      found.newest_place = place;
    }
  }
  return found;
}

absl::StatusOr<HardStateFile::Found> HardStateFile::Examine(Env* env, const std::string& path) {
  absl::StatusOr<std::unique_ptr<File>> file = env->OpenFile(path, /*create=*/false);
  if (!file.ok()) return file.status();
  return Find(path, **file);
}

absl::Status HardStateFile::Recover() {
  absl::StatusOr<Found> found = Find(path_, *file_);
  if (!found.ok()) return found.status();
  const std::optional<Copy>& newest = found->newest();
  if (!newest.has_value()) {
    return absl::DataLossError(
        absl::StrCat(path_, ": both copies of term and vote, at offsets 0 and ",
                     kHardStateCopyBytes, ", are damaged", ToAbsl(kRejoinAdvice)));
  }
  // The copy may have been read from the page cache without being on the disk: its sync failed
  // (Linux then marks the page as clean, so that only a new write brings it to the disk), or the
  // process died before the sync. So the copy is first made durable in its own place. Only then may
  // the other copy be replaced, which may be the only one on the disk. If the copy is on the disk
  // already, no byte of it changes.
  status_ = RewriteCopy(found->newest_place);
  // The next write must not begin with the place of the copy that was found.
  next_sequence_ = newest->sequence + 1;
  if (PlaceOf(next_sequence_) == found->newest_place) ++next_sequence_;
  Content content = newest->content;
  if (SeededBug("a start forgets the vote")) content.state.vote = kNoMember;
  return Write(content);
}

absl::Status HardStateFile::WriteCopy(size_t place, const Copy& copy) {
  ASSERT(place < kCopies);
  const std::string bytes = Encode(copy);
  const std::string_view piece = bytes;
  return file_->WriteAt(place * kHardStateCopyBytes, {&piece, 1});
}

absl::Status HardStateFile::RewriteCopy(size_t place) {
  std::string bytes(kHardStateCopyBytes, '\0');
  const absl::StatusOr<size_t> got =
      file_->ReadAt(place * kHardStateCopyBytes, bytes.size(), bytes.data());
  if (!got.ok()) return got.status();
  const std::string_view piece = bytes;
  if (absl::Status s = file_->WriteAt(place * kHardStateCopyBytes, {&piece, 1}); !s.ok()) return s;
  return file_->Sync();
}

absl::Status HardStateFile::Write(const Content& content) {
  if (!status_.ok()) return status_;
  const Copy copy{next_sequence_, content};
  const size_t place = PlaceOf(copy.sequence);
  status_ = WriteCopy(place, copy);
  if (status_.ok()) status_ = file_->Sync();
  if (status_.ok()) status_ = WriteCopy(1 - place, copy);
  // Every error is final, also a full disk, because one of the copies may be half written.
  if (absl::IsResourceExhausted(status_)) status_ = absl::InternalError(status_.message());
  if (!status_.ok()) return status_;
  content_ = content;
  ++next_sequence_;
  return absl::OkStatus();
}

}  // namespace quorate::consensus
