#include "sim/folding/folded_program.hpp"

#include <fmt/format.h>

#include "sim/error.hpp"

namespace trainyard::folding {
namespace {

class FoldedProgram : public Program {
 public:
  FoldedProgram(std::unique_ptr<Program> original, ClassView view)
      : original_(std::move(original)), view_(std::move(view)) {
    if (original_->dynamic() || original_->daemon())
      throw InternalError("a program that decides as it goes stands for itself only");
  }

  Pull next(Op& op) override {
    const Pull pull = original_->next(op);
    if (pull == Pull::op && op.kind == Kind::join) rename(op);
    return pull;
  }
  Pull next_in_place(const Op*& op, Op& scratch) override {
    const Pull pull = original_->next_in_place(op, scratch);
    return pull == Pull::op ? renamed(op, scratch) : pull;
  }
  /// Joins come one by one.
  Pull next_or_repeat(const Op*& op, Op& scratch, const Repeat*& repeat) override {
    const Pull pull = original_->next_or_repeat(op, scratch, repeat);
    return pull == Pull::op ? renamed(op, scratch) : pull;
  }
  std::span<const Actor> slots() const override { return view_.peers; }
  Way way(std::uint16_t slot, bool sending) const override { return (sending ? view_.sending : view_.receiving)[slot]; }
  std::span<const GroupFlow* const> group_flows() const override { return view_.group_flows; }
  const Series& series(Tag number) const override { return original_->series(number); }
  int streams() const override { return original_->streams(); }
  std::uint64_t driving() const override { return original_->driving(); }

 private:
  std::unique_ptr<Program> original_;
  ClassView view_;

  Pull renamed(const Op*& op, Op& scratch) const {
    if (op->kind != Kind::join) return Pull::op;
    if (op != &scratch) scratch = *op;
    rename(scratch);
    op = &scratch;
    return Pull::op;
  }
  /// One member of each class meets.
  void rename(Op& op) const {
    constexpr Tag kCount = (Tag{1} << kMeetingBits) - 1;
    const auto at = view_.meetings.find(op.message.tag >> kMeetingBits);
    if (at == view_.meetings.end()) throw InternalError(fmt::format("a join of an unknown group, {}", op.message.tag));
    op.message.tag = at->second.number << kMeetingBits | (op.message.tag & kCount);
    op.message.steps = at->second.classes;
  }
};

}  // namespace

std::unique_ptr<Program> folded_program(std::unique_ptr<Program> original, ClassView view) {
  return std::make_unique<FoldedProgram>(std::move(original), std::move(view));
}

}  // namespace trainyard::folding
