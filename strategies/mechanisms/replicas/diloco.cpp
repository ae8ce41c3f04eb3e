// DiLoCo (Douillard et al. 2023, arXiv:2311.08105): workers train alone for many inner steps; then an outer optimizer
// moves the parameters, from where the steps began, by the mean change of all workers. A worker is a replica, or a group
// of ranks that share the states of one. Fragments and overlap: Streaming DiLoCo (Douillard et al. 2025, arXiv:2501.18512).
#include <fmt/format.h>

#include <map>
#include <memory>

#include "models/networks/layers/network.hpp"
#include "models/reading/nearest.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/step/rank_updates.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {
namespace {

constexpr int kMostInnerSteps = 1 << 16, kMostFragments = 1024;
// Outer optimizer of the paper (section 3.2): Nesterov's momentum.
constexpr double kOuterRate = 0.7, kOuterMomentum = 0.9;
// Share of the worker's own parameters after an overlapped exchange (Streaming DiLoCo, section 3.3).
constexpr double kOwnShare = 0.5;
constexpr Bytes kOuterState{4};  // an element has its last common value and its momentum, each of this size (fp32)

struct OuterChoice {
  int inner_steps = 1, fragments = 1, overlap = 0;
  double rate = kOuterRate, momentum = kOuterMomentum;
  Bytes element{4};                                       ///< size of an element of an outer gradient that is sent
  bool in_groups = false;                                 ///< a worker is a group of ranks that share its states
  int period() const { return inner_steps / fragments; }  ///< steps between the exchanges of two fragments
};

class RankDiloco : public RankUpdates {
 public:
  RankDiloco(const StepParts& parts, const OuterChoice& outer) : RankUpdates(parts), outer_(outer) {}

  Ops before_step(int step) override {
    StepContext& context = parts_.step;
    if (step > 0 || !context.plan.values) co_return;
    for (std::size_t b = 0; b < context.buckets(); ++b)  // the values that the first inner steps begin with
      co_yield context.call(TrainingCall::fill_parameters, CallArguments::of_bucket(b));
  }
  /// A fragment leaves `overlap` steps before the end of its period, and the outer step is at the end.
  Ops after_backward(int step) override {
    co_yield RankUpdates::after_backward(step);
    const int period = outer_.period();
    if ((step + 1 + outer_.overlap) % period == 0) co_yield send((step + 1 + outer_.overlap) / period - 1);
    if ((step + 1) % period == 0) co_yield take((step + 1) / period - 1);
  }
  Ops after_training() override {
    if (parts_.step.plan.steps % outer_.inner_steps == 0) co_return;
    for (int fragment = 0; fragment < outer_.fragments; ++fragment) {
      co_yield send(fragment);
      co_yield take(fragment);
    }
  }

 private:
  OuterChoice outer_;

  Lane outer_lane(bool experts) const {
    if (outer_.in_groups) return experts ? Lane::expert_copies : Lane::copies;
    return experts ? Lane::expert_gradients : Lane::gradients;
  }
  bool is_in(std::size_t bucket, int fragment) const {
    return static_cast<int>(bucket) % outer_.fragments == fragment % outer_.fragments;
  }
  /// Number of elements of the fragment that this rank sends and updates.
  double elements(std::size_t bucket) const {
    return outer_.in_groups ? parts_.step.own_elements(bucket) : parts_.step.stage.buckets[bucket].elements;
  }
  double elements_of_fragment(int fragment) const {
    double sum = 0;
    for (std::size_t b = 0; b < parts_.step.buckets(); ++b)
      if (is_in(b, fragment)) sum += elements(b);
    return sum;
  }
  const Op& kernel(Bytes bytes) {
    StepContext& step = parts_.step;
    return step.work(elementwise("", bytes, step.plan.network->precision).work, Kind::local, step.words.optimizer,
                     step.words.average);
  }

