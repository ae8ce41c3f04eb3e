#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sim/executor/changes.hpp"
#include "sim/folding/outline.hpp"
#include "sim/machine.hpp"
#include "sim/observers/traffic.hpp"

namespace trainyard {

namespace folding {
class Quotient;
}

/// Are actors that are alike simulated once? automatic: where that halves their number at least, and nobody wants to see
/// each of them.
enum class Folding : std::uint8_t { automatic, off };

/// The classes of a folded simulation, and the quotient that is simulated in place of the whole (see README.md here).
/// Actors of the quotient are the classes, numbered in the order of their lowest actors, which represent them.
class Fold {
 public:
  /// Compares all actors. The machine must outlive it.
  Fold(const Machine&, const ProgramSource&, std::span<const LinkChange> = {});
  ~Fold();
  Fold(const Fold&) = delete;
  Fold& operator=(const Fold&) = delete;

  /// Why nothing is folded; "": it is.
  const std::string& refusal() const { return refusal_; }
  Actor actors() const { return static_cast<Actor>(class_of_.size()); }  ///< of the whole
  Actor classes() const { return static_cast<Actor>(members_.size()); }
  Actor class_of(Actor actor) const { return class_of_[static_cast<std::size_t>(actor)]; }
  bool halves() const { return refusal_.empty() && 2 * classes() <= actors(); }
  /// In order; the first represents the class.
  const std::vector<Actor>& members(Actor of_class) const { return members_[static_cast<std::size_t>(of_class)]; }
  Actor representative(Actor of_class) const { return members(of_class).front(); }
  double size(Actor of_class) const { return static_cast<double>(members(of_class).size()); }
  /// Two actors that were alike by themselves, and what told them apart first: "ranks 0 and 8: …", one for each split.
  const std::vector<std::string>& reasons() const { return reasons_; }

  /// What stands for how many, for sums over the whole.
  Multiplicity multiplicity() const;

  /// Links of the quotient: which link represents the class, and how many it has.
  struct LinkClass {
    LinkId link = 0;
    double links = 1;
  };
  const std::vector<LinkClass>& links() const { return links_; }
  /// The class of a link; −1: nothing crosses it.
  LinkId class_of_link(LinkId link) const { return class_of_link_[static_cast<std::size_t>(link)]; }
  /// Of changes that concern links that something crosses, one for each class.
  std::vector<LinkChange> changes(std::span<const LinkChange>) const;

  /// The programs of the classes, from a source with the same outlines.
  Programs programs(const ProgramSource&) const;

  // What the quotient's machine answers:

  const Route& route(Actor from, Actor to) const;         ///< of a way: two actors of the whole
  const KnownGroup* known_group(const GroupFlow&) const;  ///< of the quotient's group
  /// Does a class meet nobody else where its members join that group (ActorOutline::Meeting)?
  bool meets_itself(Actor of_class, Tag group) const;
  const std::vector<LinkId>& ports(Actor of_class) const { return ports_[static_cast<std::size_t>(of_class)]; }

 private:
  std::string refusal_;
  std::vector<Actor> class_of_;
  std::vector<std::vector<Actor>> members_;
  std::vector<std::string> reasons_;
  std::vector<LinkClass> links_;
  std::vector<LinkId> class_of_link_;
  std::vector<std::vector<LinkId>> ports_;
  std::unique_ptr<folding::Quotient> quotient_;
};

}  // namespace trainyard
