#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "sim/json_text.hpp"

namespace trainyard {

using nlohmann::json;
using nlohmann::ordered_json;

json to_json(const Result& result) { return result_fields().json(result); }

Result result_from_json(const json& j) {
  Result result;
  result_fields().read(j, result);
  return result;
}

std::string to_text(const Result& result) { return json_text(to_json(result)); }
Result result_from_text(const std::string& text) { return result_from_json(parse_json(text)); }

json answer_json(Answer answer, bool timing) {
  if (!timing) answer.result.wall_s = 0;
  for (WhatIf& w : answer.what_ifs) w.saves_share = w.saves(answer.result.step_time);
  return answer_fields().json(answer);
}

}  // namespace trainyard
