#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainyard {

/// A stage of a step and its time.
struct NamedTime {
  std::string name;
  double time = 0;  ///< seconds
};

using NumbersByName = std::map<std::string, double>;

/// A figure of one mechanism: a number (an optional without a value is null in the answer), a name, numbers by name, or
/// times in their order.
using MechanismFigure =
    std::variant<std::int64_t, double, std::string, std::optional<double>, NumbersByName, std::vector<NamedTime>>;
using FiguresByKey = std::map<std::string, MechanismFigure>;

/// The figure under `key`. It must be present and have the type V.
template <class V>
const V& figure(const FiguresByKey& all, const std::string& key) {
  return std::get<V>(all.at(key));
}

/// A key of the answer, with the description of the mechanism that books it.
struct MechanismFigureKind {
  const char* key;
  const char* words;           ///< description for `help json`
  MechanismFigure none;        ///< an empty figure of the same type
  const char* unit = "";       ///< unit of its numbers
  const char* when = "";       ///< when an answer has it; "": the answer has it whenever it has the mechanism's figures
  bool beside_others = false;  ///< is written next to the object that holds the mechanism's other figures
};

/// The figures that a mechanism adds to those of every run.
struct MechanismFigures {
  FiguresByKey servers;   ///< figures of parameter servers
  FiguresByKey replicas;  ///< figures of replicas that continue without the newest gradients of all others
  /// Number of pushes of keys to servers, or of delayed gradients of ranks, by the number of updates that they missed.
  std::map<std::uint32_t, std::uint64_t> staleness;
  double taught_share = 1;  ///< share of the samples whose gradients are not dropped
};

}  // namespace trainyard
