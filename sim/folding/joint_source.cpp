#include "sim/folding/joint_source.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"
#include "sim/hashing.hpp"
#include "sim/index.hpp"

namespace trainyard {
namespace {

constexpr int kPartBits = 57;  // the bits of a join's tag below the number of its source
static_assert(JointSource::kMost <= std::size_t{1} << (64 - kPartBits));

Tag joint_group(std::size_t part, Tag group) {
  constexpr int kGroupBits = kPartBits - kJoinBits;
  if (group >> kGroupBits != 0) throw InternalError(fmt::format("group {} has too many bits", group));
  return static_cast<Tag>(part) << kGroupBits | group;
}

/// The program of one actor among those of other sources. A pause of the same length runs first on each stream.
class JointProgram : public Program {
 public:
  JointProgram(std::unique_ptr<Program> original, std::size_t part, std::vector<Actor> peers,
               std::vector<const GroupFlow*> flows, const Work& pause)
      : original_(std::move(original)),
        part_(part),
        peers_(std::move(peers)),
        flows_(std::move(flows)),
        pause_(pause),
        reader_(*original_),
        pauses_left_(pause.kernel == 0 ? 0 : original_->streams()) {
    if (original_->dynamic() || original_->daemon())
      throw InternalError("a dynamic program has no place beside others");
  }

  Pull next(const Op*& op, const Repeat*& rounds) override {
    if (pauses_left_ > 0) {  // the driving streams come last, so that all pauses begin at once
      op_ = Op{.stream = static_cast<Stream>(--pauses_left_), .kind = Kind::delay, .work = pause_};
      op = &op_;
      return Pull::op;
    }
    if (pause_.kernel == 0) {
      const Pull pull = original_->next(op, rounds);
      if (pull == Pull::op && op->kind == Kind::join) op = &changed(*op);
      return pull;
    }
    Op read;
    const Pull pull = reader_.next(read);
    if (pull == Pull::op) op = &changed(read);
    return pull;
  }
  std::span<const Actor> slots() const override { return peers_; }
  std::span<const GroupFlow* const> group_flows() const override { return flows_; }
  const Series& series(Tag number) const override { return original_->series(number); }
  int streams() const override { return original_->streams(); }
  std::uint64_t driving() const override { return original_->driving(); }

 private:
  std::unique_ptr<Program> original_;
  std::size_t part_;
  std::vector<Actor> peers_;
  std::vector<const GroupFlow*> flows_;
  Work pause_;
  OpReader reader_;
  int pauses_left_;
  Op op_;  // the operation that was returned last

  /// Sets the number of the group, and counts the pause among the operations that the operation waits for.
  const Op& changed(const Op& op) {
    op_ = op;
    if (op.kind == Kind::join) {
      constexpr Tag kCount = (Tag{1} << kJoinBits) - 1;
      op_.message.tag = joint_group(part_, op.message.tag >> kJoinBits) << kJoinBits | (op.message.tag & kCount);
    }
    for (Dep& dep : op_.deps)
      if (dep.count > 0 && pause_.kernel != 0) ++dep.count;
    return op_;
  }
};

}  // namespace

JointSource::JointSource(std::vector<Part> parts) : parts_(std::move(parts)), first_{0} {
  if (parts_.size() > kMost) throw InternalError(fmt::format("{} sources side by side", parts_.size()));
  for (const Part& part : parts_) first_.push_back(first_.back() + part.source->actors());
}

std::size_t JointSource::part_of(Actor actor) const {
  return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), actor) - first_.begin()) - 1;
}

Actor JointSource::joint_number(std::size_t part, Actor actor) const {
  const Actor actors = parts_[part].source->actors();
  if (actor < actors) return actor < 0 ? actor : first_[part] + actor;
  return parts_[part].devices.at(position(actor - actors));
}

const GroupFlow* JointSource::joint_flow(std::size_t part, const GroupFlow* flow) const {
  if (!flow) return nullptr;
  std::unique_ptr<GroupFlow>& copy = flows_[{part, flow}];
  if (copy) return copy.get();
  copy = std::make_unique<GroupFlow>(*flow);
  for (GroupFlow::Edge& edge : copy->edges) {
    edge.from = joint_number(part, edge.from);
    edge.to = joint_number(part, edge.to);
  }
  for (GroupFlow::Share& share : copy->shares) share.actor = joint_number(part, share.actor);
  return copy.get();
}

ActorOutline JointSource::outline(Actor actor) const {
  const std::size_t part = part_of(actor);
  ActorOutline outline = parts_[part].source->outline(actor - first_[part]);
  outline.text = hash_numbers({outline.text, part});
  for (Actor& slot : outline.slots) slot = joint_number(part, slot);
  for (ActorOutline::GroupJoin& join : outline.joins) {
    join.group = joint_group(part, join.group);
    join.flow = joint_flow(part, join.flow);
  }
  return outline;
}

std::unique_ptr<Program> JointSource::program(Actor actor) const {
  const std::size_t part = part_of(actor);
  std::unique_ptr<Program> original = parts_[part].source->program(actor - first_[part]);
  std::vector<Actor> peers;
  for (const Actor slot : original->slots()) peers.push_back(joint_number(part, slot));
  std::vector<const GroupFlow*> flows;
  for (const GroupFlow* flow : original->group_flows()) flows.push_back(joint_flow(part, flow));
  return std::make_unique<JointProgram>(std::move(original), part, std::move(peers), std::move(flows),
                                        parts_[part].pause);
}

}  // namespace trainyard
