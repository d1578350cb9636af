// Frames on a pipe: a header of 24 bytes with a checksum of its own, then the payload.
//
//   magic "ANSR" | version, kind (16 bits each) | number | length | CRC-32 of payload | of header
//
// All numbers are little-endian. An answer repeats the number of its request; its kind is that of
// the request with kAnswer set, or kError. A reader that meets bytes which are no frame says how
// many and goes on at the next header, so that garbage costs the frames that it hit and no others.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ansorc {

constexpr uint32_t kMagic = 0x52534E41;
constexpr uint16_t kProtocolVersion = 1;
constexpr uint32_t kMostPayload = 1 << 20;
constexpr uint16_t kAnswer = 0x8000, kError = 0xFFFF;

struct Header {
  uint32_t magic;
  uint16_t version, kind;
  uint32_t number, length, payload_crc, header_crc;
};
static_assert(sizeof(Header) == 24, "the header is what is on the pipe");

uint32_t crc32(const void* data, size_t size);

enum class Reading { kFrame, kEnd, kEndInside, kSkipped, kDamaged, kTooLong };

class FrameReader {
 public:
  // Waits for the next frame, which is there until the next call. What is not kFrame was skipped,
  // but for the end of the input; then header() is that of the frame concerned, if there was one.
  Reading next();
  const Header& header() const { return header_; }
  const uint8_t* payload() const { return bytes_ + sizeof(Header); }
  size_t skipped() const { return skipped_; }

 private:
  bool fill(size_t wanted);
  void drop(size_t count);

  Header header_ = {};
  size_t have_ = 0, taken_ = 0, skipped_ = 0;
  uint8_t bytes_[sizeof(Header) + kMostPayload];
};

// Writes a frame to descriptor 1; ends the process where nobody reads.
void write_frame(uint16_t kind, uint32_t number, const void* payload, uint32_t length);

}  // namespace ansorc
