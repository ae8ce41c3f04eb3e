#include "scenarios/src/running/shared_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <memory>

#include "scenarios/src/planning/offload.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/step_machine.hpp"
#include "sim/covered_time.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/folding/folded_machine.hpp"
#include "sim/folding/joint_source.hpp"
#include "sim/index.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/step/pass_table.hpp"
#include "topologies/machines/joint_machine.hpp"

namespace trainyard {
namespace {

/// Everything that the programs of one job need.
struct JobParts {
  JobParts(const PlacedJob& job, Names& names)
      : machine(*job.scenario, *job.plan),
        plan(job.plan->training),
        states{job.scenario->precision, job.scenario->optimizer, job.scenario->software} {
    const Scenario& s = *job.scenario;
    if (!s.plan.mechanism->actors(plan, machine.cluster).empty())
      throw UserError(
          fmt::format("jobs: {} has actors beside its ranks, which are not modelled beside other jobs", s.name));
    attach_host_ways(plan.offload, plan.ranks(), machine.cluster,
                     s.plan.offload.is_used() ? s.plan.offload.place : s.plan.offload.activations_place);
    // Jobs that have done their steps go on; ten times as many steps as estimated are never reached.
    constexpr double countable = 1 << 30, most = 1 << 20;
    plan.steps =
        static_cast<int>(std::clamp(10 * job.steps + 100, 1.0, std::min(most, countable / plan.micro_batches)));
    plan.marks_steps = true;
    plan.first_fused = plan.fuses_kernels ? kFirstFused : std::uint16_t{0};
    mechanism = s.plan.mechanism->run({plan, machine.cluster, states, names});
    if (!mechanism->source())
      throw UserError(
          fmt::format("jobs: {} has ranks whose operations depend on the times of the run, which are not modelled "
                      "beside other jobs",
                      s.name));
    machine.cluster.fuse(mechanism->tables().fused().runs());
  }
  JobParts(const JobParts&) = delete;

  StepMachine machine;
  TrainingPlan plan;
  TrainingStates states;
  std::unique_ptr<MechanismRun> mechanism;
};

/// The steps of a job that are watched: those after `warm` ones, at least `steps`, in whole periods.
struct JobWindow {
  int warm = 1, steps = 1, period = 1;
};

/// Watches the ends of steps, and the bytes on links from the moment on at which all jobs are warm.
class JobWatch : public Observer {
 public:
  JobWatch(NameId step_over, std::vector<std::size_t> job_of_actor, std::vector<JobWindow> windows, std::size_t links)
      : step_over_(step_over),
        job_of_actor_(std::move(job_of_actor)),
        windows_(std::move(windows)),
        actors_(windows_.size(), 0),
        steps_of_actor_(job_of_actor_.size(), 0),
        missing_(windows_.size()),
        ends_(windows_.size()),
        bytes_(windows_.size(), std::vector<double>(links, 0)),
        limited_(windows_.size(), std::vector<CoveredTime>(links)) {
    for (const std::size_t job : job_of_actor_) ++actors_[job];
  }

  void finished(const OpRun& run) override {
    if (run.op->name != step_over_ || run.outcome != Outcome::done) return;
    const auto actor = position(run.op->actor);
    const std::size_t job = job_of_actor_[actor], step = steps_of_actor_[actor]++;
    while (missing_[job].size() <= step) missing_[job].push_back(actors_[job]);
    if (--missing_[job][step] > 0) return;
    ends_[job].push_back(run.ended.value);
    end_step(run.ended.value);
  }
  void transferred(const TransferRun& run) override {
    if (begin_ < 0) return;
    const std::size_t job = job_of_actor_[position(run.from)];
    for (const LinkUse& use : run.route.links) bytes_[job][position(use.link)] += run.bytes.value * use.weight;
    if (run.limiting >= 0)
      limited_[job][position(run.limiting)].cover(std::max(run.started.value, begin_), run.ended.value);
  }
  Interest interest() const override { return {.level = Level::ops}; }

