#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/folding/fold_graph.hpp"
#include "sim/index.hpp"
#include "sim/program.hpp"

namespace trainyard::folding {

/// Classes of a fold. Elements are numbered actors first, then groups, then bundles of links, and so are their classes.
struct Classes {
  const FoldGraph& graph;
  const Partition& partition;
  std::uint32_t first_group = 0, first_bundle = 0;
  std::vector<std::vector<Actor>> members;   ///< indexed by class of actors
  std::vector<std::uint32_t> class_of_link;  ///< indexed by used link

  Classes(const FoldGraph&, const Partition&);
  Actor actor_class(Actor actor) const { return static_cast<Actor>(partition.class_of[graph.element(actor)]); }
  std::size_t group_class(std::size_t group) const {
    return partition.class_of[graph.group_element(group)] - first_group;
  }
  LinkId link_class(std::size_t used) const { return static_cast<LinkId>(class_of_link[used]); }
};

/// The peers, routes, groups and joins of a representative's program in the quotient.
struct ClassView {
  std::vector<Actor> peers;                            ///< class of the peer, by slot
  std::vector<Program::Endpoints> sending, receiving;  ///< indexed by slot
  struct ClassJoin {
    Tag number = 0;             ///< class of the group
    std::uint32_t classes = 1;  ///< number of classes of its members
  };
  std::map<Tag, ClassJoin> joins;             ///< indexed by the group in a join's tag
  std::vector<const GroupFlow*> group_flows;  ///< indexed by slot
};

/// The simulation that replaces the full one: routes, groups, and views of the representatives.
class FoldedSystem {
 public:
  FoldedSystem(const Machine&, const Classes&);
  FoldedSystem(const FoldedSystem&) = delete;

  /// Route between two actors of the full simulation, over links of the quotient. Null: no slot of a representative has
  /// this pair.
  const Route* route(Actor from, Actor to) const;
  const ClassView& view(Actor class_index) const { return views_[position(class_index)]; }

 private:
  std::unordered_map<std::uint64_t, Route> routes_;
  std::set<std::string> names_;             // the names of routes, which may outlive the folded machine
  std::deque<std::vector<LinkUse>> links_;  // referred to by routes
  std::deque<std::vector<Leg>> legs_;
  std::deque<GroupFlow> flows_;                     // indexed by class of groups
  std::deque<KnownGroup> known_groups_;             // indexed by class of groups; referred to by flows
  std::vector<ClassView> views_;                    // indexed by class
  std::vector<std::set<Actor>> members_of_groups_;  // indexed by class of groups: the classes of the members
  /// By class of links: the classes of actors that take part in every flow there, as sender or member. No value: no
  /// flow is there.
  std::vector<std::optional<std::set<Actor>>> owners_;

  class Consumption;
  void add_members(const Classes&);
  void add_owners(const Consumption&);
  void add_routes(const Machine&, const Classes&, const Consumption&);
  void add_groups(const Classes&, const Consumption&);
  void add_views(const Classes&);
};

}  // namespace trainyard::folding
