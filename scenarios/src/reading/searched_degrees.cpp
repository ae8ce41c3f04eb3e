#include "scenarios/src/reading/searched_degrees.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/reading/document.hpp"
#include "models/reading/nearest.hpp"
#include "scenarios/src/reading/plan_choice.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

using Numbers = std::vector<std::int64_t>;

void read_context(PlanChoice& choice, Fields& plan) {
  const Node node = long_form(plan.child({"context_parallel",
                                          "Ranks that split the tokens of a sample: their number, for example 2, or "
                                          "{size: 2, exchange: ring}. Default: 1."}),
                              "size", choice.place);
  Fields fields(node, "plan.context_parallel");
  choice.sharding.context =
      read_rank_count(fields, {"size", "Number of ranks that split the tokens of a sample, for example 2."});
  choice.sharding.context_exchange = fields.one_of(
      {"exchange",
       "How context-parallel ranks exchange keys and values: ring (Ring Attention) or all-to-all (DeepSpeed-Ulysses)."},
      {"ring", "all-to-all"}, ContextExchange::ring);
  if (fields.has({"ulysses",
                  "Number of neighbouring context ranks that exchange heads for tokens; keys and values go round rings "
                  "of size / ulysses ranks (USP), for example 2. Replaces exchange. Default: none with ring, all with "
                  "all-to-all."})) {
    const int size = choice.sharding.context;
    choice.sharding.ulysses = read_rank_count(fields, "ulysses");
    if (size % choice.sharding.ulysses != 0)
      fields.refuse("ulysses",
                    fmt::format("{} does not divide the {} ranks of plan.context_parallel; nearest: {}",
                                choice.sharding.ulysses, size, nearest_divisors(size, choice.sharding.ulysses)));
    if (fields.has("exchange"))
      fields.refuse(
          "ulysses",
          "it says how many ranks exchange heads, as plan.context_parallel.exchange does; leave one of them out");
  }
  fields.finish();
}

Numbers powers_of_two(Numbers numbers) {
  std::erase_if(numbers, [](std::int64_t n) { return (n & (n - 1)) != 0; });
  return numbers;
}

/// Number of ranks over which whole experts, or the shards of one, can be spread.
std::int64_t expert_ranks(const DegreeScope& scope, const Degrees& p) {
  const std::int64_t replicas = data_ranks(scope.gpus, p) * p.context;
  return p.expert_tensor > 0 ? std::max<std::int64_t>(1, replicas * p.tensor / p.expert_tensor) : replicas;
}

std::int64_t stage_ranks(const DegreeScope& scope, const Degrees& p) {
  return data_ranks(scope.gpus, p) * p.context * p.tensor;
}

Numbers tensor_values(const DegreeScope& scope, const Degrees&) {
  return scope.is_transformer ? divisors(scope.gpus) : Numbers{1};
}

Numbers context_values(const DegreeScope& scope, const Degrees& p) {
  return scope.splits_tokens ? powers_of_two(divisors(scope.gpus / p.tensor)) : Numbers{1};
}

Numbers pipeline_values(const DegreeScope& scope, const Degrees& p) {
  return divisors(scope.gpus / (std::int64_t{1} * p.tensor * p.context));
}

/// As the tensor axis, or whole experts on each rank.
Numbers expert_tensor_values(const DegreeScope& scope, const Degrees& p) {
  return scope.has_experts && p.tensor > 1 ? Numbers{0, 1} : Numbers{0};
}

Numbers expert_values(const DegreeScope& scope, const Degrees& p) {
  if (scope.has_tables) return {expert_ranks(scope, p)};  // copies are not modelled
  return scope.has_experts ? divisors(expert_ranks(scope, p)) : Numbers{1};
}

int one_rank(int) { return 1; }
int ranks_of_node(int gpus_of_node) { return gpus_of_node; }

constexpr SearchedDegree kDegrees[] = {
    {.name = "tensor",
     .key = "tensor_parallel",
     .member = &Degrees::tensor,
     .values = tensor_values,
     .likely_limit = ranks_of_node},
    {.name = "context",
     .key = "context_parallel.size",
     .member = &Degrees::context,
     .values = context_values,
     .likely_limit = one_rank,
     .read = read_context},
    {.name = "pipeline", .key = "pipeline_parallel", .member = &Degrees::pipeline, .values = pipeline_values},
    {.name = "expert-tensor",
     .key = "expert_parallel.tensor",
     .member = &Degrees::expert_tensor,
     .unsplit_value = 0,
     .unsplit_name = "the tensor axis",
     .values = expert_tensor_values,
     .shared_ranks = stage_ranks},
    {.name = "expert",
     .key = "expert_parallel.size",
     .member = &Degrees::expert,
     .values = expert_values,
     .shared_ranks = expert_ranks,
     .likely_limit = ranks_of_node},
};

}  // namespace

