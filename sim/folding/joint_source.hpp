#pragma once
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/folding/outline.hpp"

namespace trainyard {

/// Several simulations side by side as one: the actors of each source follow those of the source before it. Their
/// messages and groups stay among themselves; only links are shared.
class JointSource : public ProgramSource {
 public:
  /// Most sources. The upper bits of a group's number name the source.
  static constexpr std::size_t kMost = 64;
  struct Part {
    const ProgramSource* source = nullptr;
    /// Actor numbers of the whole for the numbers from `source->actors()` on: devices that own no program.
    std::vector<Actor> devices = {};
    Work pause = {};  ///< work before the program begins; kernel 0: none
  };
  /// The sources must outlive this object, and this object its programs. Throws InternalError for more than `kMost`.
  explicit JointSource(std::vector<Part>);

  Actor actors() const override { return first_.back(); }
  ActorOutline outline(Actor) const override;
  std::unique_ptr<Program> program(Actor) const override;

  std::size_t part_of(Actor) const;  ///< index of the source of an actor

 private:
  std::vector<Part> parts_;
  std::vector<Actor> first_;  // indexed by part; the number of all actors follows
  mutable std::map<std::pair<std::size_t, const GroupFlow*>, std::unique_ptr<GroupFlow>> flows_;

  Actor joint_number(std::size_t part, Actor) const;
  const GroupFlow* joint_flow(std::size_t part, const GroupFlow*) const;
};

}  // namespace trainyard
