#include "scenarios/src/running/post_training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "models/reading/document.hpp"
#include "scenarios/src/post_training/loop.hpp"

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

/// Adds the critic: its optimizer steps, its forward pass over all samples, and its memory beside the policy's.
void add_critic(const Scenario& s, const Result& training, PostTrainingResult& r,
                const std::function<Result(const Scenario&)>& simulate_step) {
  const Result critic = simulate_step(critic_scenario(s));
  const double updates = critic.step_time.value * r.optimizer_steps,
               values = simulate_step(log_probability_scenario(s, &*s.post_training->critic)).step_time.value;
  r.training.value += updates;
  r.log_probabilities.value += values;
  r.critic.value = updates + values;
  const auto states = [](const Result::Memory& m) {
    return m.parameters.value + m.gradients.value + m.optimizer.value;
  };
  r.critic_states.value = states(critic.memory);
  r.critic_peak.value =
      std::max(training.memory.peak.value + states(critic.memory), critic.memory.peak.value + states(training.memory));
}

}  // namespace

Scenario critic_scenario(const Scenario& s) {
  const PostTrainingChoice& choice = *s.post_training;
  Node document = choice.training_document;
  remove_keys(document, {"measured"});
  replace_model(document, *choice.critic);
  set_field(*document.find("plan"), "global_batch_size",
            Node::scalar_node(fmt::format("{}", s.global_batch_size), choice.critic->place));
  return read_scenario(document, s.name + " (critic)");
}

Scenario log_probability_scenario(const Scenario& s, const LoopModel* other) {
  const PostTrainingChoice& choice = *s.post_training;
  Node document = choice.training_document;
  remove_keys(document, {"measured"});
  if (other) replace_model(document, *other);
  // A framework's mode may ask for ZeRO, which forward passes do not have; its software stays.
  if (!document.find("software") && !s.strategy.empty())
    set_field(document, "software", Node::scalar_node(s.software.name, choice.place));
  Node& plan = *document.find("plan");
  remove_keys(plan, {"strategy", "optimizer", "recompute", "activation_offload", "recompute_modules", "steps"});
  const Node* data = plan.find("data_parallel");
  Node size = Node::empty_map(choice.place);
  if (s.plan.mesh.widths.empty())
    size.fields.emplace_back("size", Node::scalar_node(fmt::format("{}", s.plan.mesh.data), choice.place));
  if (data && data->kind == Node::Kind::map)
    for (const char* key : {"mechanism", "all_reduce"})
      if (const Node* value = data->find(key)) size.fields.emplace_back(key, *value);
  set_field(plan, "data_parallel", size);
  std::int64_t micro_batch = choice.log_probability_micro_batch, samples = choice.samples();
  if (choice.packs) micro_batch *= choice.packs->sequences;
  const std::int64_t unit = micro_batch * s.plan.mesh.data;
  samples = choice.packs ? choice.packs->count(samples, unit) : (samples + unit - 1) / unit * unit;
  const auto set = [&](const char* key, const std::string& value) {
    set_field(plan, key, Node::scalar_node(value, choice.place));
  };
  set("mode", "inference");
  set("micro_batch_size", fmt::format("{}", micro_batch));
  set("global_batch_size", fmt::format("{}", samples));
  return read_scenario(document, s.name + " (log-probabilities)");
}

PostTrainingResult post_training_result(const Scenario& s, const Result& training,
                                        const std::function<Result(const Scenario&)>& simulate_step) {
  const PostTrainingChoice& choice = *s.post_training;
  PostTrainingResult r;
  generate_answers(choice, s.model.entry, r);
  r.training_gpus = s.ranks();
  r.optimizer_steps = static_cast<int>(choice.samples() / choice.training_samples);
  r.training = training.step_time * r.optimizer_steps;
  if (choice.log_probability_passes > 0)
    r.log_probabilities.value =
        choice.log_probability_passes * simulate_step(log_probability_scenario(s)).step_time.value;
  if (choice.reward) {
    r.reward = simulate_step(log_probability_scenario(s, &*choice.reward)).step_time;
    r.log_probabilities.value += r.reward.value;
  }
  if (choice.critic) add_critic(s, training, r, simulate_step);
  close_loop(choice, s.model.entry, r);
  return r;
}

}  // namespace trainyard
