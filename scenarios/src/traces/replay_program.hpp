#pragma once
#include "scenarios/src/traces/replay_plan.hpp"
#include "sim/folding/outline.hpp"
#include "sim/names.hpp"

namespace trainyard {

/// Value of Work::kernel for work whose time the trace states. Its FLOPs are seconds.
constexpr std::uint16_t kStatedTime = 999;

/// A cluster on which some work has a stated time. A time from the trace is final, whatever runs at the same time
/// (Kind::compute here). Work that the cluster prices is slowed by messages (Kind::local).
class ReplayMachine : public Machine, private Contention {
 public:
  explicit ReplayMachine(ClusterMachine& base) : base_(base) {}
  std::span<const Link> links() const override { return base_.links(); }
  Cost price(const Work& work, Actor actor) const override {
    return work.kernel == kStatedTime ? Cost{Seconds{work.flops.value}} : base_.price(work, actor);
  }
  Route route(Actor from, Actor to, PathClass path_class) const override { return base_.route(from, to, path_class); }
  const Contention* contention() const override { return base_.contention() ? this : nullptr; }
  double speed(Actor actor, Kind kind, KindSet active) const override {
    return kind == Kind::compute ? 1 : base_.contention()->speed(actor, kind, active);
  }
  std::span<const LinkId> ports(Actor actor) const override { return base_.contention()->ports(actor); }
  std::string cause_of_cut(Actor from, Actor to) const override { return base_.cause_of_cut(from, to); }
  std::string actor_name(Actor actor) const override { return base_.actor_name(actor); }
  std::uint64_t equivalence_class(Actor actor) const override { return base_.equivalence_class(actor); }

 private:
  ClusterMachine& base_;
};

/// The programs of a trace's ranks.
class ReplayPrograms : public ProgramSource {
 public:
  /// Plan and options must outlive the programs.
  ReplayPrograms(const ReplayPlan&, const ReplayOptions&, Names&);
  Actor actors() const override { return static_cast<Actor>(plan_.ranks.size()); }
  ActorOutline outline(Actor) const override;
  std::unique_ptr<Program> program(Actor) const override;
  Programs programs() const;
  /// Returns false if messages have routes of their own, because then ranks cannot be folded (see ProgramSource).
  bool foldable() const;

 private:
  const ReplayPlan& plan_;
  const ReplayOptions& options_;
  Names& names_;
};

}  // namespace trainyard
