// SPDX-License-Identifier: Apache-2.0

// The file that keeps term, vote, commit hint, member state and durable mark.
//
// The file has two copies of the state, each in a page of its own, checksummed and numbered. A
// write first replaces the older copy and makes it durable; the new state is valid from then on.
// Then it writes the same state to the other copy, which becomes durable later (at the latest with
// the next write). So damage to one copy alone does not take the state back to an older vote. At
// each moment at least one copy is whole on the disk. That copy is never older than the last write
// that returned, nor than the state that any process has read: Open makes the copy that it finds
// durable in its own place before it replaces the other one.
//
// Thread-safety: none; callers synchronize.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"

namespace quorate::consensus {

inline constexpr size_t kHardStateCopyBytes = 4096;

class HardStateFile {
 public:
  struct Content {
    HardState state;
    Index durable_index;
    friend bool operator==(const Content&, const Content&) = default;
  };

  struct Copy {
    uint64_t sequence = 0;
    Content content;
  };
  static constexpr size_t kCopies = 2;
  // The content of a file: each copy, if it is whole.
  struct Found {
    std::array<std::optional<Copy>, kCopies> copies;
    size_t newest_place = 0;
    // Returns the newest whole copy; nullopt if both copies are damaged.
    const std::optional<Copy>& newest() const { return copies[newest_place]; }
  };

  // Makes the file of a new member (kNew), replacing an existing one. Makes its content durable,
  // but not its directory entry.
  static absl::StatusOr<std::unique_ptr<HardStateFile>> Create(Env* env, std::string path);
  // Reads the newest whole copy, and makes its state durable. Errors: NotFound if there is no file,
  // DataLoss if both copies are damaged, FailedPrecondition if a newer version wrote it.
  static absl::StatusOr<std::unique_ptr<HardStateFile>> Open(Env* env, std::string path);

  // Returns what Open would find, and changes nothing. Errors: as Open, except DataLoss; those of
  // the disk.
  static absl::StatusOr<Found> Examine(Env* env, const std::string& path);

  const Content& content() const { return content_; }
  // Durably replaces the content. After an error, every later call returns that error.
  absl::Status Write(const Content& content);
  // Returns the content that Create writes.
  static Content New() { return {{Term{0}, kNoMember, Index{0}, MemberState::kNew}, Index{0}}; }

 private:
  HardStateFile(std::string path, std::unique_ptr<File> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  // Returns the place to which the copy with the number `sequence` is written first.
  static size_t PlaceOf(uint64_t sequence) { return sequence % 2; }
  static std::string Encode(const Copy& copy);
  // Returns nullopt if the bytes are not a whole copy.
  static absl::StatusOr<std::optional<Copy>> Decode(const std::string& path, std::string_view page);
  static absl::StatusOr<Found> Find(const std::string& path, const File& file);
  absl::Status WriteCopy(size_t place, const Copy& copy);
  // Writes the bytes at `place` once more and makes them durable.
  absl::Status RewriteCopy(size_t place);
  absl::Status Recover();

  const std::string path_;
  const std::unique_ptr<File> file_;
  uint64_t next_sequence_ = 1;
  Content content_;
  absl::Status status_;
};

}  // namespace quorate::consensus
