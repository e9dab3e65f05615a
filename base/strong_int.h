// SPDX-License-Identifier: Apache-2.0

// Integers that cannot be mixed up: an Index is not a Term, and neither converts implicitly to the
// other or to a plain number.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

namespace quorate {

// A value type around `Rep`. `Tag` is any type; it only makes this StrongInt a type of its own.
template <class Tag, class Rep>
class StrongInt {
 public:
  using Value = Rep;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }

  friend constexpr auto operator<=>(const StrongInt&, const StrongInt&) = default;

  constexpr StrongInt& operator++() {
    ++value_;
    return *this;
  }
  constexpr StrongInt& operator--() {
    --value_;
    return *this;
  }
  // Returns the value that is `distance` above (or below) `a`.
  friend constexpr StrongInt operator+(StrongInt a, Rep distance) {
    return StrongInt(static_cast<Rep>(a.value_ + distance));
  }
  friend constexpr StrongInt operator-(StrongInt a, Rep distance) {
    return StrongInt(static_cast<Rep>(a.value_ - distance));
  }
  // Returns the distance from `b` to `a`.
  friend constexpr Rep operator-(StrongInt a, StrongInt b) {
    return static_cast<Rep>(a.value_ - b.value_);
  }

  friend std::ostream& operator<<(std::ostream& out, StrongInt a) {
    return out << std::to_string(a.value_);
  }
  template <typename H>
  friend H AbslHashValue(H h, StrongInt a) {
    return H::combine(std::move(h), a.value_);
  }

 private:
  Rep value_ = 0;
};

}  // namespace quorate

template <class Tag, class Rep>
struct std::hash<quorate::StrongInt<Tag, Rep>> {
  size_t operator()(quorate::StrongInt<Tag, Rep> a) const noexcept {
    return std::hash<Rep>{}(a.value());
  }
};
