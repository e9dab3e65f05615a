// SPDX-License-Identifier: Apache-2.0

// An open file descriptor that is closed by its destructor.
//
// Thread-safety: a value.
#pragma once

#include <unistd.h>

#include <utility>

namespace quorate::rpc {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes ownership of `number`; -1: of none.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }

  bool is_open() const { return number_ >= 0; }
  // Returns -1 if none is open.
  int number() const { return number_; }
  void Close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

}  // namespace quorate::rpc
