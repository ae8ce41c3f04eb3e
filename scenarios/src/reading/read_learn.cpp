#include "scenarios/src/reading/learn_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/reading/scenario.hpp"
#include "sim/error.hpp"
#include "strategies/compression/compressor.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

constexpr int kMostLearnedSteps = 1 << 20;
constexpr double kMostRate = 1e6;

/// Returns the update rule of the plan's optimizer. SGD is the momentum rule with momentum 0.
UpdateRule::Kind update_kind_of(const std::string& optimizer) {
  if (optimizer == "sgd") return UpdateRule::Kind::momentum;
  const auto kind = std::ranges::find(update_kinds(), optimizer, &UpdateKind::name);
  if (kind == update_kinds().end()) throw InternalError("no update rule for the optimizer " + optimizer);
  return static_cast<UpdateRule::Kind>(kind - update_kinds().begin());
}

/// With momentum correction, compressed gradients have their momentum already. The optimizer then applies none, and has
/// no momentum that could differ.
void read_compressed_momentum(UpdateRule& rule, Fields& fields, const Scenario& s) {
  const std::optional<double> momentum = s.plan.compression ? s.plan.compression->momentum() : std::nullopt;
  if (!momentum) return;
  const std::string& optimizer = s.optimizer.name;
  if (optimizer != "momentum" && *momentum > 0)
    fail(s.plan.compression_place,
         fmt::format("plan.data_parallel.compression: {}: plan.optimizer is {}, but the correction is for optimizer: "
                     "momentum; set momentum_correction: false, or momentum: 0",
                     s.plan.compression->summary(), optimizer));
  if (fields.has("momentum") && rule.momentum != *momentum)
    fields.refuse("momentum",
                  fmt::format("{:.4g}, but plan.data_parallel.compression.momentum is {:.4g}, and the compressor "
                              "applies the momentum; set both to one value, or only that of the compressor",
                              rule.momentum, *momentum));
  if (rule.clip > 0)
    fields.refuse("clip",
                  "would clip momentum; with momentum correction each rank clips its gradient before it is "
                  "accumulated: plan.data_parallel.compression.clip");
  rule.momentum = *momentum;
  rule.gradients_have_momentum = optimizer == "momentum";
}

void read_rule(LearnChoice& learn, Fields& fields, const Scenario& s) {
  UpdateRule& rule = learn.rule;
  const std::string& optimizer = s.optimizer.name;
  rule.kind = update_kind_of(optimizer);
  if (rule.part() == UpdateRule::Part::matrix && s.plan.mechanism->servers() > 0)
    fail(s.document.find("plan")->find("optimizer")->place,
         fmt::format(
             "plan.optimizer: {} needs whole matrices, but each update of a server in learn is of a slice of the "
             "weights; nearest: \"adamw\"",
             optimizer));
  const auto only = [&](const char* key, bool fits) {
    if (fields.has(key) && !fits) fields.refuse(key, fmt::format("plan.optimizer is {}, which has none", optimizer));
  };
  only("momentum", rule.has_momentum() && optimizer != "sgd");
  for (const char* key : {"beta1", "beta2", "epsilon"}) only(key, rule.has_adams_moments());
  only("trust", rule.kind == UpdateRule::Kind::lars);
  const bool is_muon = rule.kind == UpdateRule::Kind::muon, is_adafactor = rule.kind == UpdateRule::Kind::adafactor;
  constexpr double adams_rate = 1e-3, adafactors_rate = 1e-2, sgds_rate = 0.1;
  constexpr double muons_momentum = 0.95;  // Jordan et al. 2024
  learn.base_rate = fields.number(
      {"learning_rate",
       "Learning rate of the optimizer, for example 0.1. Of Adafactor: the most by which it multiplies the size of a "
       "tensor's weights. Default: 0.1 for SGD and LARS, 0.01 for Adafactor, else 0.001."},
      0, kMostRate,
      is_adafactor         ? adafactors_rate
      : rule.is_adaptive() ? adams_rate
                           : sgds_rate);
  rule.momentum =
      optimizer == "sgd"
          ? 0
          : fields.number({"momentum",
                           "Momentum of the optimizer, for example 0.8. Default: 0.95 for muon's matrices, else 0.9."},
                          0, 1, is_muon ? muons_momentum : 0.9);
  rule.beta1 = fields.number(
      {"beta1", "Decay of the first moment of optimizers that have Adam's moments, for example 0.95."}, 0, 1, 0.9);
  rule.beta2 =
      fields.number({"beta2",
                     "Decay of the second moment of optimizers that have Adam's moments, and of the factors of "
                     "Shampoo and SOAP, for example 0.95."},
                    0, 1, 0.999);
  rule.epsilon = fields.number(
      {"epsilon", "Term in the denominator of optimizers that have Adam's moments, for example 1e-06."}, 0, 1, 1e-8);
  rule.trust = fields.number({"trust", "Trust coefficient of LARS, for example 0.02."}, 0, 1, 0.001);
  rule.weight_decay = fields.number({"weight_decay", "Weight decay of the optimizer, for example 0.01."}, 0, 1e3, 0);
  rule.clip = fields.number(
      {"clip", "Largest norm of a gradient, for example 1; larger gradients are scaled down to it. 0: no limit."}, 0,
      1e12, 0);
  read_compressed_momentum(rule, fields, s);
  rule.staleness_aware =
      fields.boolean({"staleness_aware", "Whether a parameter server divides a gradient by its staleness."}, false);
  if (rule.staleness_aware && s.plan.mechanism->stops_together())
    fields.refuse("staleness_aware",
                  "only with parameter servers that apply each gradient alone (consistency asynchronous or stale)");
  if (!s.plan.mechanism->stops_together()) rule.updates_per_step = s.ranks();
}

