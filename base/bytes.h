// SPDX-License-Identifier: Apache-2.0

// Fixed-width integers and length-prefixed strings in byte buffers. Little-endian is used in every
// format of our own, big-endian in the ZooKeeper protocol.
//
// Thread-safety: none of the classes is shared between threads.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace quorate {

static_assert(std::endian::native == std::endian::little, "byte order conversions assume this");

template <std::integral T>
constexpr T ByteSwap(T value) {
  using U = std::make_unsigned_t<T>;
  U in = static_cast<U>(value);
  if constexpr (sizeof(T) == 8) {
    in = __builtin_bswap64(in);
  } else if constexpr (sizeof(T) == 4) {
    in = __builtin_bswap32(in);
  } else if constexpr (sizeof(T) == 2) {
    in = __builtin_bswap16(in);
  }
  return static_cast<T>(in);
}

template <std::endian kOrder, std::integral T>
void StoreInt(char* to, T value) {
  if constexpr (kOrder == std::endian::big) value = ByteSwap(value);
  std::memcpy(to, &value, sizeof(value));
}

template <std::endian kOrder, std::integral T>
T LoadInt(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  if constexpr (kOrder == std::endian::big) value = ByteSwap(value);
  return value;
}

// Appends to a string owned by the caller, which must outlive the writer.
template <std::endian kOrder>
class ByteWriter {
 public:
  explicit ByteWriter(std::string* out) : out_(*out) {}

  template <std::integral T>
  void Int(T value) {
    char bytes[sizeof(T)];
    StoreInt<kOrder>(bytes, value);
    out_.append(bytes, sizeof(T));
  }
  void Raw(std::string_view bytes) { out_.append(bytes); }
  // Appends a uint32 (int32 in the ZooKeeper protocol) length and the bytes. REQUIRES: size < 2^31.
  void String(std::string_view bytes) {
    Int(static_cast<uint32_t>(bytes.size()));
    Raw(bytes);
  }

 private:
  std::string& out_;
};

// Reads from bytes that outlive the reader and the views it returns. The first read that finds too
// few bytes makes ok() false; from then on every read returns zero or an empty view.
template <std::endian kOrder>
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <std::integral T>
  T Int() {
    std::string_view bytes = Raw(sizeof(T));
    return bytes.size() == sizeof(T) ? LoadInt<kOrder, T>(bytes.data()) : T{0};
  }
  std::string_view Raw(size_t size) {
    if (size > rest_.size()) {
      Fail();
      return {};
    }
    std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  std::string_view String() { return Raw(Int<uint32_t>()); }

  void Fail() {
    ok_ = false;
    rest_ = {};
  }
  bool ok() const { return ok_; }
  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

using LittleEndianWriter = ByteWriter<std::endian::little>;
using LittleEndianReader = ByteReader<std::endian::little>;
using BigEndianWriter = ByteWriter<std::endian::big>;
using BigEndianReader = ByteReader<std::endian::big>;

}  // namespace quorate
