#include "scenarios/src/running/post_training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "models/reading/document.hpp"
#include "models/reading/nearest.hpp"
#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/post_training/rank_loads.hpp"

namespace trainyard {
namespace {

/// Removes keys of a map that forward passes do not have.
void remove_keys(Node& map, std::initializer_list<std::string_view> keys) {
  std::erase_if(map.fields, [&](const auto& field) {
    return std::ranges::any_of(keys, [&](std::string_view key) { return same_name(key, field.first); });
  });
}

/// Lets a model of the loop replace the policy in a scenario.
void replace_model(Node& document, const LoopModel& other) {
  if (other.model.kind != Node::Kind::null) set_field(document, "model", other.model);
}

/// Adds a phase of the GPUs of `run`, which allocate `peak` in it.
void add_phase(const char* phase, const Result& run, Bytes peak, PostTrainingResult& r) {
  r.phases.push_back({phase, peak + run.memory.needed - run.memory.peak, run.memory.usable});
}

/// Adds the critic: its optimizer steps, its forward pass over all samples, and its memory. On GPUs of its own it works
/// beside the policy: values beside log-probabilities, which both must have before training begins, and then training.
/// On the policy's GPUs its states stay while the policy trains, as in verl without offload. `resident`: bytes that the
/// policy keeps on them during passes.
void add_critic(const Scenario& s, const Result& training, Bytes resident, PostTrainingResult& r,
                const std::function<Result(const Scenario&)>& simulate_step) {
  const PostTrainingChoice& choice = *s.post_training;
  const bool apart = choice.critic_nodes() > 0;
  const Scenario scenario = critic_scenario(s, apart);
  const Result critic = simulate_step(scenario);
  const Result pass = simulate_step(log_probability_scenario(s, &*choice.critic));
  const double updates = critic.step_time.value * r.optimizer_steps, values = pass.step_time.value;
  r.critic.value = updates + values;
  r.critic_states = critic.memory.states();
  if (apart) {
    r.critic_values.value = values;
    r.values_wait = without_residue(Seconds{values} - r.log_probabilities);
    r.updates_wait = without_residue(Seconds{updates} - r.training);
    r.hidden_critic = r.critic - r.critic_wait();
    r.critic_gpus = scenario.ranks();
    r.critic_peak = critic.memory.peak;
    add_phase("values", pass, pass.memory.peak + critic.memory.optimizer, r);
    add_phase("critic", critic, r.critic_peak, r);
    r.freed_states = simulate_step(critic_scenario(s, false)).memory.states();
    return;
  }
  r.training.value += updates;
  r.log_probabilities.value += values;
  r.critic_peak =
      std::max(training.memory.peak + critic.memory.states(), critic.memory.peak + training.memory.states());
  add_phase("values", pass, pass.memory.peak + resident, r);
  add_phase("training of policy and critic", training, r.critic_peak, r);
}

/// Adds the reference or teacher of an algorithm without rollouts. Under adapters, the frozen network is the reference.
void add_frozen_model(const Scenario& s, const Result& training, PostTrainingResult& r,
                      const std::function<Result(const Scenario&)>& simulate_step) {
  const LoopAlgorithm& algorithm = s.post_training->algorithm;
  const Result pass = simulate_step(log_probability_scenario(s, &*algorithm.frozen));
  r.reference = pass.step_time;
  if (algorithm.precomputed) return;
  r.log_probabilities = pass.step_time;
  const bool shares_network = algorithm.frozen->model.kind == Node::Kind::null && s.model.options.adapters.has_rank();
  if (!shares_network) r.reference_weights = pass.memory.parameters;
  r.reference_peak =
      std::max(training.memory.peak + r.reference_weights,
               pass.memory.peak + training.memory.states() - (shares_network ? pass.memory.parameters : Bytes{}));
  add_phase(algorithm.name == "dpo" ? "reference" : "teacher", training, r.reference_peak, r);
}

/// Gives the training half in `document` to the nodes of the critic, with as many replicas as fit.
void move_to_critic_nodes(Node& document, int nodes) {
  document.find("cluster")->find("nodes")->scalar = fmt::format("{}", nodes);
  Node* data = document.find("plan")->find("data_parallel");
  if (data && data->kind == Node::Kind::map) remove_keys(*data, {"size"});
}

}  // namespace

std::string too_large_words(const Result& result) {
  if (!result.plan_fits()) return "the plan does not fit in the memory of the GPUs that train";
  for (const PostTrainingResult::PhaseMemory& phase : result.post_training->phases)
    if (!phase.fits())
      return fmt::format("{}: {} of {} a GPU are needed, which does not fit", phase.phase, show(phase.needed),
                         show(phase.usable));
  return "";
}

Scenario critic_scenario(const Scenario& s, bool on_own_nodes) {
  const PostTrainingChoice& choice = *s.post_training;
  Node document = choice.training_document;
  remove_keys(document, {"measured"});
  replace_model(document, *choice.critic);
  Node& plan = *document.find("plan");
  const std::string name = s.name + " (critic)";
  std::int64_t samples = s.global_batch_size;
  int replicas = s.plan.mesh.data;
  if (on_own_nodes) {
    move_to_critic_nodes(document, choice.critic->nodes);
    remove_keys(plan, {"global_batch_size"});
    std::int64_t unit = 1;
    try {
      const Scenario alone = read_scenario(document, name);
      unit = alone.global_batch_size;
      replicas = alone.plan.mesh.data;
    } catch (const UserError& e) {
      fail(choice.critic->place, fmt::format("post_training.critic.nodes: the plan does not suit {} node{}: {}",
                                             choice.critic->nodes, choice.critic->nodes == 1 ? "" : "s", e.what()));
    }
    samples = choice.packs ? choice.packs->count(choice.training_samples, unit) : choice.training_samples;
    if (samples % unit != 0)
      fail(choice.critic->place,
           fmt::format("post_training.critic.nodes: {} samples of an optimizer step are no multiple of the {} that {} "
                       "node{} take at once; nearest plan.global_batch_size: {}",
                       samples, unit, choice.critic->nodes, choice.critic->nodes == 1 ? "" : "s",
                       nearest_multiples(unit, samples)));
  }
  const auto set = [&](const char* key, std::int64_t value) {
    set_field(plan, key, Node::scalar_node(fmt::format("{}", value), choice.critic->place));
  };
  if (choice.has_dynamic_batches()) {
    const SamplePacks::Batches batches =
        choice.packs->divided(choice.training_samples, replicas, choice.packs->most_tokens);
    samples = batches.global;
    set("micro_batch_size", batches.micro);
  }
  set("global_batch_size", samples);
  return read_scenario(document, name);
}

Scenario log_probability_scenario(const Scenario& s, const LoopModel* other) {
  const PostTrainingChoice& choice = *s.post_training;
  Node document = choice.training_document;
  remove_keys(document, {"measured"});
  if (other) replace_model(document, *other);
  const bool apart = other && other->nodes > 0;
  const Mesh& mesh = s.plan.mesh;
  const int replicas = apart ? critic_scenario(s, true).plan.mesh.data : mesh.data;
  if (apart) move_to_critic_nodes(document, other->nodes);
  // A framework's mode may ask for ZeRO, which forward passes do not have; its software stays.
  if (!document.find("software") && !s.strategy.empty())
    set_field(document, "software", Node::scalar_node(s.software.name, choice.place));
  Node& plan = *document.find("plan");
  remove_keys(plan, {"strategy", "optimizer", "recompute", "activation_offload", "recompute_modules", "steps"});
  const Node* data = plan.find("data_parallel");
  Node size = Node::empty_map(choice.place);
  size.fields.emplace_back("zero_stage", Node::scalar_node("0", choice.place));  // whatever the stack's default is
  if (mesh.widths.empty())
    size.fields.emplace_back("size", Node::scalar_node(fmt::format("{}", replicas), choice.place));
  if (data && data->kind == Node::Kind::map)
    for (const char* key : {"mechanism", "all_reduce"})
      if (const Node* value = data->find(key)) size.fields.emplace_back(key, *value);
  set_field(plan, "data_parallel", size);
  std::int64_t micro_batch = choice.log_probability_micro_batch, samples = choice.samples();
  if (choice.has_dynamic_batches()) {
    const SamplePacks::Batches batches =
        choice.packs->divided(samples, replicas, static_cast<double>(micro_batch) * choice.padded_tokens);
    micro_batch = batches.micro;
    samples = batches.global;
  } else {
    if (choice.packs) micro_batch *= choice.packs->sequences;
    // The only micro-batch of a rank with fewer samples holds these alone.
    micro_batch =
        std::min(micro_batch, choice.packs ? choice.packs->of_rank(samples, replicas) * choice.packs->sequences
                                           : (samples + replicas - 1) / replicas);
    const std::int64_t unit = micro_batch * replicas;
    samples = choice.packs ? choice.packs->count(samples, unit) : (samples + unit - 1) / unit * unit;
  }
  const auto set = [&](const char* key, const std::string& value) {
    set_field(plan, key, Node::scalar_node(value, choice.place));
  };
  set("mode", "inference");
  set("micro_batch_size", fmt::format("{}", micro_batch));
  set("global_batch_size", fmt::format("{}", samples));
  return read_scenario(document, s.name + " (log-probabilities)");
}

void add_training_half(const Scenario& s, const Result& training, PostTrainingResult& r,
                       const std::function<Result(const Scenario&)>& simulate_step) {
  const PostTrainingChoice& choice = *s.post_training;
  r.training_gpus = s.ranks();
  r.colocated_gpus = choice.algorithm.has_rollouts && choice.shares_gpus() ? r.training_gpus : 0;
  r.policy_ranks = s.ranks() / s.plan.mesh.data;
  if (s.plan.zero == ZeroStage::parameters)
    r.policy_ranks *= s.plan.zero_group > 0 ? s.plan.zero_group : s.plan.mesh.data;
  if (choice.shares_gpus()) r.moved_states = training.memory.parameters + training.memory.optimizer;
  r.optimizer_steps = static_cast<int>(choice.samples() / choice.training_samples);
  const RankLoads loads = rank_loads(choice, s.network, s.plan.mesh.data);
  const int sharing_ranks = s.ranks() / s.plan.mesh.data;
  const double padded = static_cast<double>(choice.samples()) * choice.padded_tokens;
  r.training = (training.step_time + training.breakdown.compute * (loads.training - 1)) * r.optimizer_steps;
  if (!choice.algorithm.has_rollouts) {
    if (choice.algorithm.frozen) add_frozen_model(s, training, r, simulate_step);
    return;
  }
  const LoopController& controller = choice.stack.controller;
  const Seconds update = controller.update_time(padded), pass = controller.pass_time(padded, sharing_ranks);
  r.controller = update + pass * choice.log_probability_passes;
  r.training += update;
  // The optimizer states of colocated training are in host memory until its first update, others stay on the GPU.
  const Bytes resident = choice.shares_gpus() ? Bytes{} : training.memory.optimizer;
  if (choice.log_probability_passes > 0) {
    const Result forward = simulate_step(log_probability_scenario(s));
    r.log_probabilities =
        choice.log_probability_passes * (forward.step_time + forward.breakdown.compute * (loads.passes - 1) + pass);
    const bool has_reference = choice.log_probability_passes > 1;
    add_phase(has_reference ? "log-probabilities of policy and reference" : "log-probabilities", forward,
              forward.memory.peak + resident, r);
    if (has_reference && !s.model.options.adapters.has_rank()) r.reference_weights = forward.memory.parameters;
  }
  if (choice.reward) {
    const Result reward = simulate_step(log_probability_scenario(s, &*choice.reward));
    // Samples that rounds throw away have rewards too.
    r.reward = reward.step_time *
               (static_cast<double>(choice.sampling.is_given() ? choice.started_samples() : choice.samples()) /
                static_cast<double>(choice.samples()));
    add_phase("reward", reward, reward.memory.peak + resident, r);
    r.log_probabilities.value += r.reward.value;
  }
  if (choice.critic) add_critic(s, training, resident, r, simulate_step);
}

PostTrainingResult post_training_result(const Scenario& s, const Result& training,
                                        const std::function<Result(const Scenario&)>& simulate_step) {
  const PostTrainingChoice& choice = *s.post_training;
  PostTrainingResult r;
  r.algorithm = choice.algorithm.name;
  if (choice.algorithm.has_rollouts) generate_answers(choice, s.model.entry, r);
  add_training_half(s, training, r, simulate_step);
  if (choice.algorithm.has_rollouts)
    close_loop(choice, s.model.entry, r);
  else
    close_without_rollouts(choice, r);
  return r;
}

}  // namespace trainyard
