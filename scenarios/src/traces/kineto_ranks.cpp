// Makes the programs of all ranks from the profiler's traces of some ranks.
#include "scenarios/src/traces/kineto_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "models/reading/pattern.hpp"
#include "scenarios/src/traces/kineto_events.hpp"
#include "sim/error.hpp"
#include "sim/index.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

constexpr double kMostTraceNodes = 4e6;

std::vector<KinetoEvents> read_recordings(const fs::path& path) {
  std::vector<fs::path> files{path};
  if (fs::is_directory(path)) {
    files.clear();
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.is_regular_file() && is_kineto(entry.path())) files.push_back(entry.path());
    std::ranges::sort(files);
    if (files.empty())
      throw UserError(fmt::format("{}: no traces in this folder; .json, .json.gz or .sqlite expected", path.string()));
  }
  static const Pattern rank_in_name("rank[-_]?([0-9]{1,8})");
  std::vector<KinetoEvents> recordings;
  for (const fs::path& file : files) {
    KinetoEvents& events = recordings.emplace_back(read_kineto_events(file));
    const Pattern::Groups match = rank_in_name.find(file.filename().string());
    if (!events.rank && !match.empty()) events.rank = std::stoi(match[1]);
    if (!events.rank && files.size() == 1) events.rank = 0;
    if (!events.rank)
      throw UserError(fmt::format("{}: of which rank? distributedInfo.rank, or a name such as rank-3.json expected",
                                  file.string()));
  }
  sort_stably(recordings, [](const auto& a, const auto& b) { return *a.rank < *b.rank; });
  for (std::size_t i = 1; i < recordings.size(); ++i)
    if (recordings[i].rank == recordings[i - 1].rank)
      throw UserError(fmt::format("{} and {}: both are traces of rank {}", recordings[i - 1].file, recordings[i].file,
                                  *recordings[i].rank));
  return recordings;
}

/// Returns the number of the step to replay. No value: the traces mark no steps.
std::optional<int> chosen_step(const std::vector<KinetoEvents>& recordings, const std::optional<int>& wanted) {
  if (std::ranges::all_of(recordings, [](const auto& events) { return events.steps.empty(); })) {
    if (wanted)
      throw UserError(fmt::format("{}: no ProfilerStep is in it; --step cannot choose", recordings.front().file));
    return std::nullopt;
  }
  std::size_t most = 0;
  std::vector<KinetoEvents::Step> steps;  // the first rank's
  std::vector<int> numbers;
  for (const auto& [number, step] : recordings.front().steps) {
    if (!std::ranges::all_of(recordings, [&](const auto& e) { return e.steps.contains(number); })) continue;
    steps.push_back(step);
    numbers.push_back(number);
    most = std::max(most, step.works);
  }
  if (wanted && std::ranges::find(numbers, *wanted) != numbers.end()) return wanted;
  if (wanted || steps.empty())
    throw UserError(fmt::format("{}: {}; steps that all traces have: {}", recordings.front().file,
                                wanted ? fmt::format("no ProfilerStep#{}", *wanted) : "no ProfilerStep in common",
                                numbers.empty() ? "none" : fmt::format("{}", fmt::join(numbers, ", "))));
  std::erase_if(steps, [most](const auto& step) { return 2 * step.works < most; });
  sort_stably(steps, [](const auto& a, const auto& b) { return a.end - a.begin < b.end - b.begin; });
  return steps[(steps.size() - 1) / 2].number;
}

/// Returns the mean time of a trace's steps, s. A step with less than half of the most kernels does not count. 0: the
/// trace marks none.
double mean_step_time(const KinetoEvents& events) {
  std::size_t most = 0, count = 0;
  for (const auto& [number, step] : events.steps) most = std::max(most, step.works);
  double sum = 0;
  for (const auto& [number, step] : events.steps)
    if (2 * step.works >= most) {
      sum += step.end - step.begin;
      ++count;
    }
  return count == 0 ? 0 : sum * 1e-6 / static_cast<double>(count);
}

