#pragma once
#include <cstdint>

namespace trainyard {

/// The group of all computing of a step but the optimizer's.
constexpr const char* kComputeGroup = "compute";

/// What an operation of that group does: `Names::phase` of its name. Pictures tell them apart.
enum class ComputePhase : std::uint8_t { forward, backward, bucket_copies };
constexpr const char* name_of(ComputePhase phase) {
  constexpr const char* names[] = {"forward", "backward", "bucket copies"};
  return names[static_cast<int>(phase)];
}

}  // namespace trainyard
