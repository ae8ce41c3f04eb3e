#include "scenarios/studies/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/reading/measured_family.hpp"
#include "scenarios/studies/answer_key.hpp"
#include "scenarios/studies/failure_study.hpp"
#include "scenarios/studies/sweep_journal.hpp"
#include "sim/json_text.hpp"
#include "sim/process/child.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

/// A point as children write it: its figures, or {"error": ...}.
SweepPoint point_from_text(const std::string& text) {
  const json j = parse_json(text);
  if (j.contains("error")) return {true, j.at("error"), ""};
  return {true, "", text};
}

/// The points of a sweep as workers take them: what is read for one is there for the next.
class PointReader {
 public:
  explicit PointReader(const Sweep& sweep)
      : sweep_(sweep), document_(read_scenario_document(sweep.scenario)), name_(sweep.scenario.stem().string()) {}

  Scenario read(std::size_t point) const { return read_scenario(document_, name_, sweep_.point(point)); }

 private:
  const Sweep& sweep_;
  Node document_;
  std::string name_;
};

/// What a worker says of a point: its key in the journal, a line end, and its figures or error. One that cannot be read has
/// no key.
struct Told {
  std::string key, text;
};
Told told_in(const std::string& line) {
  const std::size_t end = line.find('\n');
  return {line.substr(0, end), line.substr(end + 1)};
}
std::string impossible(const UserError& e) { return json_text(json{{"error", e.what()}}); }

std::string told_of(const PointReader& reader, std::size_t point) {
  std::string key;
  try {
    Scenario s = reader.read(point);
    key = answer_key(s) + "\n";
    s.failures.find_best = false;  // no column shows it
    return key + column_figures(simulate_training(s));
  } catch (const UserError& e) {  // such as a deadlock, found only in the run: this point is impossible, not the sweep
    return (key.empty() ? "\n" : key) + impossible(e);
  }
}

/// From the journal, if it has the point whole.
bool take_from(const Journal& journal, const std::string& key, SweepPoint& point) {
  const std::string* rest = key.empty() ? nullptr : journal.find(sweep_line_key(key));
  if (!rest) return false;
  try {
    point = sweep_point_in(parse_ordered_json("{" + *rest));
    point.key = key;
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

/// Of those of `open` that the journal has their answers; what is left is to be simulated.
std::vector<std::size_t> take_known(const PointReader& reader, const Journal& journal,
                                    const std::vector<std::size_t>& open, std::vector<SweepPoint>& points) {
  if (journal.empty()) return open;
  const auto key_of = [&](std::size_t k) -> std::string {
    try {
      return answer_key(reader.read(open[k]));
    } catch (const UserError&) {  // said again where it would be simulated
      return "";
    }
  };
  const std::vector<std::string> keys = in_workers(open.size(), processors(), key_of);
  std::vector<std::size_t> left;
  for (std::size_t k = 0; k < open.size() && !interrupted(); ++k)
    if (!take_from(journal, keys[k], points[open[k]])) left.push_back(open[k]);
  return left;
}

}  // namespace

std::vector<SweepPoint> run_sweep(const Sweep& sweep, const SweepOptions& options) {
  const std::size_t count = sweep.points();
  const PointReader reader(sweep);
  Journal journal(options.journal);
  std::vector<SweepPoint> points(count);
  std::vector<std::size_t> mine;
  for (std::size_t i = 0; i < count; ++i)
    if (options.shard.has(i)) mine.push_back(i);
  const std::vector<std::size_t> open = take_known(reader, journal, mine, points);
  std::size_t done = mine.size() - open.size();
  const auto note = [&](std::size_t k, const std::string& line) {
    const Told told = told_in(line);
    SweepPoint& point = points[open[k]];
    point = point_from_text(told.text);
    point.key = told.key;
    const std::string whole = sweep_line(sweep, open[k], point);
    const std::size_t space = whole.find(' ');  // behind the key, which the journal goes by
    if (!told.key.empty()) journal.add(whole.substr(0, space), whole.substr(space + 1));
    if (options.progress) options.progress(++done, mine.size());
  };
  in_workers(
      open.size(), processors(), [&](std::size_t k) { return told_of(reader, open[k]); }, note);
  if (options.shard.of == 1 &&
      std::all_of(points.begin(), points.end(), [](const SweepPoint& p) { return !p.error.empty(); }))
    throw UserError(count == 1
                        ? points.front().error
                        : fmt::format("all {} points are impossible; the first: {}", count, points.front().error));
  return points;
}

}  // namespace trainyard