/// A set of ranks at equal distances, such as a tensor, data or pipeline group, and its copies. Each rank is in one of
/// these sets.
class RankGrid {
 public:
  /// Throws UserError if the ranks are no grid whose copies divide all ranks.
  RankGrid(std::vector<int> members, const std::string& where) {
    std::ranges::sort(members);
    std::vector<int> rest = members;
    while (rest.size() > 1) {
      const int stride = rest[1] - rest[0];
      std::size_t count = 1;
      while (count < rest.size() && rest[count] == rest[0] + stride * static_cast<int>(count)) ++count;
      axes_.emplace_back(stride, static_cast<int>(count));
      std::vector<int> next;
      for (std::size_t i = 0; i < rest.size(); i += count) next.push_back(rest[i]);
      rest = std::move(next);
    }
    bool fits = true;
    for (std::size_t a = 1; a < axes_.size(); ++a)
      fits = fits && axes_[a].first % (axes_[a - 1].first * axes_[a - 1].second) == 0;
    if (!fits || ranks(members.front()) != members)
      throw UserError(
          fmt::format("{}: ranks {} are at no equal distances, so the groups of other ranks do not follow; the traces "
                      "of all ranks expected",
                      where, fmt::join(members, ", ")));
  }

  /// Returns the set of a rank.
  std::vector<int> ranks(int rank) const {
    std::vector<int> all{rank};
    for (const auto& [stride, count] : axes_) all.front() -= rank / stride % count * stride;
    for (const auto& [stride, count] : axes_) {
      std::vector<int> more;
      for (int k = 0; k < count; ++k)
        for (const int first : all) more.push_back(first + k * stride);
      all = std::move(more);
    }
    std::ranges::sort(all);
    return all;
  }
  /// Returns true if the first set ends at the last of so many ranks, counting the ranks between its own.
  bool reaches(int ranks) const { return !axes_.empty() && axes_.back().first * axes_.back().second == ranks; }
  /// Returns the position of a rank in its set.
  int position(int rank) const {
    int position = 0, size = 1;
    for (const auto& [stride, count] : axes_) {
      position += rank / stride % count * size;
      size *= count;
    }
    return position;
  }

 private:
  std::vector<std::pair<int, int>> axes_;  // strides and counts
};

/// Makes nodes of all ranks.
class RankWriter {
 public:
  RankWriter(const std::vector<KinetoEvents>& recordings, const KinetoOptions& options, int gpus)
      : recordings_(recordings), options_(options), gpus_(gpus) {}

