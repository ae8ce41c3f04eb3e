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

  Pull next(const Op*& op, const Repeat*& rounds) override {
    const Pull pull = original_->next(op, rounds);
    if (pull == Pull::op && op->kind == Kind::join) op = &meeting(*op);
    return pull;
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
  Op join_;  // given last

  /// One member of each class meets.
  const Op& meeting(const Op& join) {
    join_ = join;
    constexpr Tag kCount = (Tag{1} << kMeetingBits) - 1;
    const auto at = view_.meetings.find(join.message.tag >> kMeetingBits);
    if (at == view_.meetings.end())
      throw InternalError(fmt::format("a join of an unknown group, {}", join.message.tag));
    join_.message.tag = at->second.number << kMeetingBits | (join.message.tag & kCount);
    join_.message.steps = at->second.classes;
    return join_;
  }
};

}  // namespace

std::unique_ptr<Program> folded_program(std::unique_ptr<Program> original, ClassView view) {
  return std::make_unique<FoldedProgram>(std::move(original), std::move(view));
}

}  // namespace trainyard::folding
