#pragma once
#include <array>
#include <cstdint>
#include <limits>

#include "sim/op.hpp"

namespace trainyard {

/// How an operation that a loop yields differs from that of the round before: it waits for the end of so many operations
/// more, and means the chunk of another number.
struct Stride {
  std::uint32_t counts[std::size(Op{}.deps)]{};  ///< of its dependencies
  std::uint16_t read = 0, write = 0;             ///< numbers of chunks, modulo 2^16
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
/// Is `op` what `before` is so many rounds later?
inline bool follows(const Op& op, const Op& before, const Stride& stride, std::uint32_t rounds = 1) {
  Op expected = before;
  advance(expected, stride, rounds);
  return op == expected;
}

/// What a program yields round after round, at once: a few operations, in turn, so many times. Each has a stream for itself.
class Repeat {
 public:
  static constexpr int kMost = 2;  ///< operations in a round
  struct Each {
    Op first;
    Stride stride = {};
    /// The numbers of chunks may begin again once: from that round on they are so much further.
    Stride jump = {};
    std::uint32_t until_jump = std::numeric_limits<std::uint32_t>::max();  ///< rounds
    Op of_round(std::uint32_t round) const {
      Op op = first;
      advance(op, stride, round);
      if (round >= until_jump) advance(op, jump);
      return op;
    }
  };

  explicit Repeat(std::uint32_t rounds = 0) : rounds_(rounds) {}
  void add(const Each& each) { each_[static_cast<std::size_t>(operations_++)] = each; }
  std::uint32_t rounds() const { return rounds_; }
  int operations() const { return operations_; }
  const Each& each(int operation) const { return each_[static_cast<std::size_t>(operation)]; }

  /// One by one; null after the last. It stays valid until the next call.
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
  std::array<Each, kMost> each_;
  int operations_ = 0, operation_ = 0;
  std::uint32_t rounds_ = 0, round_ = 0;
  Op given_;
};

}  // namespace trainyard
