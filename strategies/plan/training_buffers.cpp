#include "strategies/plan/training_buffers.hpp"

#include <fmt/format.h>

#include <array>

#include "sim/error.hpp"
#include "sim/op.hpp"

namespace trainyard {
namespace {

struct Range {
  std::size_t first, count;
};
using BufferKind = TrainingBuffer::Kind;

// Numbers of each kind's buffers. Collectives work on the first five kinds, which have scratch buffers (see
// kScratched).
constexpr std::array<Range, kBufferKinds> kRanges{{
    {0, 820},       // gradients
    {820, 820},     // parameters
    {1640, 1},      // partial
    {1641, 2},      // tied
    {1643, 200},    // exchange
    {2000, 8192},   // activations
    {10192, 820},   // gradient_share
    {11012, 820},   // host_gradients
    {11832, 820},   // host_parameters
    {12652, 820},   // own_parameters
    {20000, 8192},  // replica
    {28200, 1},     // outputs
    {28201, 1},     // output_gradients
    {30000, 4096},  // arrivals
}};

constexpr bool disjoint_and_ascending() {
  for (std::size_t i = 0; i + 1 < kRanges.size(); ++i)
    if (kRanges[i].first + kRanges[i].count > kRanges[i + 1].first) return false;
  return true;
}
static_assert(disjoint_and_ascending());
static_assert(kRanges.back().first + kRanges.back().count <= kScratch);

constexpr const Range& range_of(BufferKind kind) { return kRanges[static_cast<std::size_t>(kind)]; }
static_assert(range_of(BufferKind::exchange).first + range_of(BufferKind::exchange).count <= kScratched);

}  // namespace

std::size_t count_of(TrainingBuffer::Kind kind) { return range_of(kind).count; }

std::uint16_t number_of(TrainingBuffer b) {
  if (b.index >= count_of(b.kind))
    throw InternalError(
        fmt::format("buffer {} of kind {}: there are {}", b.index, static_cast<int>(b.kind), count_of(b.kind)));
  return unchecked_number_of(b);
}

std::uint16_t unchecked_number_of(TrainingBuffer b) {
  return static_cast<std::uint16_t>(range_of(b.kind).first + b.index);
}

TrainingBuffer training_buffer(std::uint16_t number) {
  for (std::size_t kind = 0; kind < kRanges.size(); ++kind)
    if (number >= kRanges[kind].first && number < kRanges[kind].first + kRanges[kind].count)
      return {static_cast<BufferKind>(kind), number - kRanges[kind].first};
  throw InternalError(fmt::format("no buffer of a training has number {}", number));
}

TrainingBuffer activation_message(int virtual_stage, int micro_batch, bool back, int virtual_stages) {
  const auto number = static_cast<std::size_t>((micro_batch * virtual_stages + virtual_stage) * 2 + (back ? 1 : 0));
  return {BufferKind::activations, number % count_of(BufferKind::activations)};
}

}  // namespace trainyard
