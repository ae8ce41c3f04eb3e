#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/op.hpp"

namespace trainyard {

/// Part of the step time to which the time of a group counts.
enum class Role : std::uint8_t {
  work,            ///< computing; if two groups overlap, the one that was added first counts
  collective,      ///< communication; time spent waiting inside it counts as communication too
  point_to_point,  ///< a message that a peer must produce first; time spent waiting for it is a bubble
  prefetch,        ///< data fetched ahead; its time counts only while nothing else runs
};

struct Group {
  std::string name;
  Role role = Role::work;
  std::string detail;  ///< the algorithm, for communication
};

/// The names of a simulation. Operations carry numbers; reports print the names.
class Names {
 public:
  Names() { intern(""); }

  NameId intern(std::string_view name) {
    const auto [entry, is_new] = ids_.try_emplace(std::string(name), static_cast<NameId>(names_.size()));
    if (is_new) names_.emplace_back(name);
    return entry->second;
  }
  const std::string& operator[](NameId id) const { return names_.at(id); }

  /// Also stores the phase of operations with this name, which distinguishes them within a group. `Phase` is an
  /// enumeration defined by the writer of the programs.
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
  std::vector<std::uint8_t> phases_;  // indexed by NameId; names beyond its end have phase 0
  std::unordered_map<std::string, NameId> ids_;
  std::vector<Group> groups_;
};

}  // namespace trainyard
