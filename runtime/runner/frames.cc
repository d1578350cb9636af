#include "frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace ansorc {
namespace {

bool is_header(const Header& header) {
  return header.magic == kMagic && header.header_crc == crc32(&header, offsetof(Header, header_crc));
}

void write_all(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  while (size > 0) {
    const ssize_t count = write(1, bytes, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(3);
    bytes += count;
    size -= static_cast<size_t>(count);
  }
}

}  // namespace

uint32_t crc32(const void* data, size_t size) {
  static uint32_t table[256];
  if (table[1] == 0) {
    for (uint32_t n = 0; n < 256; ++n) {
      uint32_t value = n;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
      table[n] = value;
    }
  }
  uint32_t value = ~0u;
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < size; ++i) value = table[(value ^ bytes[i]) & 255] ^ value >> 8;
  return ~value;
}

Reading FrameReader::next() {
  drop(taken_);
  taken_ = skipped_ = 0;
  for (;;) {
    if (!fill(sizeof(Header))) {
      if (skipped_ + have_ == 0) return Reading::kEnd;
      skipped_ += have_;
      return Reading::kEndInside;
    }
    memcpy(&header_, bytes_, sizeof header_);
    if (is_header(header_)) break;
    const uint8_t first = kMagic & 255;
    const void* found = memchr(bytes_ + 1, first, have_ - 1);
    const size_t count = found ? static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes_) : have_;
    drop(count);
    skipped_ += count;
  }
  if (skipped_ > 0) return Reading::kSkipped;  // the frame is read at the next call
  if (header_.length > kMostPayload) {
    drop(sizeof(Header));
    return Reading::kTooLong;
  }
  const bool is_whole = fill(sizeof(Header) + header_.length);
  if (!is_whole || crc32(payload(), header_.length) != header_.payload_crc) {
    drop(sizeof(Header));  // a frame may have begun where this one was cut off
    return Reading::kDamaged;
  }
  taken_ = sizeof(Header) + header_.length;
  return Reading::kFrame;
}

bool FrameReader::fill(size_t wanted) {
  while (have_ < wanted) {
    const ssize_t count = read(0, bytes_ + have_, wanted - have_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    have_ += static_cast<size_t>(count);
  }
  return true;
}

void FrameReader::drop(size_t count) {
  have_ -= count;
  memmove(bytes_, bytes_ + count, have_);
}

void write_frame(uint16_t kind, uint32_t number, const void* payload, uint32_t length) {
  Header header = {kMagic, kProtocolVersion, kind, number, length, crc32(payload, length), 0};
  header.header_crc = crc32(&header, offsetof(Header, header_crc));
  write_all(&header, sizeof header);
  write_all(payload, length);
}

}  // namespace ansorc