  KinetoStep write() {
    const std::optional<int> number = chosen_step(recordings_, options_.step);
    const std::size_t several = recordings_.front().steps.size();
    if (number)
      result_.step = fmt::format("ProfilerStep#{}{}", *number, several > 1 ? fmt::format(", one of {}", several) : "");
    for (const KinetoEvents& events : recordings_) {
      steps_.push_back(record_step(events, number ? &events.steps.at(*number) : nullptr, options_.keeps_undescribed));
      result_.recorded = std::max(result_.recorded, steps_.back().time);
      result_.mean_step = std::max(result_.mean_step, mean_step_time(events));
      for (const std::string& note : steps_.back().notes)
        if (std::ranges::find(result_.notes, note) == result_.notes.end()) result_.notes.push_back(note);
    }
    const auto has_host = [](const RecordedStep& step) {
      return std::ranges::any_of(step.nodes, [](const ChakraNode& node) { return node.on_host == 1; });
    };
    if (!number)
      result_.notes.push_back(std::string("no ProfilerStep marks a step, so the whole trace is replayed") +
                              (std::ranges::any_of(steps_, has_host)
                                   ? ": the host's time includes what it did before, between and after steps"
                                   : ""));
    count_ranks();
    for (std::size_t i = 0; i < steps_.size(); ++i)
      for (RecordedGroup& group : steps_[i].groups) {
        find_members(i, group);
        if (ranks_ > recorded_ranks_) grow(i, group);
      }
    if (ranks_ > recorded_ranks_)
      result_.notes.push_back(fmt::format(
          "{} ranks for the {} of the trace: {}", ranks_, recorded_ranks_,
          grown_.empty()
              ? "no group grows"
              : fmt::format("{} times as many in group {}", ranks_ / recorded_ranks_, fmt::join(grown_, ", "))));
    if (steps_.size() < static_cast<std::size_t>(ranks_)) find_grids();
    double nodes = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::size_t source = source_of(rank);
      nodes += static_cast<double>(steps_[source].nodes.size());
      if (nodes > kMostTraceNodes)
        throw UserError(
            fmt::format("{}: more than {:.0f} million nodes on {} ranks; a shorter step or fewer ranks expected",
                        recordings_[source].file, kMostTraceNodes * 1e-6, ranks_));
      write_rank(rank, source);
    }
    return std::move(result_);
  }

 private:
  const std::vector<KinetoEvents>& recordings_;
  const KinetoOptions& options_;
  int gpus_, ranks_ = 0, recorded_ranks_ = 0;
  std::set<std::string> grown_;               // names of groups that have more ranks than in the trace
  std::vector<RecordedStep> steps_;           // one for each recording
  std::vector<std::vector<RankGrid>> grids_;  // for each recording and group; empty: all ranks have traces
  std::vector<RankGrid> pipelines_;           // groups with messages
  KinetoStep result_;
  std::map<std::pair<std::vector<int>, std::size_t>, std::string> names_;

  void count_ranks() {
    const KinetoEvents& first = recordings_.front();
    const bool is_alone = std::ranges::all_of(steps_, [](const auto& step) { return step.groups.empty(); });
    const int traces = static_cast<int>(recordings_.size());
    for (const KinetoEvents& events : recordings_) ranks_ = std::max(ranks_, events.world_size);
    if (options_.ranks > 0) ranks_ = options_.ranks;
    if (ranks_ == 0 && options_.mesh) ranks_ = options_.mesh->ranks();
    if (ranks_ == 0 && (is_alone || traces > 1) && *recordings_.back().rank < traces) ranks_ = traces;
    if (ranks_ == 0)
      throw UserError(fmt::format(
          "{}: of how many ranks? distributedInfo.world_size is missing; --ranks N or --on SCENARIO expected",
          first.file));
    recorded_ranks_ = ranks_;
    if (options_.scaled_ranks > 0 && options_.scaled_ranks % ranks_ != 0)
      throw UserError(fmt::format("--scale-out {}: no multiple of the {} of {}", options_.scaled_ranks,
                                  counted_noun(ranks_, "rank"), first.file));
    ranks_ = std::max(ranks_, options_.scaled_ranks);
    if (const int last = *recordings_.back().rank; last >= recorded_ranks_)
      throw UserError(fmt::format("{}: the trace of rank {}, but there {}", recordings_.back().file, last,
                                  recorded_ranks_ == 1 ? "is 1 rank" : fmt::format("are {} ranks", recorded_ranks_)));
    if (ranks_ > gpus_)
      throw UserError(fmt::format("{}: a trace of {} ranks, but the cluster has {}; --nodes adds nodes", first.file,
                                  ranks_, counted_noun(gpus_, "GPU")));
  }

  /// Finds the ranks of a group in the scenario's plan if the trace does not have them.
  void find_members(std::size_t recording, RecordedGroup& group) const {
    const KinetoEvents& events = recordings_[recording];
    const std::string where =
        fmt::format("{}: group \"{}\" of {}", events.file, group.name, counted_noun(group.size, "rank"));
    if (group.members.empty()) {
      if (!options_.mesh || options_.mesh->ranks() != recorded_ranks_)
        throw UserError(fmt::format(
            "{}: its ranks are missing (\"Process Group Ranks\"); --on SCENARIO with a plan of {} ranks expected",
            where, recorded_ranks_));
      std::set<std::vector<int>> found;
      const Mesh& mesh = *options_.mesh;
      for (const Axis axis : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline, Axis::expert})
        found.insert(mesh.group(*events.rank, axis));
      found.insert(mesh.replicas(*events.rank));
      found.insert(mesh.expert_replicas(*events.rank));
      std::erase_if(found,
                    [&group](const auto& ranks) { return ranks.size() != static_cast<std::size_t>(group.size); });
      if (found.size() != 1)
        throw UserError(
            fmt::format("{}: its ranks are missing, and {} of rank {}'s groups in the plan ({}) have its size", where,
                        found.empty() ? "none" : "several", *events.rank, mesh.in_words()));
      group.members = *found.begin();
    }
    std::ranges::sort(group.members);
    const auto [least, most] = std::ranges::minmax_element(group.members);
    if (*least < 0 || *most >= recorded_ranks_)
      throw UserError(fmt::format("{}: it has rank {}, but there are {} ranks", where, *least < 0 ? *least : *most,
                                  recorded_ranks_));
    if (std::ranges::find(group.members, *events.rank) == group.members.end())
      throw UserError(fmt::format("{}: rank {} uses it, but is none of its ranks {}", where, *events.rank,
                                  fmt::join(group.members, ", ")));
  }

  /// Adds the new ranks to a group that reaches the last recorded rank, such as that of data parallelism.
  void grow(std::size_t recording, RecordedGroup& group) {
    const std::string where = fmt::format("{}: group \"{}\"", recordings_[recording].file, group.name);
    if (!RankGrid(group.members, where).reaches(recorded_ranks_)) return;
    if (group.has_messages)
      throw UserError(
          fmt::format("{}: --scale-out: this pipeline has the outermost ranks, and more stages are no replicas; a "
                      "trace expected whose outermost groups are data parallel",
                      where));
    const std::vector<int> recorded = group.members;
    for (int first = recorded_ranks_; first < ranks_; first += recorded_ranks_)
      for (const int member : recorded) group.members.push_back(member + first);
    group.size = static_cast<int>(group.members.size());
    grown_.insert(group.name);
    // A rank's block of an all-gather shrinks, and the whole result keeps its size.
    RecordedStep& step = steps_[recording];
    const auto index = static_cast<int>(&group - step.groups.data());
    for (std::size_t i = 0; i < step.nodes.size(); ++i)
      if (step.groups_of_nodes[i] == index && step.nodes[i].type == ChakraType::collective &&
          gives_block(operation_of(step.nodes[i], where)))
        step.nodes[i].bytes *= static_cast<double>(recorded.size()) / static_cast<double>(group.size);
  }

  void find_grids() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      std::vector<RankGrid>& grids = grids_.emplace_back();
      for (const RecordedGroup& group : steps_[i].groups) {
        grids.emplace_back(group.members, fmt::format("{}: group \"{}\"", recordings_[i].file, group.name));
        if (group.has_messages) pipelines_.push_back(grids.back());
      }
    }
    result_.notes.push_back(fmt::format(
        "traces of {} of {} ranks; the others do what a rank of their pipeline stage does", steps_.size(), ranks_));
  }

  /// Returns the number of the recording whose program a rank runs.
  std::size_t source_of(int rank) const {
    for (std::size_t i = 0; i < recordings_.size(); ++i)
      if (recordings_[i].rank == rank % recorded_ranks_) return i;
    for (std::size_t i = 0; i < recordings_.size(); ++i)
      if (std::ranges::all_of(pipelines_, [&](const RankGrid& grid) {
            return grid.position(rank) == grid.position(*recordings_[i].rank);
          }))
        return i;
    throw UserError(
        fmt::format("{}: it sends messages to other pipeline stages; the trace of one rank of each stage expected, but "
                    "there is none for rank {}",
                    recordings_.front().file, rank));
  }

  void write_rank(int rank, std::size_t source) {
    const RecordedStep& step = steps_[source];
    const int shift = rank - *recordings_[source].rank;
    std::vector<std::string> names;
    std::map<std::vector<int>, std::size_t> times;  // groups of the same ranks so far
    for (std::size_t g = 0; g < step.groups.size(); ++g) {
      std::vector<int> members = shift == 0 ? step.groups[g].members : grids_[source][g].ranks(rank);
      if (std::ranges::max(members) >= ranks_)
        throw UserError(
            fmt::format("{}: the groups of rank {} go beyond the {} ranks", recordings_[source].file, rank, ranks_));
      // Ranks may name a group differently: groups are the same if their ranks and their order among these are.
      const std::size_t order = step.groups[g].has_messages ? 0 : ++times[members];
      std::string& name = names_[{members, order}];
      if (name.empty()) name = fmt::format("{}#{}", step.groups[g].name, names_.size());
      names.push_back(name);
      result_.groups[name] = std::move(members);
    }
    std::vector<ChakraNode>& nodes = result_.ranks.emplace_back(step.nodes);
    result_.files.push_back(recordings_[source].file);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (step.groups_of_nodes[i] < 0) continue;
      if (nodes[i].type == ChakraType::collective)
        nodes[i].group = names[static_cast<std::size_t>(step.groups_of_nodes[i])];
      if (nodes[i].type == ChakraType::send) nodes[i].destination += shift;
      if (nodes[i].type == ChakraType::recv) nodes[i].source += shift;
    }
  }
};

}  // namespace

bool is_kineto(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  return name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".sqlite") ||
         fs::is_directory(path, ignored);
}

KinetoStep read_kineto_step(const fs::path& path, const KinetoOptions& options, int gpus) {
  const std::vector<KinetoEvents> recordings = read_recordings(path);
  return RankWriter(recordings, options, gpus).write();
}

}  // namespace trainyard
