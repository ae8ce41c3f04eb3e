#include "scenarios/src/running/step_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/planning/offload.hpp"
#include "scenarios/src/planning/size.hpp"
#include "sim/process/job.hpp"
#include "strategies/step/lane_collectives.hpp"
#include "strategies/step/pass_table.hpp"
#include "topologies/machines/tcp_network.hpp"

namespace trainyard {
namespace {

/// If more operations than these are simulated and none are kept, consecutive kernels become one operation.
constexpr double kMostUnfused = 2e5;

/// A run with draws and at most so many operations simulates each rank with its own draws, in about a second; in about
/// ten seconds if shared draws only estimate the step.
constexpr double kMostWithOwnDraws = 2e6, kMostBeforeEstimate = 2e7;

constexpr const char* kStepsDiffer = "steps differ, and ranks that are alike in one are not in the next";

/// Says where the messages of links that fail go, if there are any: "" otherwise.
std::string words_of_dead_links(const Scenario& s) {
  const auto is_dead = [](const LinkFault& fault) { return fault.factor == 0; };
  return std::ranges::any_of(s.slow.links, is_dead)
             ? "; messages take other paths while a link is dead, over another adapter of the node if it has one, but "
               "stay on a link that is slow"
             : "";
}

/// Describes why ranks differ: their routes, if the fabric hashes them, otherwise the first reason that folding found.
std::string reason_of_classes(const Scenario& s, const std::vector<std::string>& reasons) {
  const std::string first = reasons.empty() ? "" : reasons.front();
  const bool is_hashed = std::ranges::any_of(s.cluster.parts(), [](const ClusterSpec& part) {
    return part.fabric && part.fabric->routing().starts_with("hashed");
  });
  if (!is_hashed || first.find("another speed") != std::string::npos) return first;
  return "hashed routes meet on other uplinks for each of them; routing: spray in cluster.fabric folds more ranks";
}

/// Traces and pictures need every operation and every change of memory.
bool keeps_all(const SimulateOptions& options) { return !options.trace.empty() || options.watch; }

/// Returns a number of steps that no actor exceeds before the steps are enough. One actor may do the steps of all.
int steps_of_search(const Scenario& s, const Plan& plan) {
  const std::int64_t most = SteadyState::most(*plan.search, plan.training.steps);
  if (s.plan.mechanism->is_synchronous()) return static_cast<int>(most);
  constexpr std::int64_t countable = 1 << 30;
  return static_cast<int>(std::min(s.ranks() * (most + plan.warm_steps), countable / plan.training.micro_batches));
}

}  // namespace

std::string reason_not_to_fold(const Scenario& s, const Plan& plan, const SimulateOptions& options) {
  const TransportKind transport = options.transport.value_or(s.transport);
  if (options.folding == Folding::off && options.draws <= DrawSharing::each_rank) return "folding is off";
  if (transport == TransportKind::packets) return "each packet stands for itself";
  if (transport != TransportKind::flow) return "SimGrid's own communications stand for themselves";
  if (s.input.is_used()) return "samples come from loaders, whose work depends on the times of the run";
  if (plan.search && (options.draws == DrawSharing::each_rank || s.slow.stragglers.empty())) return kStepsDiffer;
  return "";
}

StepRun::StepRun(const Scenario& s, const Plan& laid_out, const SimulateOptions& options)
    : scenario(s),
      planned(laid_out),
      transport(options.transport.value_or(s.transport)),
      machine(s, planned),
      breakdown(names),
      traffic({}),
      memory(keeps_all(options)),
      window(breakdown, names.intern(kStepOver), planned.warm_steps, planned.training.steps),
      plan(planned.training),
      states_{s.precision, s.optimizer, s.software} {
  prepare();
  simulate(options);
}

/// Completes the plan with the parts that depend on the machine, and with the warm-up steps.
void StepRun::prepare() {
  attach_host_ways(
      plan.offload, plan.ranks(), machine.cluster,
      scenario.plan.offload.is_used() ? scenario.plan.offload.place : scenario.plan.offload.activations_place);
  if (planned.search) plan.steps = steps_of_search(scenario, planned);
  plan.steps += planned.warm_steps;
  plan.marks_steps = planned.warm_steps > 0 || planned.search;
  if (machine.input) machine.input->feed(plan);
}

bool StepRun::stands_for(Actor actor, Actor first, Actor last) const {
  if (!fold || actor >= fold->classes()) return first <= actor && actor <= last;
  const std::vector<Actor>& members = fold->members(actor);
  const auto match = std::ranges::lower_bound(members, first);
  return match != members.end() && *match <= last;
}

void StepRun::make_programs() { mechanism = scenario.plan.mechanism->run({plan, machine.cluster, states_, names}); }

/// Returns the largest number of classes of ranks that can be simulated, and is worth it.
Actor StepRun::most_classes() const {
  const double most = kMostOperations / estimated_operations(planned, true) * scenario.ranks();
  const Actor half = scenario.ranks() / 2;
  return most < half ? static_cast<Actor>(most) : half;
}

/// Folds ranks that are equal on the machine as it is. Returns the reason if that does not halve their number.
/// `is_last_way`: throws UserError if there are more classes than can be simulated.
std::string StepRun::fold_equal(std::span<const LinkChange> changes, bool is_last_way) {
  const Actor half = scenario.ranks() / 2, limit = most_classes();
  auto found = std::make_unique<Fold>(machine.top(), *mechanism->source(), changes, limit);
  const std::string reason = reason_of_classes(scenario, found->reasons());
  std::string refusal = found->refusal();
  if (found->exceeds_limit() && !found->reasons().empty())  // the refusal ends with the first reason
    refusal.replace(refusal.size() - found->reasons().front().size(), std::string::npos, reason);
  if (found->exceeds_limit() && limit < half && is_last_way) refuse_classes(scenario, planned, refusal);
  if (!refusal.empty()) return refusal + words_of_dead_links(scenario);
  if (!found->halves())
    return fmt::format("{} of {} ranks differ from each other; {}", found->classes(), found->actors(), reason);
  fold = std::move(found);
  return "";
}

/// Folds ranks as if the last pod were full, if it is not and the exact run would take too long. Returns the reason if
/// they do not fold so.
std::string StepRun::fold_full_pods(const SimulateOptions& options) {
  // A last pod that is not full makes at least one class of each node.
  const double operations = estimated_operations(planned, true) * scenario.cluster.nodes / scenario.ranks();
  if (options.last_pod == LastPod::as_it_is) return "the last pod is simulated as it is";
  if (options.last_pod == LastPod::automatic && operations <= kMostBeforeEstimate) return "few operations";
  auto pods = std::make_unique<FullPods>(scenario, planned, machine, *mechanism, names, most_classes());
  if (!pods->refusal().empty()) return pods->refusal();
  fold = pods->take_fold();
  full_pods = std::move(pods);
  return "";
}

/// Lets ranks share factors, and folds them. Returns the reason if each rank keeps its own factors.
std::string StepRun::share_draws(const SimulateOptions& options, std::span<const LinkChange> changes) {
  const bool folds = options.folding == Folding::automatic;
  if (options.draws == DrawSharing::automatic && (!folds || estimated_operations(planned, true) <= kMostWithOwnDraws))
    return kStepsDiffer;
  auto replicas = std::make_unique<SlowestReplicas>(plan, *machine.stragglers(), plan.steps);
  const std::string lead = planned.search ? fmt::format("{}; ", kStepsDiffer) : "";
  if (!replicas->refusal().empty()) return lead + replicas->refusal();
  std::string why;
  for (const DrawSharing draws : {DrawSharing::some_replicas, DrawSharing::one_replica}) {
    if (options.draws > DrawSharing::sharing && options.draws != draws) continue;
    if (options.draws <= DrawSharing::sharing && draws == DrawSharing::some_replicas &&
        !replicas->replicas_meet_at_once())
      continue;
    replicas->choose(draws);
    if (options.draws == DrawSharing::automatic && replicas->is_estimate() &&
        estimated_operations(planned, true) <= kMostBeforeEstimate)
      continue;
    machine.stragglers()->share(replicas.get());
    why = folds ? fold_equal(changes, draws == DrawSharing::one_replica) : "folding is off";
    if (why.empty() || !folds) {
      shared_draws = std::move(replicas);
      return why;
    }
  }
  machine.stragglers()->share(nullptr);
  return why.empty() ? kStepsDiffer : lead + why;
}

/// Folds ranks: makes one actor of each equivalence class, if the run allows it.
void StepRun::fold_ranks(const SimulateOptions& options, std::span<const LinkChange> changes) {
  const double operations = estimated_operations(planned);
  const auto why_not = [&]() -> std::string {
    if (const std::string reason = reason_not_to_fold(scenario, planned, options); !reason.empty()) return reason;
    if (!mechanism->source()) return "with this mechanism, what a rank does next depends on the times of messages";
    if (keeps_all(options) && operations <= kMostOfTrace) return "a trace or picture shows every rank";
    if (planned.search) return share_draws(options, changes);
    if (options.folding == Folding::automatic && fold_full_pods(options).empty()) return "";
    // A slow rank makes each rank of a ring unlike the others. All take its factor if there are too many to simulate.
    const bool shares =
        !scenario.slow.stragglers.empty() &&
        (options.draws == DrawSharing::one_replica ||
         (options.draws == DrawSharing::automatic && estimated_operations(planned, true) > kMostOperations));
    const std::string why = fold_equal(changes, !shares);
    if (!shares || why.empty()) return why;
    const std::string why_not_shared = share_draws(options, changes);
    return why_not_shared.empty() ? "" : fmt::format("{}; {}", why, why_not_shared);
  };
  unfolded_reason = why_not();
  if (!fold) {
    traffic = Traffic(machine.top().links());
    return;
  }
  folded_ = std::make_unique<FoldedMachine>(machine.top(), *fold);
  const Multiplicity counts = fold->multiplicity();
  traffic = Traffic(folded_->links(), counts);
  counted_ = std::make_unique<OperationCount>(counts.actors);
}

/// Counts operations as if no kernels were fused.
void StepRun::count_unfused() {
  const auto& runs = mechanism->tables().fused().runs();
  counted_ = std::make_unique<OperationCount>(
      fold ? fold->multiplicity().actors : std::vector<double>{}, [&runs](const Op& op) {
        return is_fused(op.work.kernel) ? static_cast<double>(runs[op.work.kernel - kFirstFused].size()) : 1.0;
      });
}

/// Returns true if every exchange of a layer is one join, and all its members are of one equivalence class.
bool StepRun::meet_themselves() const {
  if (!fold) return false;
  for (const Lane lane :
       {Lane::tensor, Lane::context, Lane::ulysses, Lane::expert, Lane::expert_tensor, Lane::maxima}) {
    const LaneGroups& groups = plan.lane(lane);
    if (!groups.is_used()) continue;
    if (!groups.has_one_kind || groups.groups.front().settings.fidelity != Fidelity::modelled) return false;
    for (Actor c = 0; c < fold->classes(); ++c) {
      const Actor rank = fold->representative(c);
      if (groups.of_rank[rank] >= 0 && !fold->meets_itself(c, group_of_join(lane, groups.group(rank).members.front())))
        return false;
    }
  }
  return true;
}

void StepRun::find_steps() {
  const Mechanism& chosen = *scenario.plan.mechanism;
  const auto [first, behind_last] = mechanism->end_steps();
  window.find(*planned.search, {.first = first,
                                .end = fold ? fold->classes() : behind_last,
                                .is_joint = chosen.stops_together(),
                                .is_synchronous = chosen.is_synchronous(),
                                .step_end = [this] {
                                  mechanism->step_over();
                                  traffic_by_step_.push_back(traffic);
                                }});
}

Actor StepRun::last() const {
  if (!window.state()) return rank_of(breakdown.last(static_cast<std::size_t>(simulated_ranks())));
  const auto late = [this](Actor actor) {
    return is_synchronous() ? window.end(actor) : (window.end(actor) - window.begin(actor)) / window.own_steps(actor);
  };
  Actor last = 0;
  for (Actor actor = 1; actor < simulated_ranks(); ++actor)
    if (late(actor) > late(last)) last = actor;
  return rank_of(last);
}

void StepRun::simulate(const SimulateOptions& options) {
  const std::vector<LinkChange> changes = machine.link_changes(scenario);
  make_programs();
  end_if_interrupted();
  fold_ranks(options, changes);
  if (options.lays_out_only) return;
  const double part = static_cast<double>(simulated_ranks()) / scenario.ranks();
  require_size(scenario, planned, part, unfolded_reason);
  // If workers are not in step, no path belongs to a step. A path over several steps needs its pieces.
  const bool path = options.critical_path && is_synchronous();
  const bool pieces =
      path && (options.path_pieces || plan.marks_steps) && estimated_operations(planned) * part <= kMostKept;
  records_ = keeps_all(options) || pieces;
  std::vector<Observer*> others;
  for (const auto& observer : options.observe) others.push_back(observer(*this));
  const bool small = estimated_operations(planned) * part <= kMostUnfused;
  // A host launches the kernels of a CUDA graph together, so they are one operation.
  const bool graphs = scenario.software.host.runs_ahead && scenario.software.host.cuda_graphs;
  const bool apart = small && (path || (options.kernels_as_with_path && is_synchronous()));
  const bool fuses_unwatched = plan.fuses_kernels && (graphs || (!pieces && !apart));
  is_changed_by_watching_ = keeps_all(options) && ((fuses_unwatched && !graphs) || !scenario.slow.stragglers.empty());
  if (fuses_unwatched && (graphs || !keeps_all(options))) {
    plan.first_fused = kFirstFused;
    plan.series = meet_themselves() &&
                  std::ranges::all_of(others, [](const Observer* o) { return !o || o->interest().takes_stretches(); });
    make_programs();
    if (path) count_unfused();
  }
  if (planned.search)
    find_steps();
  else if (scenario.plan.mechanism_name == kAllReduce && is_synchronous())
    host_calls = std::make_unique<HostCallCount>(simulated_ranks(), plan, machine.cluster.spec(), scenario.software,
                                                 mechanism->tables(), names);
  streams = mechanism->streams();
  machine.cluster.fuse(mechanism->tables().fused().runs());
  Programs programs = fold ? fold->programs(*mechanism->source()) : mechanism->programs();
  if (machine.input) machine.input->add_to(programs, names);
  Progress progress;
  std::optional<PacketNetwork> packets;
  if (transport == TransportKind::packets) packets = tcp_network(machine.cluster, options.port_buffer);
  RunSetup setup{.observers = {&breakdown, plan.marks_steps ? &window : nullptr, &traffic, &memory,
                               mechanism->observer(), records_ ? &timeline : nullptr,
                               options.progress ? &progress : nullptr, counted_.get(), host_calls.get()},
                 .link_changes = fold ? fold->changes(changes) : changes,
                 .transport = transport,
                 .packets = packets ? &*packets : nullptr,
                 .enough = planned.search ? &window.enough() : nullptr};
  setup.observers.insert(setup.observers.end(), others.begin(), others.end());
  end = run_programs(folded_ ? *folded_ : machine.top(), std::move(programs), std::move(setup));
  require_begun(scenario.slow, end.end);
  if (!planned.search) return;
  const auto up_to = [this](int steps) { return traffic_by_step_[position(steps) - 1]; };
  found_traffic_ = up_to(window.simulated_steps());
  if (window.warm_steps() > 0) found_traffic_ = found_traffic_->increase_since(up_to(window.warm_steps()));
  traffic_by_step_.clear();
}

}  // namespace trainyard
