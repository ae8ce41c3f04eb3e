#include "scenarios/src/search/plan_space.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "scenarios/src/planning/layer_division.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"

namespace trainyard {
namespace {

/// Sequences with fewer tokens fit on a rank, so that context parallelism would only add communication.
constexpr std::int64_t kLongSequence = 16384;

/// Most packs of a micro-batch of a loop, each of which fills a GPU.
constexpr std::int64_t kMostPacks = 8;

/// Fields of the plan that define the work, which all compared plans must share.
constexpr const char* kWorkOfPlan[] = {"plan.global_batch_size", "plan.seq_length", "plan.decoder_seq_length",
                                       "plan.precision",         "plan.optimizer",  "plan.strategy",
                                       "plan.training",          "plan.mode",       "plan.fp8_scaling"};
constexpr const char* kSpaceAxes[] = {
    "plan.micro_batch_size",     "plan.sequence_parallel", "plan.recompute",
    "plan.pipeline.schedule",    "plan.pipeline.chunks",   "plan.data_parallel.zero_stage",
    "plan.data_parallel.offload"};

bool is_axis(const std::string& path) {
  return std::ranges::find(kSpaceAxes, path) != std::end(kSpaceAxes) ||
         std::ranges::any_of(searched_degrees(), [&path](const auto& degree) { return degree.path() == path; });
}

// Finds plans that differ from a plan in a single choice.

/// Returns the next smaller and the next larger of the values, if there are any.
template <class T>
std::vector<T> values_beside(const std::vector<T>& values, const T& value) {
  std::vector<T> sorted = values, near;
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  const auto above = std::upper_bound(sorted.begin(), sorted.end(), value);
  const auto below = std::lower_bound(sorted.begin(), sorted.end(), value);
  if (below != sorted.begin()) near.push_back(*std::prev(below));
  if (above != sorted.end()) near.push_back(*above);
  return near;
}

}  // namespace

PlanSpace::PlanSpace(const PlanQuestion& question, PlanSpaceOptions options)
    : scenario_(question.base), options_(std::move(options)), bare_(without_choices(question.section)) {
  scope_.gpus = scenario_.cluster.gpus();
  PlanChoice choice = scenario_.plan;
  if (const Node* pipeline = bare_.find("pipeline"); pipeline && pipeline->kind == Node::Kind::map) {
    const Node *ends = pipeline->find("ends_count_as_layers"), *layers = pipeline->find("layers");
    choice.ends_count_as_layers = (ends && ends->scalar == "true") || (layers && layers->scalar == "balanced");
  }
  layers_ = layers_to_divide(scenario_.network, choice);
  const TransformerConfig* config = scenario_.model.entry.transformer();
  scope_.is_transformer = config != nullptr;
  scope_.has_experts = config && config->experts.count > 0;
  scope_.has_tables = config && config->has_tables;
  scope_.splits_tokens =
      (config && scenario_.model.seq_length >= kLongSequence) || question.section.find("context_parallel") != nullptr;
  for (const PlanSpaceOptions::Axis& axis : options_.vary) {
    if (!axis.path.starts_with("plan."))
      throw UserError(fmt::format("--vary {}: a field of the plan expected, such as plan.tensor_parallel", axis.path));
    if (std::find(std::begin(kWorkOfPlan), std::end(kWorkOfPlan), axis.path) != std::end(kWorkOfPlan))
      throw UserError(fmt::format(
          "--vary {}: this field changes what is computed; only plans of the same work can be compared", axis.path));
  }
  require_schedules();
}

/// Throws UserError if the scenario's framework lacks a requested schedule.
void PlanSpace::require_schedules() const {
  const PlanSpaceOptions::Axis* axis = varied("plan.pipeline.schedule");
  if (!axis || scenario_.strategy.empty()) return;
  const std::vector<std::string> available = schedules_of_mode(scenario_.strategy);
  for (const std::string& name : axis->values) {
    pipeline_schedules().find(name, Place::named("--vary plan.pipeline.schedule"));
    if (std::ranges::find(available, name) == available.end())
      throw UserError(
          fmt::format("--vary plan.pipeline.schedule: {}, but plan.strategy is {}, which has {}; --strategy any can "
                      "search every schedule",
                      name, scenario_.strategy,
                      available.empty() ? "no pipelines" : fmt::format("{}", fmt::join(available, ", "))));
  }
}

const PlanSpaceOptions::Axis* PlanSpace::varied(const std::string& path) const {
  for (const PlanSpaceOptions::Axis& axis : options_.vary)
    if (axis.path == path) return &axis;
  return nullptr;
}

std::vector<std::int64_t> PlanSpace::numbers(const std::string& path, std::vector<std::int64_t> default_values) const {
  const PlanSpaceOptions::Axis* axis = varied(path);
  if (!axis) return default_values;
  std::vector<std::int64_t> values;
  for (const std::string& text : axis->values) {
    try {
      values.push_back(parse_integer(text));
    } catch (const UserError&) {
      throw UserError(fmt::format("--vary {}: {}: a whole number expected", path, text));
    }
    if (values.back() < 0) throw UserError(fmt::format("--vary {}: {}: 0 or more expected", path, text));
  }
  return values;
}

std::vector<std::string> PlanSpace::texts(const std::string& path, std::vector<std::string> default_values) const {
  const PlanSpaceOptions::Axis* axis = varied(path);
  return axis ? axis->values : default_values;
}

std::vector<std::int64_t> PlanSpace::ranks(const SearchedDegree& degree, const PlanPoint& p) const {
  return numbers(degree.path(), degree.values(scope_, p));
}

std::int64_t PlanSpace::stated_batch() const {
  return scenario_.post_training ? scenario_.post_training->training_samples : scenario_.global_batch_size;
}

std::int64_t PlanSpace::rank_batches(const PlanPoint& p) const {
  const std::int64_t unit = p.micro_batch * data(p);
  if (const PostTrainingChoice* loop = scenario_.post_training.get(); loop && loop->packs) {
    const SamplePacks& packs = *loop->packs;
    if (!loop->has_dynamic_batches())
      return packs.count(loop->training_samples, unit * packs.sequences) / (unit * packs.sequences);
    const double most = static_cast<double>(p.micro_batch) * loop->padded_tokens;
    const SamplePacks::Batches batches = packs.divided(loop->training_samples, static_cast<int>(data(p)), most);
    return batches.global / (batches.micro * data(p));
  }
  return stated_batch() % unit == 0 ? stated_batch() / unit : 0;
}

std::vector<std::int64_t> PlanSpace::micro_batches(const PlanPoint& p) const {
  const PostTrainingChoice* loop = scenario_.post_training.get();
  if (!loop || !loop->packs) return numbers("plan.micro_batch_size", divisors(stated_batch() / data(p)));
  PlanPoint single = p;
  single.micro_batch = 1;
  std::vector<std::int64_t> powers;
  for (std::int64_t packs = 1; packs <= std::min(kMostPacks, rank_batches(single)); packs *= 2) powers.push_back(packs);
  return numbers("plan.micro_batch_size", powers);
}

/// Returns true if the axes divide the GPUs and the replicas divide the batch. The reader refuses other plans.
bool PlanSpace::fits_gpus(const PlanPoint& p) const {
  return std::ranges::all_of(searched_degrees(),
                             [&](const auto& degree) { return degree.shared_ranks || is_legal(degree, scope_, p); }) &&
         ((scenario_.post_training && scenario_.post_training->packs) || stated_batch() % data(p) == 0) &&
         p.pipeline <= layers_;
}

std::vector<PlanPoint> PlanSpace::groups() const {
  std::vector<PlanPoint> groups;
  const std::vector<std::string> recomputations =
      texts("plan.recompute", scope_.is_transformer ? std::vector<std::string>{"none", "selective", "full"}
                                                    : std::vector<std::string>{"none"});
  const std::vector<std::string> sequences = texts("plan.sequence_parallel", {"false", "true"});
  for (PlanPoint p : meshes()) {
    // A dispatcher with one row per rank uses whole experts by default. Whole experts are a point of their own.
    const bool same_as_whole = scenario_.plan.sharding.one_row_a_rank && p.expert > 1 && p.expert_tensor == 0 &&
                               !varied("plan.expert_parallel.tensor");
    for (const std::int64_t micro : micro_batches(p)) {
      if (micro < 1) continue;
      p.micro_batch = micro;
      if (rank_batches(p) == 0) continue;
      for (const std::string& sequence : sequences) {
        p.sequence = sequence == "true";
        // Tensor ranks with equal tokens can only use experts that are split like the tensor axis.
        if (p.sequence ? p.tensor == 1 || same_as_whole : p.tensor > 1 && p.expert_tensor > 0) continue;
        for (const std::string& recompute : recomputations) {
          p.recompute = recompute;
          groups.push_back(p);
        }
      }
    }
  }
  return groups;
}

/// Returns a point for each legal choice of all degrees.
std::vector<PlanPoint> PlanSpace::meshes() const {
  std::vector<PlanPoint> all(1);
  for (const SearchedDegree& degree : searched_degrees()) {
    std::vector<PlanPoint> next_points;
    for (const PlanPoint& p : all)
      for (const std::int64_t value : ranks(degree, p)) {
        PlanPoint split = p;
        split.*degree.member = static_cast<int>(value);
        if (is_legal(degree, scope_, split)) next_points.push_back(split);
      }
    all = std::move(next_points);
  }
  std::erase_if(all, [this](const PlanPoint& p) { return !fits_gpus(p); });
  return all;
}

std::vector<std::pair<std::string, int>> PlanSpace::schedules(const PlanPoint& p) const {
  if (p.pipeline == 1) return {{"1f1b", 1}};
  std::vector<std::pair<std::string, int>> all;
  for (const std::string& name : texts("plan.pipeline.schedule", schedules_of_mode(scenario_.strategy))) {
    const PipelineSchedule& schedule = pipeline_schedules().find(name, Place::named("--vary plan.pipeline.schedule"));
    std::vector<std::int64_t> chunks;
    const auto parts = [&](std::int64_t n) { return n * p.pipeline / schedule.copies; };
    for (std::int64_t n = schedule.least_chunks; parts(n) <= layers_; ++n)
      if (n == schedule.least_chunks || layers_ % parts(n) == 0) chunks.push_back(n);
    const std::int64_t micro_batches = rank_batches(p);
    for (const std::int64_t n : numbers("plan.pipeline.chunks", chunks)) {
      if (n < 1 || parts(n) > layers_ || (n > schedule.least_chunks && schedule.least_chunks == 1)) continue;
      const PipelineShape shape{p.pipeline, static_cast<int>(micro_batches), static_cast<int>(n)};
      if (!schedule.refuses || schedule.refuses(shape).empty()) all.emplace_back(name, static_cast<int>(n));
    }
  }
  return all;
}

/// Returns true if the reader refuses the ZeRO stage: stage 2 with a pipeline, and stage 3 if two stages share a weight
/// of the first layer.
bool PlanSpace::refused_stage(const PlanPoint& p) const {
  if (p.pipeline == 1 || p.zero < ZeroStage::gradients) return false;
  if (p.zero == ZeroStage::gradients) return true;
  PlanChoice choice;
  choice.mesh.pipeline = p.pipeline;
  choice.schedule = p.schedule;
  choice.chunks = p.chunks;
  return ties_head(scenario_.model) && choice.ends_apart();
}

/// Lists a plan with each way in which its replicas may shard states.
std::vector<PlanPoint> PlanSpace::sharings(const PlanPoint& plan) const {
  std::vector<PlanPoint> all;
  const std::int64_t replicas = data(plan) * plan.context * pipeline_schedules().find(plan.schedule, {}).copies;
  const std::int64_t micro_batches = rank_batches(plan);
  // Groups of ZeRO are the replicas of a node, or those of a slice of chips.
  const ClusterSpec& cluster = scenario_.cluster;
  std::vector<std::int64_t> groups{cluster.node.gpus / std::max(1, plan.tensor)};
  if (cluster.slices() > 1) groups.push_back(cluster.gpus() / cluster.slices() / std::max(1, plan.tensor));
  for (const std::int64_t stage : numbers("plan.data_parallel.zero_stage", {0, 1, 2, 3})) {
    PlanPoint p = plan;
    if (stage > UINT8_MAX)
      throw UserError(
          fmt::format("--vary plan.data_parallel.zero_stage: {} is no stage; expected 0, 1, 2 or 3", stage));
    p.zero = static_cast<ZeroStage>(stage);
    if (stage > 0 && replicas == 1 && !varied("plan.data_parallel.zero_stage"))
      continue;  // ZeRO changes nothing if no rank shares states
    if (refused_stage(p)) continue;
    all.push_back(p);
    if (stage != 3) continue;
    std::vector<PlanPoint> variants{p};
    for (const SharingChoice& choice : kSharingChoices) {
      if (choice.needs_micro_batches && micro_batches == 1) continue;
      std::vector<PlanPoint> both;
      for (PlanPoint& variant : variants) {
        both.push_back(variant);
        variant.*choice.member = choice.other;
        both.push_back(variant);
      }
      variants = std::move(both);
    }
    const std::vector<PlanPoint> of_all = variants;
    for (const std::int64_t group : groups) {
      if (group <= 1 || group >= replicas || replicas % group != 0) continue;
      for (PlanPoint variant : of_all) {
        variant.zero_group = static_cast<int>(group);
        variants.push_back(variant);
      }
    }
    all.insert(all.end(), variants.begin() + 1, variants.end());
  }
  return all;
}

std::vector<PlanPoint> PlanSpace::points(const PlanPoint& group) const {
  std::vector<PlanPoint> all;
  const std::vector<std::string> offloads =
      texts("plan.data_parallel.offload",
            options_.offload ? std::vector<std::string>{"none", "cpu"} : std::vector<std::string>{"none"});
  for (const auto& [schedule, chunks] : schedules(group)) {
    PlanPoint p = group;
    p.schedule = schedule;
    p.chunks = chunks;
    for (PlanPoint shared : sharings(p))
      for (const std::string& offload : offloads) {
        shared.offload = offload;
        all.push_back(shared);
      }
  }
  for (const PlanSpaceOptions::Axis& axis : options_.vary) {
    if (is_axis(axis.path)) continue;
    std::vector<PlanPoint> next_points;
    for (const PlanPoint& p : all)
      for (const std::string& value : axis.values) {
        next_points.push_back(p);
        next_points.back().extra.emplace_back(axis.path, value);
      }
    all = std::move(next_points);
  }
  return all;
}

std::optional<PlanPoint> PlanSpace::legal_plan(PlanPoint point) const {
  const std::int64_t most = point.micro_batch;
  std::optional<PlanPoint> best;
  for (const PlanPoint& group : groups()) {
    point.micro_batch = group.micro_batch;
    if (group.micro_batch > most || (best && group.micro_batch <= best->micro_batch) ||
        static_cast<const PlanGroup&>(group) != static_cast<const PlanGroup&>(point))
      continue;
    const std::vector<PlanPoint> all = points(group);
    if (std::ranges::find(all, point) != all.end()) best = point;
  }
  return best;
}

std::vector<std::pair<std::string, PlanPoint>> PlanSpace::neighbours(const PlanPoint& best) const {
  std::vector<std::pair<std::string, PlanPoint>> all;
  const std::vector<PlanPoint> listed_groups = groups();
  const std::set<PlanGroup> group_choices(listed_groups.begin(), listed_groups.end());
  const auto is_in_space = [&](const PlanPoint& p) {
    if (!group_choices.contains(p)) return false;
    PlanPoint group;
    static_cast<PlanGroup&>(group) = p;
    const std::vector<PlanPoint> listed = points(group);
    return std::ranges::find(listed, p) != listed.end();
  };
  const auto add = [&](const std::string& change, const PlanPoint& p) {
    const bool is_listed = std::ranges::any_of(all, [&p](const auto& other) { return other.second == p; });
    if (!is_listed && !(p == best) && is_in_space(p)) all.emplace_back(change, p);
  };
  // Replicas that share nothing have no ZeRO, and other meshes other groups of replicas.
  const auto take_near_sharing = [this](PlanPoint& p) {
    PlanPoint plain = p;
    static_cast<StateSharing&>(plain) = {};
    const auto changes = [&p](const PlanPoint& q) {
      return (q.reshard != p.reshard) + (q.sync_last != p.sync_last) + (q.zero_group != p.zero_group);
    };
    std::vector<PlanPoint> near = sharings(plain);
    const bool shares_states = data(p) * p.context > 1;
    std::erase_if(near,
                  [&](const PlanPoint& q) { return q.zero != p.zero && (shares_states || q.zero != ZeroStage::none); });
    if (!near.empty()) p = *std::ranges::min_element(near, {}, changes);
  };
  for (const SearchedDegree& degree : searched_degrees()) {
    const auto words = [&degree](std::int64_t ranks) {
      return ranks == degree.unsplit_value ? std::string(degree.unsplit_name) : fmt::format("{}", ranks);
    };
    for (const std::int64_t value : values_beside(ranks(degree, best), std::int64_t{best.*degree.member})) {
      PlanPoint p = best;
      p.*degree.member = static_cast<int>(value);
      if (p.tensor == 1) p.sequence = false;
      if (p.pipeline == 1) {
        p.schedule = "1f1b";
        p.chunks = 1;
      }
      if (!fits_gpus(p)) continue;
      // Skip a degree if the micro-batch does not suit its replicas' samples.
      const std::vector<std::int64_t> micro = micro_batches(p);
      if (std::ranges::find(micro, p.micro_batch) == micro.end()) continue;
      const auto orders = schedules(p);
      const auto is_same_order = [&p](const auto& order) {
        return order.first == p.schedule && order.second == p.chunks;
      };
      if (p.pipeline > 1 && std::ranges::none_of(orders, is_same_order)) {
        const auto same_schedule = std::ranges::find_if(orders, [&p](const auto& o) { return o.first == p.schedule; });
        if (same_schedule == orders.end()) continue;
        p.chunks = same_schedule->second;
      }
      take_near_sharing(p);
      add(fmt::format("{} {} instead of {}", degree.name, words(value), words(best.*degree.member)), p);
    }
  }
  for (const std::int64_t micro : values_beside(micro_batches(best), best.micro_batch)) {
    PlanPoint p = best;
    p.micro_batch = micro;
    take_near_sharing(p);
    add(fmt::format("micro-batch {} instead of {}", micro, best.micro_batch), p);
  }
  for (const auto& [schedule, chunks] : schedules(best)) {
    PlanPoint p = best;
    p.schedule = schedule;
    p.chunks = chunks;
    if (schedule == best.schedule)
      add(fmt::format("{} chunks instead of {}", chunks, best.chunks), p);
    else
      add(fmt::format("{}{} instead of {}", schedule, chunks > 1 ? fmt::format(" of {} chunks", chunks) : "",
                      best.schedule),
          p);
  }
  for (const PlanPoint& group : listed_groups) {  // the values of these choices have no order
    PlanPoint p = best;
    p.recompute = group.recompute;
    if (p.recompute != best.recompute)
      add(fmt::format("{} recomputation instead of {}", p.recompute == "none" ? "no" : p.recompute, best.recompute), p);
    p = best;
    p.sequence = group.sequence;
    if (p.tensor > 1) add(fmt::format("sequence parallelism {}", p.sequence ? "on" : "off"), p);
  }
  PlanPoint plain = best;
  static_cast<StateSharing&>(plain) = {};
  const auto words = [](const PlanPoint& p) {
    return (p.zero == ZeroStage::none ? "no ZeRO" : fmt::format("ZeRO {}", static_cast<int>(p.zero))) +
           sharing_details(p);
  };
  for (const PlanPoint& p : sharings(plain)) add(words(p) + " instead of " + words(best), p);
  return all;
}

}  // namespace trainyard