std::string SearchedDegree::path() const {
  const std::string text = key;
  return "plan." + (text.ends_with(".size") ? text.substr(0, text.find('.')) : text);
}

std::span<const SearchedDegree> searched_degrees() { return kDegrees; }

std::int64_t data_ranks(std::int64_t gpus, const Degrees& p) {
  for (const SearchedDegree& degree : kDegrees)
    if (!degree.shared_ranks) gpus /= p.*degree.member;
  return gpus;
}

bool is_legal(const SearchedDegree& degree, const DegreeScope& scope, const Degrees& p) {
  const std::int64_t ranks = p.*degree.member;
  if (ranks == degree.unsplit_value) return true;
  if (ranks < 1) return false;
  if (degree.shared_ranks) return degree.shared_ranks(scope, p) % ranks == 0;
  std::int64_t product = 1;
  for (const SearchedDegree& each : kDegrees)
    if (!each.shared_ranks) product *= p.*each.member;
  return scope.gpus % product == 0;
}

namespace {

/// Throws UserError for keys about exchanges and the order of axes that change nothing, since there are no such exchanges.
void refuse_idle_exchanges(const Scenario& s) {
  const PlanChoice& choice = s.plan;
  const Mesh& mesh = choice.mesh;
  const Node& plan = *s.document.find("plan");
  const auto refuse = [](const Node* section, const std::string& path, const char* key, const std::string& why) {
    const Node* stated = section && section->kind == Node::Kind::map ? section->find(key) : nullptr;
    if (stated && stated->kind != Node::Kind::null)
      fail(stated->place, fmt::format("{}.{}: it changes nothing, since {}; leave it out", path, key, why));
  };
  if (!mesh.widths.empty()) return;  // stages with widths of their own refuse these keys themselves
  const int axes = (mesh.tensor > 1) + (mesh.context > 1) + (mesh.data > 1) + (mesh.pipeline > 1);
  if (axes < 2 && mesh.order != Mesh{}.order)
    refuse(&plan, "plan", "mesh_order", axes == 0 ? "there is one rank" : "the mesh has one axis of several ranks");
  const bool exchanges_gradients = choice.replicas() > 1 || !choice.mechanism->all_reduces();
  if (!exchanges_gradients && !choice.offload.is_used())
    for (const char* key : {"bucket", "first_bucket", "bucket_boundaries"})
      refuse(plan.find("data_parallel"), "plan.data_parallel", key, "one replica exchanges no gradients");
  const bool splits = mesh.tensor * mesh.context * mesh.pipeline * mesh.expert > 1;
  if (!choice.mechanism->all_reduces() && !splits)
    refuse(&plan, "plan", "collectives",
           fmt::format("with mechanism {} there is no collective", choice.mechanism_name));
}

}  // namespace

void refuse_idle_keys(const Scenario& s) {
  struct IdleKey {
    const char *axis, *key, *fallback;
    int ranks;
  };
  const Sharding& sharding = s.plan.sharding;
  const bool has_experts = s.model.entry.transformer() && s.model.entry.transformer()->experts.count > 0;
  const int experts = has_experts ? s.plan.mesh.expert : 2;  // a network without experts has refused these keys
  const IdleKey keys[] = {{"context_parallel", "exchange", "ring", sharding.context},
                          {"expert_parallel", "imbalance", "1", experts},
                          {"expert_parallel", "dispatcher", "all-to-all", experts}};
  for (const IdleKey& each : keys) {
    const Node* axis = s.document.find("plan")->find(each.axis);
    const Node* stated = axis && axis->kind == Node::Kind::map ? axis->find(each.key) : nullptr;
    if (each.ranks > 1 || !stated || stated->kind == Node::Kind::null || stated->scalar == each.fallback) continue;
    fail(stated->place, fmt::format("plan.{}.{}: it changes nothing, since plan.{} is 1; expected 2 ranks or more, or "
                                    "leave it out",
                                    each.axis, each.key, each.axis));
  }
  refuse_idle_exchanges(s);
}

std::vector<std::int64_t> divisors(std::int64_t number) {
  Numbers low, high;
  for (std::int64_t n = 1; n * n <= number; ++n) {
    if (number % n != 0) continue;
    low.push_back(n);
    if (n * n != number) high.push_back(number / n);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

}  // namespace trainyard
