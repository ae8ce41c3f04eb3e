#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/op.hpp"

namespace trainyard {

/// How the time of a group counts in the breakdown.
enum class Role : std::uint8_t {
  work,            ///< computing; earlier groups win where two overlap
  collective,      ///< communication; waiting inside it counts as communication too
  point_to_point,  ///< a message that a peer must produce first: waiting for it is a bubble
  prefetch,        ///< data fetched ahead: its time counts only while nothing else runs
};

struct Group {
  std::string name;
  Role role = Role::work;
  std::string detail;  ///< of communication: the algorithm
};

/// The names of a simulation: operations carry numbers, reports print the names.
class Names {
 public:
  Names() { intern(""); }

  NameId intern(std::string_view name) {
    const auto [at, is_new] = ids_.try_emplace(std::string(name), static_cast<NameId>(names_.size()));
    if (is_new) names_.emplace_back(name);
    return at->second;
  }
  const std::string& operator[](NameId id) const { return names_.at(id); }

  /// The phase of an operation tells apart what one group holds: an enumeration of whoever writes programs.
  template <class Phase>
  NameId intern(std::string_view name, Phase phase) {
    const NameId id = intern(name);
    if (phases_.size() <= id) phases_.resize(id + 1, 0);
    phases_[id] = static_cast<std::uint8_t>(phase);
    return id;
  }
  std::uint8_t phase(NameId id) const { return id < phases_.size() ? phases_[id] : 0; }

  GroupId group(std::string_view name, Role role, std::string_view detail = "") {
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (groups_[i].name == name) return static_cast<GroupId>(i);
    groups_.push_back({std::string(name), role, std::string(detail)});
    return static_cast<GroupId>(groups_.size() - 1);
  }
  const std::vector<Group>& groups() const { return groups_; }

 private:
  std::vector<std::string> names_;
  std::vector<std::uint8_t> phases_;  // by name; 0 beyond its end
  std::unordered_map<std::string, NameId> ids_;
  std::vector<Group> groups_;
};

}  // namespace trainyard
