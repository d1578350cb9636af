#include "requests.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "machine.h"

namespace ansorc {

// Reads a payload; what is beyond its end is 0, and makes it not `is_good`.
class Bench::Fields {
 public:
  Fields(const Header& header, const uint8_t* payload) : header(header), at_(payload), left_(header.length) {}

  template <class Value>
  Value take() {
    Value value = {};
    const uint8_t* found = bytes(sizeof value);
    if (found != nullptr) memcpy(&value, found, sizeof value);
    return value;
  }
  const uint8_t* bytes(size_t count) {
    if (count > left_) {
      is_good = false;
      left_ = 0;
      return nullptr;
    }
    const uint8_t* found = at_;
    at_ += count;
    left_ -= count;
    return found;
  }
  size_t left() const { return left_; }

  const Header& header;
  bool is_good = true;

 private:
  const uint8_t* at_;
  size_t left_;
};

void Bench::refuse(uint32_t number, Refusal why, const char* format, ...) {
  char words[1024];
  memcpy(words, &why, sizeof why);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(words + sizeof why, sizeof words - sizeof why, format, arguments);
  va_end(arguments);
  write_frame(kError, number, words, static_cast<uint32_t>(sizeof why + strlen(words + sizeof why)));
}

void Bench::answer(const Header& header, const uint8_t* payload) {
  if (header.version != kProtocolVersion) {
    return refuse(header.number, Refusal::kVersion, "this runner speaks version %u of the protocol, not %u", kProtocolVersion, header.version);
  }
  Fields fields(header, payload);
  switch (header.kind) {
    case kHello: {
      const size_t size = describe_machine(reinterpret_cast<char*>(answer_), sizeof answer_);
      return write_frame(kHello | kAnswer, header.number, answer_, static_cast<uint32_t>(size));
    }
    case kAllocate: return allocate(fields);
    case kWrite: return write(fields);
    case kDraw: return draw_into(fields);
    case kDrop: return drop(fields);
    case kLoad: return load(fields);
    case kUnload: return unload(fields);
    case kRun: return run(fields);
    case kFetch: return fetch(fields);
    case kPack: return pack(fields);
    default: return refuse(header.number, Refusal::kNoRequest, "there is no request %u", header.kind);
  }
}

#define REQUIRE(condition, why, ...) \
  if (!(condition)) return refuse(fields.header.number, why, __VA_ARGS__)
#define DONE() write_frame(fields.header.kind | kAnswer, fields.header.number, nullptr, 0)

GuardedArray* Bench::array(Fields& fields) {
  const auto number = fields.take<uint32_t>();
  return fields.is_good && number < kMostArrays && arrays_[number].begin() != nullptr ? &arrays_[number] : nullptr;
}

void Bench::allocate(Fields& fields) {
  const auto number = fields.take<uint32_t>();
  const auto bytes = fields.take<uint64_t>();
  REQUIRE(fields.is_good && number < kMostArrays, Refusal::kBadField, "there are arrays 0 to %zu", kMostArrays - 1);
  arrays_[number].release();
  REQUIRE(bytes <= SIZE_MAX && arrays_[number].allocate(static_cast<size_t>(bytes)), Refusal::kNoMemory,
          "there is no memory for an array of %llu bytes", static_cast<unsigned long long>(bytes));
  DONE();
}

void Bench::write(Fields& fields) {
  GuardedArray* const found = array(fields);
  const auto offset = fields.take<uint64_t>();
  const size_t count = fields.left();
  REQUIRE(found && fields.is_good && offset <= found->bytes() && count <= found->bytes() - offset, Refusal::kBadField,
          "the bytes to write are not inside of an array");
  memcpy(found->begin() + offset, fields.bytes(count), count);
  DONE();
}

void Bench::draw_into(Fields& fields) {
  GuardedArray* const found = array(fields);
  const auto how = fields.take<Draw>();
  const auto element = fields.take<Element>();
  const auto size = fields.take<uint32_t>();
  const auto seed = fields.take<uint64_t>();
  REQUIRE(found && fields.is_good && draw(*found, seed, how, element, size), Refusal::kBadField,
          "there is no such array, or no such kind of elements to draw");
  DONE();
}

void Bench::drop(Fields& fields) {
  GuardedArray* const found = array(fields);
  REQUIRE(found, Refusal::kBadField, "there is no such array");
  found->release();
  DONE();
}

void Bench::load(Fields& fields) {
  const auto number = fields.take<uint32_t>();
  GuardedArray* const object = array(fields);
  char name[128] = {};
  const size_t length = fields.left();
  REQUIRE(number < kMostCodes && object && length > 0 && length < sizeof name, Refusal::kBadField,
          "there is no array with an object, or no place for code %u", number);
  memcpy(name, fields.bytes(length), length);
  ElfImage& image = images_[number];
  image.release();
  functions_[number] = nullptr;
  char why[512];
  REQUIRE(image.load(object->begin(), object->bytes(), why, sizeof why), Refusal::kBadObject, "the object is refused: %s", why);
  functions_[number] = image.function(name);
  REQUIRE(functions_[number], Refusal::kBadObject, "the object is refused: it has no function '%s'", name);
  DONE();
}

void Bench::unload(Fields& fields) {
  const auto number = fields.take<uint32_t>();
  REQUIRE(fields.is_good && number < kMostCodes, Refusal::kBadField, "there is no code %u", number);
  images_[number].release();
  functions_[number] = nullptr;
  DONE();
}

bool Bench::read_program(Fields& fields, Program* program) {
  const auto code = fields.take<uint32_t>();
  program->workspace_bytes = fields.take<uint64_t>();
  program->count = fields.take<uint32_t>();
  if (code >= kMostCodes || functions_[code] == nullptr || program->count > kMostArguments) return false;
  program->function = functions_[code];
  for (uint32_t n = 0; n < program->count; ++n) {
    Argument& one = program->arguments[n];
    const auto kind = fields.take<uint32_t>();
    const auto number = fields.take<uint32_t>();
    if (kind > Argument::kConstant) return false;
    one.kind = static_cast<Argument::Kind>(kind);
    one.output = number;
    if (one.kind == Argument::kOutput) {
      if (number >= trial_.outputs) return false;
      continue;
    }
    if (number >= kMostArrays || arrays_[number].begin() == nullptr) return false;
    one.input = &arrays_[number];
  }
  return fields.is_good;
}

bool Bench::read_trial(Fields& fields) {
  const auto flags = fields.take<uint32_t>();
  trial_.is_timed = flags & 1;
  trial_.is_ranked = flags & 2;
  trial_.caches = fields.take<Caches>();
  trial_.threads = fields.take<int32_t>();
  trial_.programs = fields.take<uint32_t>();
  trial_.outputs = fields.take<uint32_t>();
  fields.take<uint32_t>();
  trial_.limit_s = fields.take<double>();
  trial_.timing = fields.take<TimingOptions>();
  const TimingOptions& timing = trial_.timing;
  if (trial_.caches > Caches::kColdWeights || trial_.programs < 1 || trial_.programs > kMostPrograms) return false;
  if (trial_.outputs > kMostOutputs || timing.max_repeats > kMostSeconds - 1 || timing.rank_rounds > kMostSeconds - 1) return false;
  for (uint32_t n = 0; n < trial_.outputs; ++n) {
    trial_.output[n].bytes = fields.take<uint64_t>();
    trial_.output[n].fill = fields.take<uint32_t>();
  }
  for (uint32_t p = 0; p < trial_.programs; ++p) {
    if (!read_program(fields, &trial_.program[p])) return false;
  }
  return fields.is_good && fields.left() == 0;
}

void Bench::run(Fields& fields) {
  REQUIRE(read_trial(fields), Refusal::kBadField, "the programs to run are not described right");
  REQUIRE(trial_.caches == Caches::kWarm || can_evict(), Refusal::kBadField,
          "this machine has no instructions that empty its caches");
  run_trial(trial_, &report_);
  REQUIRE(report_.outcome != Outcome::kNoProcess, Refusal::kNoProcess, "no process could be started: %s", strerror(static_cast<int>(report_.value)));
  report(fields.header);
}

void Bench::report(const Header& header) {
  size_t used = 0;
  const auto put = [&](const auto& value) {
    memcpy(answer_ + used, &value, sizeof value);
    used += sizeof value;
  };
  put(report_.outcome);
  put(report_.value);
  put(report_.stage);
  put(report_.program);
  for (uint32_t p = 0; p < trial_.programs && report_.outcome == Outcome::kDone; ++p) {
    const Times& times = report_.times(p);
    const uint32_t count = times.count < kMostSeconds ? times.count : 0;
    put(count);
    put(times.stopped_early);
    put(times.first_s);
    for (uint32_t n = 0; n < trial_.outputs; ++n) {
      put(report_.digest(p, n)[0]);
      put(report_.digest(p, n)[1]);
    }
    for (uint32_t n = 0; n < count; ++n) put(times.seconds[n]);
  }
  write_frame(kRun | kAnswer, header.number, answer_, static_cast<uint32_t>(used));
}

void Bench::fetch(Fields& fields) {
  const auto number = fields.take<uint32_t>();
  const auto offset = fields.take<uint64_t>();
  const auto count = fields.take<uint32_t>();
  size_t bytes = 0;
  const uint8_t* const found = report_.output(number, &bytes);
  REQUIRE(found && fields.is_good && number < trial_.outputs && offset <= bytes && count <= bytes - offset && count <= kMostPayload,
          Refusal::kBadField, "the bytes to fetch are not inside of an output");
  write_frame(kFetch | kAnswer, fields.header.number, found + offset, count);
}

void Bench::pack(Fields& fields) {
  const GuardedArray* const source = array(fields);
  GuardedArray* const packed = array(fields);
  const auto size = fields.take<uint32_t>();
  Packing packing = {};
  packing.dimensions = fields.take<uint32_t>();
  packing.parts = fields.take<uint32_t>();
  fields.take<uint32_t>();
  REQUIRE(packing.dimensions <= kMostDimensions && packing.parts <= kMostDimensions, Refusal::kBadField,
          "an array of more than %zu dimensions", kMostDimensions);
  for (uint32_t n = 0; n < packing.dimensions; ++n) {
    packing.extents[n] = fields.take<int64_t>();
    packing.offsets[n] = fields.take<int64_t>();
  }
  for (uint32_t n = 0; n < packing.parts; ++n) {
    packing.part[n].dimension = fields.take<uint32_t>();
    fields.take<uint32_t>();
    packing.part[n].stride = fields.take<int64_t>();
    packing.part[n].extent = fields.take<int64_t>();
  }
  REQUIRE(source && packed && fields.is_good && ansorc::pack(*source, *packed, size, packing), Refusal::kBadField,
          "the packing does not fit its arrays");
  DONE();
}

}  // namespace ansorc