/// The power of the batch with which the learning rate grows. Published: linear for SGD (Goyal et al. 2017) and LARS,
/// square root for Adam and LAMB (You et al. 2020).
double exponent_of(RateScaling scaling, const UpdateRule& rule) {
  if (scaling == RateScaling::none) return 0;
  if (scaling == RateScaling::published) return rule.is_adaptive() ? 0.5 : 1;
  return scaling == RateScaling::linear ? 1 : 0.5;
}

/// The share of the steps in which the published learning rates rise: 5 of 90 epochs (Goyal et al. 2017, section 2.2),
/// and a fifth of the steps when LAMB trained BERT at its largest batch (You et al. 2020).
double published_warmup(const UpdateRule& rule) {
  constexpr double goyal = 5.0 / 90, you = 1.0 / 5;
  return rule.is_adaptive() ? you : goyal;
}

void read_schedule(LearnChoice& learn, Fields& fields, double batch) {
  RateSchedule& schedule = learn.rule.schedule;
  learn.scaling =
      fields.one_of({"scaling",
                     "Growth of the learning rate with the global batch: none, square-root, linear, or published "
                     "(linear for SGD and LARS, square root for Adam and LAMB, both with a warm-up)."},
                    scaling_names(), RateScaling::none);
  learn.exponent = exponent_of(learn.scaling, learn.rule);
  learn.base_batch = fields.number(
      {"base_batch", "Global batch for which the learning rate is stated, for example 256. Default: that of the plan."},
      1, 1e12, batch);
  fields.require_condition("base_batch", learn.scaling != RateScaling::none,
                           "with scaling square-root, linear or published");
  learn.rule.learning_rate = learn.base_rate * std::pow(batch / learn.base_batch, learn.exponent);
  const double share = learn.scaling == RateScaling::published ? published_warmup(learn.rule) : 0;
  schedule.warmup = static_cast<double>(fields.integer_within<int>(
      {"warmup",
       "Number of steps in which the learning rate rises linearly from 0, for example 20. Default: 0; with scaling "
       "published, an eighteenth of the steps, and a fifth for Adam and LAMB."},
      0, kMostLearnedSteps, std::llround(share * learn.steps)));
  schedule.decay = fields.one_of({"decay", "How the learning rate falls after the warm-up."}, decay_names(),
                                 RateSchedule::Decay::none);
  schedule.steps = learn.steps;
  const bool milestones = schedule.decay == RateSchedule::Decay::milestones;
  for (const Key& key :
       {Key{"milestones",
            "Steps after which the learning rate falls, for example [100, 150]. Required with decay milestones."},
        Key{"factor", "Factor on the learning rate at each milestone, for example 0.2. Default: 0.1."}})
    fields.require_condition(key, milestones, "with decay milestones");
  if (milestones) {
    const std::vector<Node>* all = fields.list("milestones");
    if (!all)
      fail(fields.place(), "learn.milestones: missing; expected a list of steps after which the learning rate falls");
    for (const Node& milestone : *all)
      schedule.milestones.push_back(
          static_cast<int>(whole_number(milestone, "learn.milestones", 1, kMostLearnedSteps)));
    fields.read("factor", schedule.factor, 0, 1);
  }
}