  /// Computes the outer gradients of a fragment, and starts their all-reduce.
  Ops send(int fragment) {
    StepContext& step = parts_.step;
    while (step.waits.has_any()) co_yield step.take_waits();
    co_yield kernel((kOuterState * 2 + outer_.element) * elements_of_fragment(fragment));
    for (std::size_t b = step.buckets(); b-- > 0;) {
      if (!is_in(b, fragment)) continue;
      if (step.plan.values) co_yield step.call(TrainingCall::fill_parameters, CallArguments::of_bucket(b));
      co_yield parts_.collectives.run({outer_lane(step.stage.buckets[b].experts), Operation::all_reduce,
                                       outer_.element * elements(b), step.words.average,
                                       step.buffer({TrainingBuffer::Kind::parameters, b}),
                                       step.out.last_operation(TrainingStreams::compute)});
    }
  }
  /// Waits for the sums of a fragment, and does the outer step.
  Ops take(int fragment) {
    StepContext& step = parts_.step;
    for (const Lane lane : {outer_lane(false), outer_lane(true)})
      if (step.plan.lane(lane).is_used()) step.waits.add(parts_.collectives.end_of(lane));
    while (step.waits.has_any()) co_yield step.take_waits();
    co_yield kernel((kOuterState * 5 + outer_.element) * elements_of_fragment(fragment));
    if (step.plan.values)
      for (std::size_t b = step.buckets(); b-- > 0;)
        if (is_in(b, fragment)) co_yield step.call(TrainingCall::take_parameters, CallArguments::of_bucket(b));
    if (step.shards() && !step.shards_parameters() && !parts_.parameters.gathers_ahead())
      co_yield parts_.parameters.gather_all();
  }
};

class DilocoPolicy : public UpdatePolicy {
 public:
  explicit DilocoPolicy(const OuterChoice& outer) : outer_(outer) {}

  bool sums_gradients(int) const override { return outer_.in_groups; }
  bool sums_over_copies() const override { return false; }
  std::unique_ptr<RankUpdates> of_rank(const StepParts& parts) const override {
    return std::make_unique<RankDiloco>(parts, outer_);
  }
  void add_values(TrainingValues& values) const override {
    struct OuterState {
      Eigen::VectorXd common, momentum;
    };
    const auto states = std::make_shared<std::map<std::pair<Actor, std::size_t>, OuterState>>();
    values.register_call(TrainingCall::fill_parameters, [&values, states](Actor rank, const CallArguments& call) {
      const Eigen::VectorXd parameters = values.replica(rank).parameters_of(call.bucket());
      OuterState& state = (*states)[{rank, call.bucket()}];
      if (state.common.size() > 0)
        values.put(rank, {TrainingBuffer::Kind::parameters, call.bucket()}, parameters);
      else  // before the first step
        state = {parameters, Eigen::VectorXd::Zero(parameters.size())};
    });
    values.register_call(
        TrainingCall::take_parameters, [&values, states, outer = outer_](Actor rank, const CallArguments& call) {
          const Eigen::VectorXd& sum = values.sum(rank, {TrainingBuffer::Kind::parameters, call.bucket()});
          OuterState& state = (*states)[{rank, call.bucket()}];
          const Eigen::VectorXd gradient = state.common - sum / values.plan().ranks();
          state.momentum = outer.momentum * state.momentum + gradient;
          state.common -= outer.rate * (gradient + outer.momentum * state.momentum);
          Eigen::VectorXd parameters = state.common;
          if (outer.overlap > 0)
            parameters += kOwnShare * (values.replica(rank).parameters_of(call.bucket()) - state.common);
          values.replica(rank).take_parameters(call.bucket(), parameters);
          if (rank == 0 && call.bucket() == 0) values.note_merge();
        });
  }

 private:
  OuterChoice outer_;
};

class Diloco : public Mechanism {
 public:
  explicit Diloco(const OuterChoice& outer) : outer_(outer) {}

  void read_setting(Fields& data_parallel, const MechanismSetting& setting) override {
    const Mesh& mesh = setting.mesh;
    if (outer_.inner_steps % outer_.fragments != 0)
      data_parallel.refuse("fragments",
                           fmt::format("{} do not divide the {} inner steps; nearest: {}", outer_.fragments,
                                       outer_.inner_steps, nearest_divisors(outer_.inner_steps, outer_.fragments)));
    if (outer_.overlap >= outer_.period())
      data_parallel.refuse(
          "overlap_steps",
          fmt::format("a fragment leaves every {} steps, and arrives before the next one leaves; expected at most {}",
                      outer_.period(), outer_.period() - 1));
    outer_.in_groups = setting.zero != ZeroStage::none;
    if (outer_.in_groups && setting.zero_group < 2)
      data_parallel.refuse("mechanism",
                           "ZeRO over all ranks makes one worker of them; expected zero_group, the number of ranks "
                           "that share the states of a worker, from 2 to half of them");
    if (mesh.context > 1 || (mesh.expert > 1 && !outer_.in_groups) || !mesh.widths.empty() || mesh.copies > 1)
      data_parallel.refuse("mechanism",
                           "workers of DiLoCo are modelled without context ranks, without stages of different widths, "
                           "and with expert ranks in a zero_group only");
    if (!outer_.in_groups && data_parallel.has("overlap"))
      data_parallel.refuse(
          "overlap",
          "it would change nothing: workers exchange no gradients; overlap_steps is for the exchange of "
          "parameters");
    workers_ = outer_.in_groups ? mesh.data / setting.zero_group : mesh.data;
    if (workers_ < 2) data_parallel.refuse("mechanism", "there is one worker only, and nobody to exchange with");
  }