  const bool& enough() const { return enough_; }
  double measured_time() const { return end_ - begin_; }
  double bytes(std::size_t job, std::size_t link) const { return bytes_[job][link]; }
  double limited(std::size_t job, std::size_t link) const { return limited_[job][link].total(); }
  JobSteps steps(std::size_t job) const {
    const std::vector<double>& ends = ends_[job];
    JobSteps result;
    result.shortest = std::numeric_limits<double>::infinity();
    result.ends = ends;
    const std::size_t first = first_measured(job), period = position(windows_[job].period);
    const std::size_t last = first + (ends.size() - 1 - first) / period * period;
    for (std::size_t i = first + 1; i <= last; ++i) {
      result.shortest = std::min(result.shortest, ends[i] - ends[i - 1]);
      result.longest = std::max(result.longest, ends[i] - ends[i - 1]);
      ++result.steps;
    }
    if (result.steps > 0) result.mean = (ends[last] - ends[first]) / result.steps;
    return result;
  }

 private:
  NameId step_over_;
  std::vector<std::size_t> job_of_actor_;
  std::vector<JobWindow> windows_;  // indexed by job
  std::vector<int> actors_;         // indexed by job
  std::vector<std::size_t> steps_of_actor_;
  std::vector<std::vector<int>> missing_;   // indexed by job and step: number of actors that have not ended it yet
  std::vector<std::vector<double>> ends_;   // indexed by job: end of each step, s
  std::vector<std::vector<double>> bytes_;  // indexed by job and link
  std::vector<std::vector<CoveredTime>> limited_;  // likewise; times in which the link limits a message
  double begin_ = -1, end_ = -1;                   // measured time, s; −1: not reached
  bool enough_ = false;

  static constexpr double kRounding = 1e-9;  // s: steps of jobs that are alike end at the same moment but for rounding

  /// Returns the index of the step at whose end the job's measured steps begin.
  std::size_t first_measured(std::size_t job) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(ends_[job], begin_ - kRounding) - ends_[job].begin());
  }
  void end_step(double now) {
    end_ = now;
    bool warm = true, done = true;
    for (std::size_t job = 0; job < ends_.size(); ++job)
      warm = warm && ends_[job].size() >= position(windows_[job].warm);
    if (!warm) return;
    if (begin_ < 0) begin_ = now;
    for (std::size_t job = 0; job < ends_.size(); ++job)
      done = done && ends_[job].size() > first_measured(job) + position(windows_[job].steps);
    enough_ = done;
  }
};

/// Throws UserError if the jobs have more operations than are simulated. `part`: share of the ranks that are simulated.
void require_size_of_jobs(const std::vector<PlacedJob>& jobs, double part, const std::string& why_unfolded) {
  double operations = 0;
  for (const PlacedJob& job : jobs) operations += job.steps * job.plan->operations.fused * part;
  if (operations <= kMostOperations) return;
  throw UserError(
      fmt::format("share: about {:.3g} operations until each job has done its steps; at most {:.3g} are simulated "
                  "(fewer --steps, fewer ranks or micro-batches, or jobs whose steps are of like length){}",
                  operations, kMostOperations, why_unfolded.empty() ? "" : "; ranks are not folded: " + why_unfolded));
}

std::uint64_t bits_of(Seconds time) { return static_cast<std::uint64_t>(to_picoseconds(time).count); }

}  // namespace