void read_target(LearnChoice& learn, Fields& fields) {
  if (const Node* node = fields.child_unless_null("target")) {
    Fields target(*node, "learn.target");
    if (target.has(
            {"loss", "Loss at which the training ends, for example 0.3. Default: the training ends after its steps."}))
      learn.target_loss = target.number("loss", -1e12, 1e12);
    if (target.has("accuracy"))
      learn.target_accuracy = target.number({"accuracy",
                                             "Accuracy at which the training ends, from 0 to 1, for example 0.95. "
                                             "Default: the training ends after its steps."},
                                            0, 1);
    target.finish();
    if (!learn.has_target()) fail(node->place, "learn.target: loss or accuracy expected");
  }
}

void read_ends(LearnChoice& learn, Fields& fields) {
  learn.patience = fields.integer_within<int>({"early_stopping",
                                               "Number of evaluations in a row without a lower loss after which the "
                                               "training ends, for example 5. Default: it goes on."},
                                              1, kMostLearnedSteps, 0);
  for (auto [key, file] :
       {std::pair{Key{"from", "File of the weights to begin with, for example weights.txt. Default: random weights."},
                  &learn.from},
        std::pair{Key{"save",
                      "File to which the final weights are written, with early_stopping those of the lowest loss, for "
                      "example weights.txt. Default: none."},
                  &learn.save}})
    *file = fields.text(key, "");
}

void require_whole_replicas(const Scenario& s, const Place& place) {
  if (s.plan.splits_model())
    fail(
        place,
        "learn: needs replicas that each have the whole model; tensor, pipeline, context and expert parallelism, ZeRO, "
        "recomputation and offload compute the same numbers as these, as `trainyard teach step` shows: leave them out");
  if (s.prescribed_step.exists())
    fail(place, "learn: plan.step_time says how long the step takes, and nothing is simulated; leave one of them out");
  if (s.input.is_used()) fail(place, "learn: the samples are the task's own; leave input out");
}

}  // namespace

const std::vector<std::string>& scaling_names() {
  static const std::vector<std::string> names{"none", "square-root", "linear", "published"};
  return names;
}

LearnChoice read_learn(const Node& node, const Scenario& s) {
  Fields fields(node, "learn");
  LearnChoice learn;
  learn.place = node.place;
  learn.task.name = fields.choice({"task", "Task that is learned, for example mlp (trainyard list tasks)."},
                                  learning_tasks().names());
  const TaskKind& kind = learning_tasks().find(learn.task.name, fields.place_of("task"));
  learn.seed =
      fields.integer<std::uint64_t>({"seed", "Seed of the initial weights and of the batches, for example 2."}, 0, 1);
  learn.task.seed = learn.seed;
  kind.read(fields, learn.task);
  if (s.post_training && !learn.task.bandit.is_given())
    fields.refuse("task", learn.task.name + ": not modelled with post_training; expected bandit");
  if (s.post_training && !s.post_training->algorithm.has_rollouts)
    fields.refuse("task", "not modelled with post_training.algorithm: " + s.post_training->algorithm.name +
                              ", which generates no answers; expected grpo");
  if (!s.post_training && learn.task.bandit.is_given())
    fields.refuse("task", "bandit learns with the staleness of a loop; expected post_training in the scenario");
  if (kind.make || learn.task.bandit.is_given()) {
    fields.read({"steps", "Largest number of steps of the training, for example 200."}, learn.steps, 1,
                kMostLearnedSteps);
    learn.interval_steps = fields.integer_within<int>(
        {"evaluate_every", "Number of steps between two evaluations, for example 10. Default: a fiftieth of steps."}, 1,
        kMostLearnedSteps, std::max(1, learn.steps / 50));
    read_target(learn, fields);
  }
  if (kind.make) {
    require_whole_replicas(s, node.place);
    learn.leaves_all_gather =
        fields.choice({"leave_out",
                       "Exchange that is left out, to show what it is for: all-gather (each rank updates its slice of "
                       "the weights with the gradients of all, and does not get the slices of the others), or none."},
                      {"none", "all-gather"}, "none") == "all-gather";
    if (learn.leaves_all_gather && (s.plan.mechanism_name != kAllReduce || s.plan.compression))
      fields.refuse("leave_out",
                    "an all-gather is the second half of an all-reduce of whole gradients; it needs mechanism "
                    "all-reduce and no compression");
    read_rule(learn, fields, s);
    read_schedule(learn, fields, static_cast<double>(s.global_batch_size));
    read_ends(learn, fields);
    if (learn.target_accuracy && (learn.task.name == "quadratic" || learn.task.name == "double-well"))
      fail(fields.place_of("target"), fmt::format("learn.target.accuracy: task {} has none", learn.task.name));
  }
  fields.finish();
  return learn;
}

}  // namespace trainyard
