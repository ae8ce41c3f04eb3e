#pragma once
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sim/executor/changes.hpp"
#include "sim/folding/outline.hpp"
#include "sim/machine.hpp"
#include "sim/observers/traffic.hpp"

namespace trainyard {

namespace folding {
class FoldedSystem;
}

/// Controls whether equivalent actors are simulated only once. automatic: if that at least halves their number and the
/// user does not ask for each of them.
enum class Folding : std::uint8_t { automatic, off };

/// The equivalence classes of a folded simulation, and the quotient that is simulated in place of the full simulation
/// (see README.md here). Actors of the quotient are the classes, numbered in the order of their lowest actors, which
/// represent them.
class Fold {
 public:
  static constexpr Actor kNoLimit = std::numeric_limits<Actor>::max();
  /// Compares all actors. The machine must outlive the fold. Stops with a refusal as soon as there are more than
  /// `most_classes`.
  Fold(const Machine&, const ProgramSource&, std::span<const LinkChange> = {}, Actor most_classes = kNoLimit);
  ~Fold();
  Fold(const Fold&) = delete;
  Fold& operator=(const Fold&) = delete;

  /// The reason why nothing is folded; "": it is folded.
  const std::string& refusal() const { return refusal_; }
  Actor actors() const { return static_cast<Actor>(class_of_.size()); }  ///< number of actors of the full simulation
  Actor classes() const { return static_cast<Actor>(members_.size()); }
  Actor class_of(Actor actor) const { return class_of_[static_cast<std::size_t>(actor)]; }
  bool halves() const { return refusal_.empty() && 2 * classes() <= actors(); }
  bool exceeds_limit() const { return exceeds_limit_; }  ///< true if there are more than `most_classes`
  /// Members in ascending order; the first represents the class.
  const std::vector<Actor>& members(Actor class_index) const { return members_[static_cast<std::size_t>(class_index)]; }
  Actor representative(Actor class_index) const { return members(class_index).front(); }
  double size(Actor class_index) const { return static_cast<double>(members(class_index).size()); }
  /// One sentence for each split of a class. It names two actors of the class and the difference between them, "rank 8
  /// differs from rank 0: …".
  const std::vector<std::string>& reasons() const { return reasons_; }

  /// Takes the classes over for a smaller simulation, whose actors are the first `actors` of this one and whose links
  /// have the names of links of this one. `own` and `smaller` are the machines of the two. A class whose lowest member
  /// has a higher number is not allowed.
  void keep(Actor actors, const Machine& own, const Machine& smaller);

  /// Number of actors and links that each class stands for, for sums over the full simulation.
  Multiplicity multiplicity() const;

  /// A link of the quotient: the link that represents the class, and its number of links.
  struct LinkClass {
    LinkId link = 0;
    double links = 1;
  };
  const std::vector<LinkClass>& links() const { return links_; }
  /// The class of a link; −1: no message crosses it.
  LinkId class_of_link(LinkId link) const { return class_of_link_[static_cast<std::size_t>(link)]; }
  /// The changes of links that messages cross, one for each class.
  std::vector<LinkChange> changes(std::span<const LinkChange>) const;

  /// The programs of the classes. The source must have the same outlines.
  Programs programs(const ProgramSource&) const;

  // Answers for the quotient's machine:

  const Route& route(Actor from, Actor to) const;  ///< between two actors of the full simulation
  /// Returns true if members of a class meet nobody else when they join that group (ActorOutline::GroupJoin).
  bool meets_itself(Actor class_index, Tag group) const;
  const std::vector<LinkId>& ports(Actor class_index) const { return ports_[static_cast<std::size_t>(class_index)]; }

 private:
  std::string refusal_;
  bool exceeds_limit_ = false;
  std::vector<Actor> class_of_;
  std::vector<std::vector<Actor>> members_;
  std::vector<std::string> reasons_;
  std::vector<LinkClass> links_;
  std::vector<LinkId> class_of_link_;
  std::vector<std::vector<LinkId>> ports_;
  std::unique_ptr<folding::FoldedSystem> folded_system_;
};

}  // namespace trainyard
