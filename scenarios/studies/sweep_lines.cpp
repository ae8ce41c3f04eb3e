// Points of sweeps as JSON Lines, and shards put together again.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/reading/program_version.hpp"
#include "scenarios/studies/sweep.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// All that a shard shares with the others.
ordered_json study_of(const Sweep& sweep) {
  ordered_json axes = ordered_json::array();
  for (const SweepAxis& axis : sweep.axes)
    axes.push_back({{"path", axis.path}, {"values", axis.values}, {"with_previous", axis.with_previous}});
  return {{"version", program_version()},
          {"scenario", sweep.scenario.string()},
          {"axes", axes},
          {"where", sweep.where},
          {"points", sweep.points()}};
}

Sweep sweep_in(const ordered_json& study) {
  Sweep sweep{study.at("scenario").get<std::string>(), {}, study.at("where")};
  for (const ordered_json& axis : study.at("axes"))
    sweep.axes.push_back({axis.at("path"), axis.at("values"), axis.at("with_previous")});
  sweep.keep_where();
  return sweep;
}

/// The lines of a file that is finished: the first one is the study.
std::vector<ordered_json> lines_of_shard(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw UserError(fmt::format("cannot read {}", file));
  std::vector<ordered_json> lines;
  for (std::string line; std::getline(in, line);) {
    try {
      lines.push_back(parse_ordered_json(line));
    } catch (const nlohmann::json::exception&) {
      throw UserError(fmt::format("{}:{}: no line of JSON", file, lines.size() + 1));
    }
  }
  if (lines.empty() || !lines.front().contains("study"))
    throw UserError(fmt::format("{}: not the points of a finished sweep; run its command again to finish it", file));
  return lines;
}

}  // namespace

std::string sweep_line_key(const std::string& key) { return fmt::format("{{\"key\":\"{}\",", key); }

std::string sweep_line(const Sweep& sweep, std::size_t index, const SweepPoint& point) {
  ordered_json line{{"point", index}, {"set", ordered_json::object()}};
  for (const auto& [path, value] : sweep.point(index)) line["set"][path] = value;
  line["scenario"] = sweep.scenario.string();
  line["version"] = program_version();
  if (point.error.empty())
    line["figures"] = parse_ordered_json(point.figures);
  else
    line["error"] = point.error;
  return sweep_line_key(point.key) + " " + json_text(line).substr(1);
}

SweepPoint sweep_point_in(const ordered_json& line) {
  SweepPoint point{true, "", ""};
  if (line.contains("error"))
    point.error = line.at("error");
  else
    point.figures = json_text(line.at("figures"));
  if (line.contains("key")) point.key = line.at("key");
  return point;
}

std::string sweep_lines(const Sweep& sweep, const std::vector<SweepPoint>& points, const SweepShard& shard) {
  std::string text = json_text(ordered_json{{"study", study_of(sweep)}, {"shard", {shard.index, shard.of}}}) + "\n";
  for (std::size_t i = 0; i < points.size(); ++i)
    if (shard.has(i)) text += sweep_line(sweep, i, points[i]) + "\n";
  return text;
}

MergedSweep merge_sweeps(const std::vector<std::string>& files) {
  MergedSweep merged;
  ordered_json study;
  for (const std::string& file : files) {
    const std::vector<ordered_json> lines = lines_of_shard(file);
    try {
      if (study.is_null()) {
        study = lines.front().at("study");
        merged.sweep = sweep_in(study);
        merged.points.resize(merged.sweep.points());
      }
      if (lines.front().at("study") != study)
        throw UserError(fmt::format("{}: of another study than {}, or by another version", file, files.front()));
      for (std::size_t i = 1; i < lines.size(); ++i)
        merged.points.at(lines[i].at("point").get<std::size_t>()) = sweep_point_in(lines[i]);
    } catch (const nlohmann::json::exception& e) {
      throw UserError(fmt::format("{}: not the points of a sweep ({})", file, e.what()));
    } catch (const std::out_of_range&) {
      throw UserError(fmt::format("{}: a point that the study has not", file));
    }
  }
  std::size_t missing = 0;
  for (const SweepPoint& point : merged.points) missing += point.done ? 0 : 1;
  if (missing > 0)
    throw UserError(fmt::format("{} of {} points are in none of the {} files; name those of all shards", missing,
                                merged.points.size(), files.size()));
  return merged;
}

}  // namespace trainyard
