#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// A condition on a figure: `{figure: step_time_s, at_most: 1.1 s}`. The relations are at_most, at_least, above, below
/// and equals. The limit is a quantity with its unit, a number, a percentage, a text (equals only) or another
/// expression. `above` and `below` demand a distance from the limit (`by`, 5 % by default), because a smaller
/// difference is no contrast. `equals` takes a tolerance (`within`, 1e-9 of the limit by default).
struct Criterion {
  std::string figure, relation, limit;
  std::string distance;  ///< least distance (above, below) or tolerance (equals); empty: the default
  std::string words;     ///< the condition for people; empty: it is made from the figure and its limit
  Place place;
};
Criterion read_criterion(const Node&);

struct Verdict {
  bool holds = false;
  std::string text;  ///< "step_time_s: 1.21 s; wanted at most 1.10 s"
};
/// Throws MissingFigure if the answer lacks the figure or a figure of the limit.
Verdict judge(const Criterion&, const nlohmann::ordered_json& answer);

/// A sentence with {figures}, and the criteria that make it true.
struct Claim {
  std::string text;
  std::vector<Criterion> holds;
  Place place;
};
/// Reads {text, holds}.
Claim read_claim(const Node&, const std::string& what);
/// Reads a list of claims; none if the key is absent. `what` names an item in errors.
std::vector<Claim> read_claims(Fields&, const char* key, const std::string& what);

/// A claim with its figures filled in.
struct JudgedClaim {
  std::string text;
  std::vector<Verdict> verdicts;

  bool holds() const;
};
/// Throws MissingFigure if the answer lacks a figure of the sentence or of its criteria.
JudgedClaim judge(const Claim&, const nlohmann::ordered_json& answer);

}  // namespace trainyard
