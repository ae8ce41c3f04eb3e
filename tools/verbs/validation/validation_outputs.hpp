#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard {

/// Where `validate` writes its sets.
struct ValidationOutputs {
  std::string json, html;
  bool points = false;  ///< every point in the JSON; the page has them anyway
  bool prints() const { return json != "-" && html != "-"; }
  /// `sets` with their points, in the words of `validate --json`.
  void write(const std::string& title, nlohmann::json sets) const;
};

}  // namespace trainyard
