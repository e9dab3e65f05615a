// SPDX-License-Identifier: Apache-2.0

// Immutable shared bytes: a view of part of a buffer that lives as long as any slice of it.
//
// Thread-safety: a Slice is a value; different threads may hold slices of one buffer.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"

namespace quorate {

class Slice {
 public:
  using Buffer = std::shared_ptr<const std::string>;

  Slice() = default;
  // Makes a slice of all of `bytes`.
  explicit Slice(std::string bytes)
      : buffer_(std::make_shared<const std::string>(std::move(bytes))), view_(*buffer_) {}
  // Makes a slice of `size` bytes of `*buffer` from `offset`. REQUIRES: they lie within the buffer.
  Slice(Buffer buffer, size_t offset, size_t size) : buffer_(std::move(buffer)) {
    ASSERT(offset <= buffer_->size());
    ASSERT(size <= buffer_->size() - offset);
    view_ = std::string_view(buffer_->data() + offset, size);
  }

  std::string_view view() const { return view_; }
  const char* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }

  friend bool operator==(const Slice& a, const Slice& b) { return a.view_ == b.view_; }

 private:
  Buffer buffer_;
  std::string_view view_;
};

}  // namespace quorate
