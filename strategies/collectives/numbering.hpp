#pragma once
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "sim/error.hpp"

namespace trainyard {

/// A ring through all members of a group: `member[v]` follows `member[v − 1]`.
struct RingOrder {
  std::vector<int> member;
  std::vector<int> number;  ///< for each member: its position in the ring
  RingOrder() = default;
  /// Throws InternalError unless it is a permutation of 0 … size−1.
  explicit RingOrder(std::vector<int> order) : member(std::move(order)), number(member.size(), -1) {
    for (std::size_t v = 0; v < member.size(); ++v) {
      const auto m = static_cast<std::size_t>(member[v]);
      if (m >= number.size() || number[m] >= 0) throw InternalError("a ring that does not meet every member once");
      number[m] = static_cast<int>(v);
    }
  }
};

/// A ring, and its weight when the bytes are divided among rings.
struct WeightedRing {
  RingOrder order;
  int weight = 1;
};

/// Maps the numbers 0 … size−1 of a view to members of a group: to all of them or to every k-th, in any order. The same
/// algorithm then runs on any such members. A numbering is cheap to copy: it refers to a ring's order and does not own
/// it.
class Numbering {
 public:
  explicit Numbering(int size) : size_(size) {}
  /// `size` members: first, first + stride, first + 2·stride, …
  static Numbering from_stride(int stride, int first, int size) {
    Numbering n(size);
    n.first_ = first;
    n.stride_ = stride;
    return n;
  }
  /// The order must outlive the numbering.
  static Numbering from_ring(const RingOrder& order) {
    Numbering n(static_cast<int>(order.member.size()));
    n.order_ = &order;
    return n;
  }
  /// Shifts the numbers: number v then means what v + by meant, modulo the size.
  Numbering rotate(int by) const { return rotate_in_blocks(size_, by); }
  /// Shifts the numbers inside each block of `block` consecutive members (all blocks have one size). A ring then
  /// leaves a node by another member.
  Numbering rotate_in_blocks(int block, int by) const {
    Numbering n = *this;
    n.block_ = block;
    n.shift_ = by % block;
    return n;
  }
  /// Orders each block of `block` consecutive members as a zigzag that begins with member `by`: by, by + 1, by − 1, by + 2, …
  /// For an even block, the zigzags of all `by` use each ordered pair of members once, and begin and end at different
  /// members (E. J. Williams, "Experimental designs balanced for the estimation of residual effects of treatments",
  /// Aust. J. Sci. Res. A 2, 1949). For an odd block, they use half of the pairs, each twice.
  Numbering zigzag_in_blocks(int block, int by) const {
    Numbering n = rotate_in_blocks(block, by);
    n.zigzag_ = true;
    return n;
  }
  /// Returns the number at a position of a zigzag that begins with 0. `zigzag_position` is the inverse.
  static int zigzag(int position, int block) {
    return position % 2 == 1 ? (position + 1) / 2 : (block - position / 2) % block;
  }
  static int zigzag_position(int v, int block) { return v == 0 ? 0 : v <= block / 2 ? 2 * v - 1 : 2 * (block - v); }
  /// Reverses the direction; number 0 stays.
  Numbering reverse() const {
    Numbering n = *this;
    n.reversed_ = !reversed_;
    return n;
  }

  int size() const { return size_; }
  int member(int number) const {
    int v = reversed_ && number > 0 ? size_ - number : number;
    if (block_ > 0) {
      const int place = v % block_;
      v += ((zigzag_ ? zigzag(place, block_) : place) + shift_) % block_ - place;
    }
    return order_ ? order_->member[v] : first_ + stride_ * v;
  }
  /// Returns the number of a member. The numbering must contain the member.
  int number(int member) const {
    int v = order_ ? order_->number[member] : (member - first_) / stride_;
    if (block_ > 0) {
      const int place = v % block_, unshifted = (place + block_ - shift_) % block_;
      v += (zigzag_ ? zigzag_position(unshifted, block_) : unshifted) - place;
    }
    return reversed_ && v > 0 ? size_ - v : v;
  }
  /// Returns the members after and before `member`, if the numbers form a ring.
  std::array<int, 2> neighbours(int member) const {
    const int v = number(member);
    return {this->member((v + 1) % size_), this->member((v + size_ - 1) % size_)};
  }

 private:
  const RingOrder* order_ = nullptr;
  int size_ = 1, first_ = 0, stride_ = 1;
  int block_ = 0, shift_ = 0;
  bool reversed_ = false, zigzag_ = false;
};

}  // namespace trainyard
