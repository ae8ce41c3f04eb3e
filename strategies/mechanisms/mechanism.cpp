#include "strategies/mechanisms/mechanism.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "strategies/step/training_programs.hpp"

namespace trainyard {
namespace {

/// Every rank runs the training program.
class RankRun : public MechanismRun {
 public:
  explicit RankRun(const MechanismSite& site) : plan_(site.plan), programs_(site.plan, site.names) {}

  Programs programs() override { return programs_.programs(); }
  const ProgramSource* source() const override { return &programs_; }
  std::vector<std::string> streams() const override { return programs_.streams().names(); }
  const PassTables& tables() const override { return programs_.tables(); }
  const TrainingPlan& plan() const override { return plan_; }

 private:
  const TrainingPlan& plan_;
  TrainingPrograms programs_;
};

/// Number of operations of one rank in one collective.
double operations_of(const Collective& collective, GroupPlace place, Bytes size) {
  double count = 0;
  visit_ops(collective, place, size, [&count](const Op&) { return ++count > 0; });
  return count;
}

std::string joined_with_and(const std::vector<std::string>& words) {
  return fmt::format("{} and {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

/// The mechanism that a plan chooses by its name or by one of its keys.
const MechanismKind& chosen_kind(Fields& fields) {
  const std::string name = fields.choice(
      {"mechanism",
       "How replicas come to common parameters, for example parameter-server (trainyard list mechanisms)."},
      mechanisms().names(), kAllReduce);
  std::vector<std::string> keys;  // keys that choose a mechanism
  std::vector<const MechanismKind*> chosen;
  for (const std::string& candidate : mechanisms().names()) {
    const MechanismKind& kind = mechanisms().find(candidate, {});
    if (!kind.chosen) continue;
    keys.emplace_back(kind.keys.front().name);
    if (kind.chosen(fields)) chosen.push_back(&kind);
  }
  if (chosen.size() > 1)
    fields.refuse(chosen.front()->keys.front(), fmt::format("one of {} at a time", joined_with_and(keys)));
  if (chosen.empty() || chosen.front()->name == name) return mechanisms().find(name, fields.place());
  if (name == kAllReduce) return *chosen.front();
  const std::string key(chosen.front()->keys.front().name);
  fields.refuse(key, fmt::format("with mechanism {} only", kAllReduce));
}

}  // namespace

double Mechanism::operations(const TrainingPlan& plan) const {
  const LaneGroups& lane = plan.lane(Lane::gradients);
  if (!lane.is_used()) return 0;
  const Collective& collective = *lane.algorithm[static_cast<std::size_t>(plan.gradient_operation())];
  double sum = 0;
  for (int number = 0; number < plan.mesh.pipeline; ++number) {
    const StagePlan& stage = plan.stages[number];
    const int rank = plan.mesh.rank({0, 0, 0, number});
    if (lane.of_rank[rank] < 0) continue;
    const LaneGroup& group = lane.group(rank);
    const int size = static_cast<int>(group.members.size());
    double elements = 0;
    for (const GradientBucket& bucket : stage.buckets) elements += bucket.elements;
    const auto buckets = static_cast<double>(stage.buckets.size());
    const Bytes mean = plan.gradient_element * (elements / std::max(1.0, buckets));
    const double first = operations_of(collective, {0, size, &group.settings}, mean),
                 last = operations_of(collective, {size - 1, size, &group.settings}, mean);
    const double groups = static_cast<double>(plan.mesh.stage_ranks(number)) / size;
    sum += buckets * groups * (first + (size - 1) * last + 2 * size);
  }
  return sum;
}

std::unique_ptr<MechanismRun> Mechanism::run(const MechanismSite& site) const {
  return std::make_unique<RankRun>(site);
}

Registry<MechanismKind>& mechanisms() {
  static Registry<MechanismKind> all("mechanism");
  return all;
}

ChosenMechanism read_mechanism(Fields& fields, const ClusterSpec& cluster) {
  const MechanismKind& kind = chosen_kind(fields);
  for (const std::string& name : mechanisms().names()) {
    const MechanismKind& other = mechanisms().find(name, {});
    if (other.name == kind.name) continue;
    for (const Key& key : other.keys)
      if (fields.has(key) && !other.chosen && std::ranges::find(kind.keys, key.name, &Key::name) == kind.keys.end())
        fields.refuse(key, fmt::format("with mechanism {} only", other.name));
  }
  return {kind.name, kind.read(fields, cluster)};
}

}  // namespace trainyard
