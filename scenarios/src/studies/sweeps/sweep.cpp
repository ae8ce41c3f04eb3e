#include "scenarios/src/studies/sweeps/sweep.hpp"

#include <fmt/format.h>

#include <new>
#include <nlohmann/json.hpp>

#include "models/fitted/measured_family.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/sweeps/sweep_journal.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

constexpr std::size_t kPointsAtATime = 10000;

/// Reads the points of a sweep for one worker. Parts that points share are read once.
class PointReader {
 public:
  explicit PointReader(const Sweep& sweep)
      : sweep_(sweep), document_(sweep.read_document()), name_(sweep.scenario.stem().string()) {}

  Scenario read(std::size_t point) const { return read_scenario(document_, name_, sweep_.point(point)); }

 private:
  const Sweep& sweep_;
  Node document_;
  std::string name_;
};

void simulate_point(const PointReader& reader, std::size_t point, SweepPoint& simulated) {
  Scenario s = reader.read(point);
  simulated.key = answer_key(s);
  s.failures.find_best = false;  // no column shows the best interval
  simulated.figures = column_figures(answer(s).result);
}

/// Takes a point from the journal. Returns false if the journal does not have the complete point.
bool take_from(const Journal& journal, const std::string& key, SweepPoint& point) {
  if (key.empty()) return false;
  const std::optional<std::string> rest = journal.find(sweep_line_key(key));
  if (!rest) return false;
  try {
    point = sweep_point_in(parse_ordered_json("{" + *rest));
    point.key = key;
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

/// Takes the points of `indices` that the journal has. Returns the positions in `indices` of the points to simulate.
std::vector<std::size_t> take_known(const PointReader& reader, const Journal& journal,
                                    const std::vector<std::size_t>& indices, std::vector<SweepPoint>& points) {
  std::vector<std::string> keys(indices.size());
  const auto key_of = [&](std::size_t k) -> std::string {
    try {
      return answer_key(reader.read(indices[k]));
    } catch (const UserError&) {  // the simulation reports this error
      return "";
    }
  };
  if (!journal.empty()) {
    const auto found_keys = in_parallel(indices.size(), processors(), key_of);
    for (std::size_t k = 0; k < indices.size(); ++k) keys[k] = found_keys[k].value_or("");
  }
  std::vector<std::size_t> remaining;
  for (std::size_t k = 0; k < indices.size() && !is_interrupted(); ++k)
    if (!take_from(journal, keys[k], points[k])) remaining.push_back(k);
  return remaining;
}

/// Runs the points of a shard, a limited number at a time.
class SweepRunner {
 public:
  SweepRunner(const Sweep& sweep, const SweepOptions& options)
      : sweep_(sweep), options_(options), reader_(sweep), journal_(options.journal), count_(sweep.points()) {}

  void run(const TakePoint& take) {
    const StudyShard& shard = options_.shard;
    shard_points_ = (count_ + shard.count - shard.index) / shard.count;
    bool possible = false;
    std::string first_error;
    for (std::size_t next = shard.index - 1; next < count_ && !is_interrupted();) {
      std::vector<std::size_t> indices;
      for (; next < count_ && indices.size() < kPointsAtATime; next += shard.count) indices.push_back(next);
      std::vector<SweepPoint> points = simulated(indices);
      for (std::size_t k = 0; k < indices.size(); ++k) {
        possible = possible || points[k].error.empty();
        if (!possible && first_error.empty()) first_error = points[k].error;
        take(indices[k], std::move(points[k]));
      }
    }
    if (!possible && shard.is_whole() && !is_interrupted())
      throw UserError(count_ == 1 ? first_error
                                  : fmt::format("all {} points are impossible; the first: {}", count_, first_error));
  }

 private:
  const Sweep& sweep_;
  const SweepOptions& options_;
  PointReader reader_;
  Journal journal_;
  std::size_t count_, shard_points_ = 0, done_ = 0;

  std::vector<SweepPoint> simulated(const std::vector<std::size_t>& indices) {
    std::vector<SweepPoint> points(indices.size());
    const std::vector<std::size_t> open = take_known(reader_, journal_, indices, points);
    done_ += indices.size() - open.size();
    in_parallel(
        open.size(), processors(),
        [&](std::size_t k) {
          return simulated_point([&](SweepPoint& point) { simulate_point(reader_, indices[open[k]], point); });
        },
        [&](std::size_t k, const SweepPoint& point) {
          points[open[k]] = point;
          const std::string line = sweep_line(sweep_, indices[open[k]], point);
          const std::size_t space = line.find(' ');  // the end of the key, by which the journal finds the line
          if (!point.key.empty()) journal_.add(line.substr(0, space), line.substr(space + 1));
          if (options_.progress) options_.progress(++done_, shard_points_);
        });
    return points;
  }
};

}  // namespace

SweepPoint simulated_point(const std::function<void(SweepPoint&)>& simulate) {
  SweepPoint point;
  point.done = true;
  try {
    simulate(point);
  } catch (const UserError& e) {  // such as a deadlock in the run
    point.error = e.what();
  } catch (const InternalError& e) {
    point = {true, fmt::format("a fault of the program: {}", e.what()), ""};
  } catch (const std::bad_alloc&) {
    point = {true, "not enough memory for this point beside the others that run at the same time", ""};
  }
  return point;
}

Node Sweep::read_document() const { return document ? *document : read_scenario_document(scenario); }

void stream_sweep(const Sweep& sweep, const SweepOptions& options, const TakePoint& take) {
  SweepRunner(sweep, options).run(take);
}

std::vector<SweepPoint> run_sweep(const Sweep& sweep, const SweepOptions& options) {
  std::vector<SweepPoint> points(sweep.points());
  stream_sweep(sweep, options, [&](std::size_t index, SweepPoint&& point) { points[index] = std::move(point); });
  return points;
}

}  // namespace trainyard
