// Writes points of sweeps as JSON Lines, and merges shards.
#include "scenarios/src/studies/sweeps/sweep_lines.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "models/reading/program_version.hpp"
#include "scenarios/src/studies/sweeps/sweep_journal.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"

namespace trainyard {

StreamedSweep::StreamedSweep(const Sweep& sweep, const StudyShard& shard, const std::filesystem::path& points,
                             std::filesystem::path csv)
    : sweep_(sweep),
      keep_(!points.empty()),
      csv_(std::move(csv)),
      lines_(keep_ ? points : std::filesystem::path(csv_.string() + ".points")),
      table_(sweep) {
  lines_.add(sweep_head_line(sweep, shard));
}

void StreamedSweep::take(std::size_t index, const SweepPoint& point) {
  whole_ = whole_ && point.done;
  if (!whole_) return;
  ++points_;
  if (!point.error.empty() && impossible_++ == 0) first_error_ = point.error;
  if (!csv_.empty()) table_.note(point);
  lines_.add(seal_line(sweep_line(sweep_, index, point)) + "\n");
}

void StreamedSweep::finish() {
  if (!csv_.empty()) write_table();
  if (keep_) lines_.commit();
}

/// Writes the table. Its columns are known only after the last point, so rows are made from the written lines.
void StreamedSweep::write_table() {
  AtomicOutput table(csv_);
  table.add(table_.head());
  std::ifstream in(lines_.flush());
  std::string text;
  std::getline(in, text);  // skip the study's line
  while (std::getline(in, text)) {
    const nlohmann::ordered_json line = parse_ordered_json(text);
    table.add(table_.row(line.at("point"), sweep_point_in(line)));
  }
  table.commit();
}

std::string StreamedSweep::impossible() const {
  if (impossible_ == 0) return "";
  return fmt::format("{} of {} {} impossible; the first: {}", impossible_,
                     counted_noun(static_cast<std::int64_t>(points_), "point"), impossible_ == 1 ? "is" : "are",
                     first_error_);
}

namespace {

using nlohmann::ordered_json;

/// Returns the description of the study, which all shards share.
ordered_json study_of(const Sweep& sweep) {
  ordered_json axes = ordered_json::array();
  for (const SweepAxis& axis : sweep.axes)
    axes.push_back({{"path", axis.path}, {"values", axis.values}, {"with_previous", axis.with_previous}});
  return {{"version", program_version()},
          {"scenario", sweep.scenario.string()},
          {"axes", axes},
          {"where", sweep.conditions},
          {"points", sweep.points()}};
}

Sweep sweep_in(const ordered_json& study) {
  Sweep sweep{study.at("scenario").get<std::string>(), {}, study.at("where")};
  for (const ordered_json& axis : study.at("axes"))
    sweep.axes.push_back({axis.at("path"), axis.at("values"), axis.at("with_previous")});
  sweep.keep_where();
  return sweep;
}

/// Reads a finished file of points line by line. The first line is the study.
class ShardFile {
 public:
  explicit ShardFile(const std::string& file) : file_(file), in_(file) {
    if (!in_ || std::filesystem::is_directory(file)) throw UserError(unreadable(file));
    const std::optional<ordered_json> head = next();
    if (!head) throw UserError(fmt::format("{}:1: empty; expected the points of a sweep, which --points writes", file));
    if (!head->contains("study"))
      throw UserError(fmt::format("{}: not the points of a finished sweep; run its command again to finish it", file));
    head_ = *head;
  }

  /// Returns the next line; no value: the end. Throws UserError if a line is no JSON or was changed.
  std::optional<ordered_json> next() {
    std::string line;
    if (!std::getline(in_, line)) return std::nullopt;
    ++line_number_;
    if (in_.eof())
      throw UserError(
          fmt::format("{}:{}: the line is cut off; run its command again to finish it", file_, line_number_));
    try {
      return parse_ordered_json(unseal_line(line, file_, line_number_));
    } catch (const nlohmann::json::exception&) {
      throw UserError(fmt::format("{}:{}: no line of JSON", file_, line_number_));
    }
  }
  const std::string& name() const { return file_; }
  const ordered_json& study() const { return head_.at("study"); }
  StudyShard shard() const { return {head_.at("shard").at(0), head_.at("shard").at(1)}; }

