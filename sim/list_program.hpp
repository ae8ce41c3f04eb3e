#pragma once
#include <utility>
#include <vector>

#include "sim/program.hpp"

namespace trainyard {

/// A static program that yields a list of operations. With an empty list, the actor does nothing.
class ListProgram : public Program {
 public:
  ListProgram(std::vector<Op> ops, std::vector<Actor> slots = {}, int streams = 1)
      : ops_(std::move(ops)), slots_(std::move(slots)), streams_(streams) {}
  Pull next(const Op*& op, const Repeat*&) override {
    if (next_op_ == ops_.size()) return Pull::done;
    op = &ops_[next_op_++];
    return Pull::op;
  }
  std::span<const Actor> slots() const override { return slots_; }
  int streams() const override { return streams_; }

 private:
  std::vector<Op> ops_;
  std::vector<Actor> slots_;
  int streams_;
  std::size_t next_op_ = 0;
};

}  // namespace trainyard