SharedTimes run_jobs(const ClusterSpec& cluster, const std::vector<PlacedJob>& jobs, const SharedRunOptions& options) {
  Names names;
  std::deque<JobParts> parts;
  std::map<std::uint64_t, std::unique_ptr<ClusterMachine>> shared;  // the whole cluster by the software's latency
  std::vector<JointMachine::Job> joint_jobs;
  std::vector<JointSource::Part> sources;
  std::vector<JobWindow> windows;
  Actor ranks = 0;
  for (const PlacedJob& job : jobs) ranks += job.scenario->ranks();
  for (const PlacedJob& job : jobs) {
    const Scenario& s = *job.scenario;
    JobParts& job_parts = parts.emplace_back(job, names);
    std::unique_ptr<ClusterMachine>& machine = shared[bits_of(s.software.network_step)];
    if (!machine) {
      ClusterSpec spec = cluster;
      spec.node = s.cluster.node;  // with the rates of its chips under its software
      machine = std::make_unique<ClusterMachine>(spec, s.software);
    }
    std::vector<Actor> places = shared_places(job_parts.machine.cluster, *machine, job.nodes);
    std::vector<Actor> devices;
    for (std::size_t i = position(s.ranks()); i < places.size(); ++i)
      devices.push_back(places[i] < 0 ? -1 : ranks + places[i]);
    Work pause;
    pause.kernel = job.start.value > 0 ? kJobPause : std::uint16_t{0};
    sources.push_back({job_parts.mechanism->source(), std::move(devices), pause});
    joint_jobs.push_back(
        {s.name, &std::as_const(job_parts.machine).top(), machine.get(), s.ranks(), std::move(places), job.start});
    const int period = job.period;
    windows.push_back({std::max(1, job.plan->warm_steps), (options.steps + period - 1) / period * period, period});
    end_if_interrupted();
  }
  JointMachine machine(std::move(joint_jobs));
  const JointSource source(std::move(sources));

  const std::vector<LinkChange> changes = background_changes(cluster.background, shared.begin()->second->graph());
  SharedTimes times;
  times.ranks = ranks;
  std::unique_ptr<Fold> fold;
  std::unique_ptr<FoldedMachine> folded;
  if (options.folding == Folding::automatic && options.transport == TransportKind::flow) {
    fold = std::make_unique<Fold>(machine, source, changes, ranks / 2);
    times.unfolded_reason = fold->refusal();
    if (!fold->halves()) {
      if (times.unfolded_reason.empty())
        times.unfolded_reason = fmt::format("{} of {} ranks differ from each other", fold->classes(), fold->actors());
      fold.reset();
    }
  } else {
    times.unfolded_reason = "folding is off";
  }
  times.simulated_ranks = fold ? fold->classes() : ranks;
  require_size_of_jobs(jobs, static_cast<double>(times.simulated_ranks) / ranks, times.unfolded_reason);
  if (fold) folded = std::make_unique<FoldedMachine>(machine, *fold);
  Machine& simulated = folded ? static_cast<Machine&>(*folded) : machine;

  std::vector<std::size_t> job_of_actor;
  for (Actor actor = 0; actor < times.simulated_ranks; ++actor)
    job_of_actor.push_back(source.part_of(fold ? fold->representative(actor) : actor));
  JobWatch watch(names.intern(kStepOver), job_of_actor, windows, simulated.links().size());
  Programs programs;
  if (fold)
    programs = fold->programs(source);
  else
    for (Actor actor = 0; actor < ranks; ++actor) programs.push_back(source.program(actor));
  Progress progress;
  run_programs(simulated, std::move(programs),
               {.observers = {&watch, options.progress ? &progress : nullptr},
                .link_changes = fold ? fold->changes(changes) : changes,
                .transport = options.transport,
                .enough = &watch.enough()});
  if (!watch.enough())
    throw UserError("share: a job has ended its steps before another one had done its own; expected fewer --steps");
  for (std::size_t job = 0; job < jobs.size(); ++job) times.jobs.push_back(watch.steps(job));
  for (std::size_t l = 0; l < simulated.links().size(); ++l) {
    const Link& link = simulated.links()[l];
    JobLink job_link{link.name, link.kind, fold ? fold->links()[l].links : 1, 0, {}, {}};
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      job_link.use_by_job.push_back(watch.bytes(job, l) / watch.measured_time() / link.capacity.value);
      job_link.limits_job.push_back(watch.limited(job, l) / watch.measured_time());
      job_link.use += job_link.use_by_job.back();
    }
    if (job_link.use > 0) times.links.push_back(std::move(job_link));
  }
  return times;
}

}  // namespace trainyard