 private:
  std::string file_;
  std::ifstream in_;
  std::size_t line_number_ = 0;
  ordered_json head_;
};

[[noreturn]] void refuse_file(const std::string& file, const nlohmann::json::exception& e) {
  throw UserError(fmt::format("{}: not the points of a sweep ({})", file, e.what()));
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

std::string sweep_head_line(const Sweep& sweep, const StudyShard& shard) {
  return seal_line(json_text(ordered_json{{"study", study_of(sweep)}, {"shard", {shard.index, shard.count}}})) + "\n";
}

std::string sweep_lines(const Sweep& sweep, const std::vector<SweepPoint>& points, const StudyShard& shard) {
  std::string text = sweep_head_line(sweep, shard);
  for (std::size_t i = 0; i < points.size(); ++i)
    if (shard.has(i)) text += seal_line(sweep_line(sweep, i, points[i])) + "\n";
  return text;
}

MergedSweep merge_sweeps(const std::vector<std::string>& files) {
  MergedSweep merged;
  ordered_json study;
  bool keeps_points = false;
  for (const std::string& name : files) {
    ShardFile file(name);
    try {
      if (study.is_null()) {
        study = file.study();
        merged.sweep = sweep_in(study);
        keeps_points = merged.sweep.points() <= kMostKeptPoints;
        if (keeps_points) merged.points.resize(merged.sweep.points());
      }
      if (file.study() != study)
        throw UserError(fmt::format("{}: of another study than {}, or by another version", name, files.front()));
      while (const std::optional<ordered_json> line = keeps_points ? file.next() : std::nullopt)
        merged.points.at(line->at("point").get<std::size_t>()) = sweep_point_in(*line);
    } catch (const nlohmann::json::exception& e) {
      refuse_file(name, e);
    } catch (const std::out_of_range&) {
      throw UserError(fmt::format("{}: a point that is not in the study", name));
    }
  }
  std::size_t missing = 0;
  for (const SweepPoint& point : merged.points) missing += point.done ? 0 : 1;
  if (missing > 0)
    throw UserError(fmt::format("{} of {} points {} in none of the {}; name those of all shards", missing,
                                merged.points.size(), missing == 1 ? "is" : "are",
                                counted_noun(static_cast<std::int64_t>(files.size()), "file")));
  return merged;
}

void stream_merged(const Sweep& sweep, const std::vector<std::string>& files, const TakePoint& take) {
  std::vector<std::unique_ptr<ShardFile>> shards(files.size());  // sorted by shard number
  for (const std::string& name : files) {
    auto file = std::make_unique<ShardFile>(name);
    const StudyShard shard = file->shard();
    if (shard.count != files.size() || shard.index > shards.size() || shards[shard.index - 1])
      throw UserError(fmt::format("{}: shard {} of {}, but {} files are given; give the file of each shard once", name,
                                  shard.index, shard.count, files.size()));
    shards[shard.index - 1] = std::move(file);
  }
  const std::size_t count = sweep.points();
  for (std::size_t point = 0; point < count; ++point) {
    ShardFile& file = *shards[point % shards.size()];
    try {
      const std::optional<ordered_json> line = file.next();
      if (!line || line->at("point").get<std::size_t>() != point)
        throw UserError(fmt::format("{}: point {} is missing or out of order", file.name(), point));
      take(point, sweep_point_in(*line));
    } catch (const nlohmann::json::exception& e) {
      refuse_file(file.name(), e);
    }
  }
}

}  // namespace trainyard
