// Reads the failures of a post-training loop, and refuses the keys that a loop does not have.
#include <fmt/format.h>

#include "scenarios/src/reading/scenario.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {

void require_loop(Fields& root, Fields& plan) {
  const auto refuse = [](const Place& where, const std::string& what) {
    fail(where, what + ": not modelled with post_training; leave one of them out");
  };
  if (root.has("input")) refuse(root.place_of("input"), "input");
  for (const char* key : {"training", "step_time", "measured_step"})
    if (plan.has(key)) refuse(plan.place_of(key), fmt::format("plan.{}", key));
}

ClusterSpec loop_machine(const Scenario& s) {
  ClusterSpec machine = s.cluster;
  const PostTrainingChoice& choice = *s.post_training;
  if (choice.has_own_nodes() || choice.critic_nodes() > 0) machine.nodes = choice.machine_nodes;
  return machine;
}

FailureChoice read_loop_failures(Fields& faults, const Scenario& s, const Catalog& catalog) {
  const PostTrainingChoice& loop = *s.post_training;
  for (const char* key : {"stragglers", "links"})
    if (faults.has(key)) faults.refuse(key, "not modelled with post_training; leave one of them out");
  if (s.plan.mechanism_name != kAllReduce)
    fail(faults.place(), "faults: with post_training, failures are modelled for replicas that all-reduce gradients");
  const ClusterSpec machine = loop_machine(s);
  FailureChoice choice = read_failures(faults, {machine, s.ranks(), 0, false}, catalog);
  if (!choice.is_given()) return choice;
  const Node* restart = faults.child_unless_null("restart");
  if (restart && choice.recovery.elastic)
    fail(restart->place, "faults.restart.elastic: not modelled with post_training; expected false");
  if (restart && loop.has_own_nodes() && choice.recovery.spares)
    fail(restart->place,
         "faults.restart.spares: with post_training.generation.nodes, every failed node is replaced at once; leave it "
         "out");
  if (!loop.length.is_given())
    fail(choice.place,
         "faults: the length of the loop is needed; expected post_training.length: {steps: 1000} or {time: 5 d}");
  check_failures(choice, loop.length);
  return choice;
}

}  // namespace trainyard
