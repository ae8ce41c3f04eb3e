#pragma once
#include <cstdint>

namespace trainyard {

/// The group of all computing of a step but the optimizer's.
constexpr const char* kComputeGroup = "compute";

/// That of kernels that compress gradients, and give back what was compressed.
constexpr const char* kCompressionGroup = "compression";

/// What an operation of these groups does: `Names::phase` of its name. Pictures tell them apart.
enum class ComputePhase : std::uint8_t { forward, backward, bucket_copies, encode, decode };
constexpr const char* name_of(ComputePhase phase) {
  constexpr const char* names[] = {"forward", "backward", "bucket copies", "encode", "decode"};
  return names[static_cast<int>(phase)];
}

}  // namespace trainyard
