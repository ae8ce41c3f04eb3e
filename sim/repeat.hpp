#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "sim/op.hpp"

namespace trainyard {

/// An operation as numbers. Those that a loop yields differ from round to round by the same: the count of a dependency is
/// one more, a chunk's number one less.
using OpWords = std::array<std::uint32_t, sizeof(Op) / sizeof(std::uint32_t)>;
inline OpWords op_words(const Op& op) { return std::bit_cast<OpWords>(op); }
inline OpWords plus(const OpWords& a, const OpWords& b, std::uint32_t times = 1) {
  OpWords sum;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + times * b[i];
  return sum;
}
inline OpWords minus(const OpWords& a, const OpWords& b) {
  OpWords difference;
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] = a[i] - b[i];
  return difference;
}

/// What a program yields round after round, at once: a few operations, in turn, so many times, which differ from one round
/// to the next by the same. Once what an operation does to values may jump: where the numbers of chunks begin again.
class Repeat {
 public:
  static constexpr int kMost = 2;  ///< operations in a round
  struct Each {
    OpWords next, step, jump{};
    std::uint32_t until_jump = std::numeric_limits<std::uint32_t>::max();  ///< rounds
    OpWords words(std::uint32_t round = 0) const {
      const OpWords same = plus(next, step, round);
      return round < until_jump ? same : plus(same, jump);
    }
    Op op(std::uint32_t round = 0) const { return std::bit_cast<Op>(words(round)); }
  };

  /// Its operations, of two rounds that come one by one; what repeats comes after them. Each has a stream for itself.
  void add_first(const Op& op) { each_[static_cast<std::size_t>(operations_++)].next = op_words(op); }
  void add_second(int number, const Op& op) {
    Each& each = each_[static_cast<std::size_t>(number)];
    each.step = minus(op_words(op), each.next);
    each.next = plus(op_words(op), each.step);
  }
  void set_rounds(std::uint32_t rounds) { rounds_ = rounds; }
  /// What an operation does to values in what repeats first, and what in the round after it: instead of what the two rounds
  /// that came one by one tell.
  void set_effects(int number, const Effect& first, const Effect& second) {
    Each& each = each_[static_cast<std::size_t>(number)];
    const OpWords now = op_words(with(each.op(), first));
    each.step = minus(op_words(with(each.op(1), second)), now);
    each.next = now;
  }
  /// From that round on the operation has this effect, and goes on from it.
  void set_jump(int number, std::uint32_t round, const Effect& effect) {
    Each& each = each_[static_cast<std::size_t>(number)];
    each.jump = minus(op_words(with(each.op(round), effect)), each.words(round));
    each.until_jump = round;
  }
  std::uint32_t rounds() const { return rounds_; }
  int operations() const { return operations_; }
  const Each& each(int op) const { return each_[static_cast<std::size_t>(op)]; }

  /// One by one; null after the last. It stays valid until the next call.
  const Op* take() {
    if (rounds_ == 0) return nullptr;
    Each& each = each_[static_cast<std::size_t>(op_)];
    if (each.until_jump-- == 0) each.next = plus(each.next, each.jump);
    taken_ = std::bit_cast<Op>(each.next);
    each.next = plus(each.next, each.step);
    if (++op_ == operations_) {
      op_ = 0;
      --rounds_;
    }
    return &taken_;
  }

 private:
  std::array<Each, kMost> each_;
  int operations_ = 0, op_ = 0;
  std::uint32_t rounds_ = 0;
  Op taken_;

  static Op with(Op op, const Effect& effect) {
    op.effect = effect;
    return op;
  }
};

}  // namespace trainyard