  std::string refuses_compression() const override {
    return "workers exchange outer gradients; outer_precision says in how many bits";
  }
  void lay_out(TrainingPlan& plan, const TrainingStates&) const override {
    plan.updates = std::make_shared<DilocoPolicy>(outer_);
    for (int number = 0; number < static_cast<int>(plan.stages.size()); ++number) {
      StagePlan& stage = plan.stages[static_cast<std::size_t>(number)];
      const int rank = plan.mesh.rank({0, 0, 0, number});
      double elements = 0;
      for (const GradientBucket& bucket : stage.buckets)
        elements +=
            bucket.elements / static_cast<double>(outer_.in_groups ? zero_group(plan, rank, bucket.experts).size() : 1);
      const Bytes states = kOuterState * (2 * elements), sent = outer_.element * elements / outer_.fragments;
      stage.memory.parts.push_back({"parameters and momentum of the outer optimizer", MemoryClass::optimizer, states});
      stage.memory.parts.push_back({"outer gradients", MemoryClass::buffers, sent});
      stage.memory.optimizer += states;
      stage.memory.buffers += sent;
    }
  }
  StepRhythm rhythm() const override {
    return {.turns = outer_.inner_steps,
            .turns_reason = "plan.data_parallel.inner_steps: workers exchange once in so many steps",
            .steps = outer_.inner_steps,
            .exchange_interval = outer_.inner_steps};
  }
  void add_figures(MechanismFigures& figures, const TrainingPlan&, int) const override {
    figures.replicas["inner_steps"] = std::int64_t{outer_.inner_steps};
    figures.replicas["workers"] = std::int64_t{workers_};
  }
  Report report(const MechanismFigures&, const std::function<std::string(double)>&, const std::string&) const override {
    std::string line = fmt::format("{}, an outer step every {}", counted_noun(workers_, "worker"),
                                   outer_.inner_steps == 1 ? "step" : fmt::format("{} steps", outer_.inner_steps));
    if (outer_.fragments > 1) line += fmt::format(", {} fragments in turn", outer_.fragments);
    if (outer_.overlap > 0) line += fmt::format(", exchanges beside {}", counted_noun(outer_.overlap, "step"));
    return {"updates", {line}};
  }

 private:
  OuterChoice outer_;
  int workers_ = 1;
};

std::unique_ptr<Mechanism> read_diloco(Fields& fields, const ClusterSpec&) {
  OuterChoice outer;
  outer.inner_steps = fields.integer_within<int>(
      {"inner_steps", "Number of steps that a worker trains alone before an outer step, for example 100.",
       "with mechanism diloco"},
      1, kMostInnerSteps);
  outer.rate = fields.number({"outer_learning_rate", "Learning rate of the outer optimizer, for example 1."}, 0, 100,
                             kOuterRate);
  outer.momentum =
      fields.number({"outer_momentum", "Nesterov's momentum of the outer optimizer, from 0 to 1, for example 0.5."}, 0,
                    1, kOuterMomentum);
  static const std::map<std::string, double> bytes{{"fp32", 4}, {"bf16", 2}, {"fp16", 2}, {"int8", 1}, {"int4", 0.5}};
  std::vector<std::string> names;
  for (const auto& [name, size] : bytes) names.push_back(name);
  outer.element = Bytes{bytes.at(fields.choice(
      {"outer_precision",
       "Precision in which outer gradients are sent. What a training learns is computed without its rounding."},
      names, "fp32"))};
  outer.fragments = fields.integer_within<int>(
      {"fragments", "Number of parts of the parameters that are exchanged in turn, for example 5."}, 1, kMostFragments,
      1);
  outer.overlap = fields.integer_within<int>(
      {"overlap_steps", "Number of inner steps that run beside an exchange of outer gradients, for example 5."}, 0,
      kMostInnerSteps, 0);
  return std::make_unique<Diloco>(outer);
}

const RegisterMechanism register_diloco{
    {"diloco",
     "workers train alone for many steps, and an outer optimizer merges them (DiLoCo)",
     {"inner_steps", "outer_learning_rate", "outer_momentum", "outer_precision", "fragments", "overlap_steps"},
     nullptr,
     read_diloco,
     {{"inner_steps", "number of steps that a worker trains alone", std::int64_t{}},
      {"workers", "number of workers that train alone", std::int64_t{}}},
     "with DiLoCo"}};

}  // namespace
}  // namespace trainyard
