#pragma once
#include <vector>

#include "sim/folding/fold.hpp"

namespace trainyard {

/// The machine of a quotient: its actors are classes of actors, its links classes of links.
class FoldedMachine : public Machine, private Contention {
 public:
  /// The machine and the fold must outlive the folded machine.
  FoldedMachine(Machine&, const Fold&);

  std::span<const Link> links() const override { return links_; }
  Cost price(const Work& work, Actor c) const override { return machine_.price(work, fold_.representative(c)); }
  /// `from` and `to` are actors of the full simulation (Program::Endpoints).
  Route route(Actor from, Actor to, PathClass) const override;
  const Contention* contention() const override { return machine_.contention() ? this : nullptr; }
  double speed(Actor c, Kind kind, KindSet active) const override {
    return machine_.contention()->speed(fold_.representative(c), kind, active);
  }
  std::span<const LinkId> ports(Actor c) const override { return fold_.ports(c); }
  std::string cause_of_cut(Actor from, Actor to) const override {
    return machine_.cause_of_cut(fold_.representative(from), fold_.representative(to));
  }
  /// Returns a name such as "rank 0 (node0/gpu0) ×512".
  std::string actor_name(Actor) const override;

 private:
  Machine& machine_;
  const Fold& fold_;
  std::vector<Link> links_;
};

}  // namespace trainyard
