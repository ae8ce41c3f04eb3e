#include "scenarios/src/answer/learn_result.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/json_text.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, double LearnPoint::*> kPoint[] = {{"time_s", &LearnPoint::time},
                                                                   {"steps", &LearnPoint::steps},
                                                                   {"samples", &LearnPoint::samples},
                                                                   {"bytes", &LearnPoint::bytes},
                                                                   {"training_loss", &LearnPoint::training_loss},
                                                                   {"loss", &LearnPoint::loss},
                                                                   {"accuracy", &LearnPoint::accuracy},
                                                                   {"noise_scale_samples", &LearnPoint::noise_scale},
                                                                   {"replicas_apart", &LearnPoint::replica_distance},
                                                                   {"replicas_loss", &LearnPoint::replicas_loss}};

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
double number(const Json& j) { return j.is_null() ? std::numeric_limits<double>::quiet_NaN() : j.get<double>(); }

LearnPoint point_of(const Json& j) {
  LearnPoint p;
  for (const auto& [key, member] : kPoint) p.*member = number(j.at(key));
  if (j.contains("positions")) p.positions = j["positions"].get<std::vector<double>>();
  return p;
}

Json update_json(const LearnedUpdate& u) {
  return {u.time, u.gradient, u.actor, u.worker, u.actor_name, u.version, u.staleness, number(u.loss), u.lambda};
}

LearnedUpdate update_of(const Json& j) { return {j[0], j[1], j[2], j[3], j[4], j[5], j[6], number(j[7]), j[8]}; }

}  // namespace

const LearnPoint& LearnResult::best() const {
  return *std::min_element(points.begin(), points.end(),
                           [](const LearnPoint& a, const LearnPoint& b) { return a.loss < b.loss; });
}

const LearnPoint& LearnResult::farthest() const {
  return *std::max_element(points.begin(), points.end(), [](const LearnPoint& a, const LearnPoint& b) {
    return a.replica_distance < b.replica_distance;
  });
}

Json learn_point_json(const LearnPoint& p) {
  Json j;
  for (const auto& [key, member] : kPoint) j[key] = number(p.*member);
  if (!p.positions.empty()) j["positions"] = p.positions;
  return j;
}

std::string to_text(const LearnResult& r) {
  Json points = Json::array(), first = Json::array();
  for (const LearnPoint& p : r.points) points.push_back(learn_point_json(p));
  for (const LearnedUpdate& u : r.first) first.push_back(update_json(u));
  return json_text(
      Json{{"points", points},
           {"reached", r.reached ? learn_point_json(*r.reached) : Json(nullptr)},
           {"ended", r.ended},
           {"diverged_at", r.diverged_at},
           {"diverged_loss", number(r.diverged_loss)},
           {"task", r.task},
           {"mechanism", r.mechanism},
           {"counts", {r.ranks, r.parameters, r.updates, r.mean_staleness, r.worst_staleness, r.mean_lambda, r.merges}},
           {"first", first}});
}

LearnResult learn_result_from_text(const std::string& text) {
  const Json j = parse_ordered_json(text);
  LearnResult r;
  for (const Json& p : j["points"]) r.points.push_back(point_of(p));
  for (const Json& u : j["first"]) r.first.push_back(update_of(u));
  if (!j["reached"].is_null()) r.reached = point_of(j["reached"]);
  r.ended = j["ended"];
  r.diverged_at = j["diverged_at"];
  r.diverged_loss = j["diverged_loss"].is_null() ? HUGE_VAL : j["diverged_loss"].get<double>();
  r.task = j["task"];
  r.mechanism = j["mechanism"];
  const Json& counts = j["counts"];
  r.ranks = counts[0];
  r.parameters = counts[1];
  r.updates = counts[2];
  r.mean_staleness = counts[3];
  r.worst_staleness = counts[4];
  r.mean_lambda = counts[5];
  r.merges = counts[6];
  return r;
}

}  // namespace trainyard
