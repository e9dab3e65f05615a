// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/batch_reader.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"

namespace quorate::rpc {
namespace {

constexpr size_t kBufferBytes = 64u << 10;

}  // namespace

std::span<char> BatchReader::Space() {
  if (large_ != nullptr) return std::span(*large_).subspan(large_filled_);
  buffer_.resize(kBufferBytes);
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  ASSERT(end_ < buffer_.size(), "a batch that fills the buffer was taken out");
  return std::span(buffer_).subspan(end_);
}

void BatchReader::Added(size_t count) {
  if (large_ != nullptr) {
    large_filled_ += count;
    ASSERT(large_filled_ <= large_->size());
  } else {
    end_ += count;
    ASSERT(end_ <= buffer_.size());
  }
}

absl::StatusOr<std::shared_ptr<std::string>> BatchReader::Next() {
  if (large_ != nullptr) {
    if (large_filled_ < large_->size()) return nullptr;
    return std::exchange(large_, nullptr);
  }
  if (end_ - begin_ < kBatchLengthBytes) return nullptr;
  const size_t length = LoadInt<std::endian::little, uint32_t>(buffer_.data() + begin_);
  if (length > batch_bytes_max_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", length, " bytes, at most ", batch_bytes_max_, " are allowed"));
  }
  const char* bytes = buffer_.data() + begin_ + kBatchLengthBytes;
  const size_t here = end_ - begin_ - kBatchLengthBytes;
  if (length <= here) {
    begin_ += kBatchLengthBytes + length;
    return std::make_shared<std::string>(bytes, length);
  }
  if (kBatchLengthBytes + length < kBufferBytes) return nullptr;
  large_ = std::make_shared<std::string>(bytes, here);
  large_->resize(length);
  large_filled_ = here;
  begin_ = end_ = 0;
  return nullptr;
}

}  // namespace quorate::rpc
