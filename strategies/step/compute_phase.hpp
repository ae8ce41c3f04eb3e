#pragma once
#include <cstdint>

namespace trainyard {

/// The group of all computing of a step but the optimizer's.
constexpr const char* kComputeGroup = "compute";

/// The group of kernels that compress and decompress gradients.
constexpr const char* kCompressionGroup = "compression";

/// The phase of an operation of these groups: `Names::phase` of its name. Pictures distinguish phases.
enum class ComputePhase : std::uint8_t { forward, backward, bucket_copies, encode, decode };
constexpr const char* name_of(ComputePhase phase) {
  constexpr const char* names[] = {"forward", "backward", "bucket copies", "encode", "decode"};
  return names[static_cast<int>(phase)];
}

}  // namespace trainyard
