#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainyard {

/// What takes so many seconds of a step.
struct NamedTime {
  std::string name;
  double time = 0;
};

using NumbersByName = std::map<std::string, double>;

/// A figure that one mechanism alone has: a number (as an optional it may be missing: null in the answer), a name, numbers
/// by name, or times in the order in which they come.
using MechanismFigure =
    std::variant<std::int64_t, double, std::string, std::optional<double>, NumbersByName, std::vector<NamedTime>>;
using FiguresByKey = std::map<std::string, MechanismFigure>;

/// The figure of that key, which must be there and of that type.
template <class V>
const V& figure(const FiguresByKey& all, const std::string& key) {
  return std::get<V>(all.at(key));
}

/// A key of the answer, as the mechanism that books it explains it.
struct MechanismFigureKind {
  const char* key;
  const char* words;
  MechanismFigure none;        ///< of its type
  const char* unit = "";       ///< of its numbers
  const char* when = "";       ///< when it is there, if not in every answer of the mechanism
  bool beside_others = false;  ///< stands beside the object that holds the mechanism's other figures
};

/// What a mechanism tells of a run besides what every run tells.
struct MechanismFigures {
  FiguresByKey servers;   ///< of parameter servers
  FiguresByKey replicas;  ///< of replicas of a whole model that go on without the newest gradients of all others
  /// Pushes of keys to servers, or delayed gradients of ranks, by how many updates they missed.
  std::map<std::uint32_t, std::uint64_t> staleness;
  double taught_share = 1;  ///< of samples: those whose gradients are not dropped
};

}  // namespace trainyard
