#pragma once
#include <array>
#include <cstdint>
#include <limits>

#include "sim/op.hpp"

namespace trainyard {

/// Difference between an operation of a loop and the same operation one round earlier: it waits for more operations,
/// and uses another chunk.
struct Stride {
  std::uint32_t counts[std::size(Op{}.deps)]{};  ///< increments of the dependencies' counts
  std::uint16_t read = 0, write = 0;             ///< increments of the chunk numbers, modulo 2^16
  bool operator==(const Stride&) const = default;
};
inline Stride stride_between(const Op& from, const Op& to) {
  Stride stride;
  for (std::size_t d = 0; d < std::size(to.deps); ++d) stride.counts[d] = to.deps[d].count - from.deps[d].count;
  stride.read = static_cast<std::uint16_t>(to.effect.read.chunk - from.effect.read.chunk);
  stride.write = static_cast<std::uint16_t>(to.effect.write.chunk - from.effect.write.chunk);
  return stride;
}
inline void advance(Op& op, const Stride& stride, std::uint32_t rounds = 1) {
  for (std::size_t d = 0; d < std::size(op.deps); ++d) op.deps[d].count += rounds * stride.counts[d];
  op.effect.read.chunk = static_cast<std::uint16_t>(op.effect.read.chunk + rounds * stride.read);
  op.effect.write.chunk = static_cast<std::uint16_t>(op.effect.write.chunk + rounds * stride.write);
}
/// Returns true if `op` equals `before` advanced by that many rounds.
inline bool follows(const Op& op, const Op& before, const Stride& stride, std::uint32_t rounds = 1) {
  Op expected = before;
  advance(expected, stride, rounds);
  return op == expected;
}

/// A number of identical rounds that a program yields at once. A round is a short sequence of operations, each on a
/// stream of its own.
class Repeat {
 public:
  static constexpr int kMost = 2;  ///< operations in a round
  struct RoundOp {
    Op first;
    Stride stride = {};
    /// Chunk numbers may wrap around once: from round `until_jump` on, they are shifted by this much.
    Stride jump = {};
    std::uint32_t until_jump = std::numeric_limits<std::uint32_t>::max();  ///< first shifted round
    Op of_round(std::uint32_t round) const {
      Op op = first;
      advance(op, stride, round);
      if (round >= until_jump) advance(op, jump);
      return op;
    }
  };

  explicit Repeat(std::uint32_t rounds = 0) : rounds_(rounds) {}
  void add(const RoundOp& operation) { each_[static_cast<std::size_t>(operations_++)] = operation; }
  std::uint32_t rounds() const { return rounds_; }
  int operations() const { return operations_; }
  const RoundOp& operation(int operation) const { return each_[static_cast<std::size_t>(operation)]; }

  /// Returns the operations one by one, and null after the last. The result stays valid until the next call.
  const Op* take() {
    if (round_ == rounds_) return nullptr;
    given_ = each_[static_cast<std::size_t>(operation_)].of_round(round_);
    if (++operation_ == operations_) {
      operation_ = 0;
      ++round_;
    }
    return &given_;
  }

 private:
  std::array<RoundOp, kMost> each_;
  int operations_ = 0, operation_ = 0;
  std::uint32_t rounds_ = 0, round_ = 0;
  Op given_;
};

}  // namespace trainyard
