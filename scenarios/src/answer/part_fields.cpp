// The fields of the costs of a training: energy and money.
// JSON fields of what hosts do (the calls of a step, the input pipeline), and of how busy expert ranks are.

#include "scenarios/src/answer/failure_result.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"

namespace trainyard {

double Result::training_energy() const {
  if (!energy || training_time.value <= 0) return 0;
  // Failures cost repeated work, at full power, and time without work, at idle power.
  const double down = failures ? (failures->down + failures->without_node).value : 0, busy = whole_time().value - down;
  return energy->pue * (energy->devices() / whole_step().value * busy + energy->idle_power * down);
}

JsonFields<Energy> energy_fields() {
  using E = Energy;
  return JsonFields<E>()
      .value("step_J", "J", &E::step,
             "energy of the site in a step, with post_training of the loop: that of the devices, times PUE")
      .value(
          "step_kWh", "kWh", [](const E& e) { return e.step() / kJoulesOfKwh; }, "energy of the site in a step")
      .value("devices_J", "J", &E::parts, "energy in a step by part of the cluster, without PUE")
      .value("pue", "", &E::pue, "power usage effectiveness of the site")
      .value("gpu_power_W", "W", &E::gpu_power, "mean power of a device over the step and over all devices")
      .value("gpu_power_limit_W", "W", &E::gpu_power_limit, "most power that a device may draw")
      .value("idle_power_W", "W", &E::idle_power, "power of all devices without work")
      .value("not_stated", "", &E::not_stated, "parts that are left out, because the catalog has no power of them")
      .when(&E::not_stated, "if there are any");
}

JsonFields<Ownership> ownership_fields() {
  using O = Ownership;
  using R = YearlyRent;
  return JsonFields<O>()
      .value("purchase_parts", "money", &O::purchase_prices, "purchase price by part")
      .value(
          "purchase", "money", [](const O& o) { return o.price(); }, "purchase price, the sum of its parts")
      .value("year_parts", "money", &O::yearly, "cost of a year in use by part")
      .value(
          "year", "money", [](const O& o) { return o.year(); }, "cost of a year in use, the sum of its parts")
      .value("years", "years", &O::years, "years of depreciation")
      .value(
          "total", "money", [](const O& o) { return o.total(); },
          "cost of owning it for the years of depreciation, always in use")
      .value(
          "total_parts", "money",
          [](const O& o) {
            const auto parts = o.parts_of_total();
            return std::map<std::string, double>(parts.begin(), parts.end());
          },
          "parts of that cost: nodes, network and storage, then interest, power, cooling, staff and space")
      .value(
          "per_million", "money", &O::per_million,
          "cost of a million tokens (of samples if the network has no tokens), if the cluster is always in use; with "
          "failures, of a million that are completed; of a fleet, for the horizon and the tokens of the shown run")
      .value("interest", "share", &O::interest, "interest of a year")
      .value("owned_nodes", "", &O::owned_nodes, "nodes that were owned before: the purchase price is of the others")
      .when(&O::owned_nodes, "with prices.purchase.owned")
      .value("delivery_s", "s", &O::delivery, "time until all nodes are delivered")
      .when(&O::delivery, "with prices.purchase.delivery")
      .value("training", "money", &O::training, "cost of the time that the whole training takes")
      .when(&O::training, "with plan.training or post_training.length")
      .list("yearly_rents", &O::rents,
            JsonFields<R>()
                .value("terms", "", &R::terms, "on demand, or the term of a reservation")
                .value("unused", "money", &R::unused, "rent of a year in which the devices are not used")
                .value("used", "money", &R::used, "rent of a year in which they are always used"),
            "rents of the bought devices for a year, with which owning them is compared; with the costs of the nodes "
            "that were owned before, in use")
      .when(&O::rents, "if the devices have a rent")
      .value(
          "spot_year", "money", &O::spot_year,
          "rent of the same devices for a year on spot nodes; the comparison leaves it out, since they are taken away")
      .when(&O::spot_year, "if the devices have a price of spot nodes")
      .value(
          "break_even_use", "share",
          [](const O& o) {
            const auto point = break_even(o);
            return point ? std::optional(point->use) : std::nullopt;
          },
          "least use of the cluster, as a share of all hours, at which owning it costs no more than any of these "
          "rents; null: at no use")
      .when(&O::rents, "if the devices have a rent")
      .list(
          "break_evens", [](const O& o) { return compare_rents(o); },
          JsonFields<RentComparison>()
              .value("terms", "", &RentComparison::terms, "on demand, the term of a reservation, or spot")
              .value("year", "money", &RentComparison::year, "rent of a year at full use")
              .value("use", "share", &RentComparison::use,
                     "least use at which owning costs no more; null: it costs more even at full use")
              .value("purchase", "money", &RentComparison::price,
                     "purchase price at which owning costs as much, always in use; null: its use alone costs more")
              .value("node", "money", &RentComparison::node, "price of a bought node at that price; null: none")
              .value("months", "months", &RentComparison::months,
                     "months of full use after which the purchase costs as much; null: it never does"),
          "owning beside each rent; each value is changed by itself")
      .when([](const O& o) { return !o.rents.empty() || o.spot_year > 0; }, "if the devices have a rent")
      .value(
          "break_even_terms", "", [](const O& o) { return break_even(o).value_or(BreakEven{}).terms; },
          "the rent that is the last to cost as much; empty: one costs less at full use")
      .value(
          "break_even_years", "", [](const O& o) { return o.break_even_years(); },
          "years of full use after which the purchase costs as much as the least rent; null: it never does")
      .when_since("break_even_terms", &O::rents, "if the devices have a rent");
}

JsonFields<RentCost> rent_cost_fields() {
  using C = RentCost;
  return JsonFields<C>()
      .value("terms", "", &C::terms, "kind of rent: on demand, a reserved term, or spot")
      .value("error", "", &C::error, "why the training is impossible on these terms")
      .when(&C::error, "if it is impossible")
      .value("training", "money", &C::training,
             "cost of the whole training, with unused hours of a reserved term and electricity")
      .value("training_s", "s", &C::time, "time of the training with failures, interruptions and checkpoints")
      .value("goodput", "share", &C::goodput, "useful share of the time")
      .value("paid_hours", "h", &C::paid_hours, "hours of the cluster that are used, or reserved if these are more")
      .when_since(
          "training", [](const C& c) { return c.error.empty(); }, "if it is possible")
      .value("energy_J", "J", &C::energy, "energy of the site in that time, with that of lost work and of down time")
      .when(&C::energy, "if the power of the devices is stated");
}

JsonFields<Money> money_fields() {
  using M = Money;
  return JsonFields<M>()
      .value("currency", "", &M::currency, "currency of the prices")
      .value("step", "money", &M::step,
             "cost of a step, with post_training of a step of the loop; if the length of the training is given, "
             "training over its completed steps, with failures, checkpoints and phases")
      .value("per_million", "money", &M::per_million,
             "cost of a million tokens, or of a million samples if the network has no tokens: that of a step over its "
             "tokens")
      .value("per_million_answers", "money", &M::per_million_answers, "cost of a million answers that a loop trains on")
      .when(&M::per_million_answers, "with post_training")
      .value("of_tokens", "", &M::of_tokens, "true: per_million is the cost of tokens; false: of samples")
      .value("training", "money", &M::training, "cost of the whole training, including failures")
      .when(&M::training, "with plan.training or post_training.length")
      .object("ownership", &M::ownership, ownership_fields(), "cost of buying the cluster")
      .when(&M::ownership, "with prices of a purchase")
      .list("rents", &M::rents, rent_cost_fields(), "the whole training by each kind of rent")
      .when(&M::rents, "with plan.training or post_training.length, and prices of reserved terms or spot");
}

namespace {

using Checkpoint = FailureResult::Checkpoint;

JsonFields<FailureResult::SetFailure> set_failure_fields() {
  using F = FailureResult::SetFailure;
  return JsonFields<F>()
      .value("component", "", &F::component, "component that failed, for example gpu 5")
      .value("at_s", "s", &F::time, "time of the failure, from the start of the training")
      .value("steps", "", &F::steps, "number of steps completed until then")
      .value("lost_steps", "", &F::lost_steps, "number of steps that the failure undid")
      .value("lost_work_s", "s", &F::lost_work, "time spent on the lost steps")
      .value("node_was_away", "", &F::node_was_away, "true: its node was already out of service, and nothing was lost");
}

JsonFields<FailureResult::Pool> pool_fields() {
  using P = FailureResult::Pool;
  return JsonFields<P>()
      .value("pool", "", &P::name, "training, generation; GPUs that do both in turn are all, or both beside generation")
      .value("gpus", "", &P::gpus, "number of its GPUs")
      .value("failures", "", &P::failures, "number of its failures in a loop")
      .value("lost_s", "s", &P::lost,
             "time of the loop lost to its failures and checkpoints; with the useful time and unfinished_step_s, these "
             "sum to training_time_s");
}

JsonFields<FailureResult::ReducedReplicas> reduced_replicas_fields() {
  using R = FailureResult::ReducedReplicas;
  return JsonFields<R>()
      .value("replicas", "", &R::replicas, "number of remaining replicas")
      .value("step_time_s", "s", &R::step_time, "step time with these replicas")
      .value("simulated", "", &R::simulated,
             "true: this step was simulated; false: it is scaled from the full step, as if the batch divided evenly");
}

JsonFields<BestInterval> best_interval_fields() {
  return JsonFields<BestInterval>()
      .value("young", "s", &BestInterval::young, "best interval by the formula of Young 1974")
      .value("daly", "s", &BestInterval::daly, "best interval by the formula of Daly 2006")
      .value("simulated", "s", &BestInterval::simulated, "interval at which simulated runs lose least")
      .value("shortest", "s", &BestInterval::shortest,
             "time to write one checkpoint: a shorter interval only waits for the write")
      .value("nearly_from", "s", &BestInterval::range_begin,
             "shortest interval with a goodput within 0.1 % of the best")
      .value("nearly_until", "s", &BestInterval::range_end, "longest interval with a goodput within 0.1 % of the best")
      .value("goodput", "share", &BestInterval::goodput,
             "goodput at the simulated best interval, through other draws of failures than those of the trainings")
      .value("failures", "", &BestInterval::failures, "approximate number of failures in each run of the search");
}

JsonFields<Checkpoint> checkpoint_fields() {
  return JsonFields<Checkpoint>()
      .value("bytes", "bytes", &Checkpoint::bytes, "size of a checkpoint of the whole model and optimizer")
      .value("storage", "", &Checkpoint::storage, "storage of checkpoints; empty: only times are given")
      .value("snapshot_s", "s", &Checkpoint::snapshot, "time of the copy from the GPUs to the memory of their hosts")
      .when(&Checkpoint::snapshot, "if it is given, or a storage is")
      .value("stall_s", "s", &Checkpoint::stall, "time for which a checkpoint stops training")
      .value("write_s", "s", &Checkpoint::write, "time until a checkpoint is written")
      .value("load_s", "s", &Checkpoint::load, "time to read a checkpoint")
      .object("best_interval_s", &Checkpoint::best, best_interval_fields(),
              "interval between checkpoints that costs least time")
      .when([](const Checkpoint& c) { return c.best.simulated.value > 0; }, "if an optimum was searched");
}

JsonFields<FailureResult> training_fields() {
  using F = FailureResult;
  return JsonFields<F>()
      .value("runs", "", &F::runs, "number of simulated trainings over which the figures are averaged")
      .value("count", "", &F::failures, "number of failures in a training")
      .value("by_component", "", &F::failures_of, "number of failures in a training, by kind of component")
      .value("time_between_s", "s", &F::time_between_failures, "mean time between failures of the whole cluster")
      .value("training_time_s", "s", &F::end,
             "length of all steps, including the cost of failures, without training_phases")
      .value("steps", "", &F::steps, "number of completed steps")
      .value("minibatches", "", &F::minibatches, "number of mini-batches of single replicas in the completed steps")
      .value("lost_minibatches", "", &F::lost_minibatches,
             "number of mini-batches that failures undid, including unfinished ones: each asynchronous worker that "
             "fails loses one")
      .value("effective_epochs", "", &F::effective_epochs, "passes over the data by the completed steps")
      .value("planned_epochs", "", &F::planned_epochs,
             "passes over the data that the same time allows without failures and checkpoints")
      .when_since("effective_epochs", &F::effective_epochs, "if plan.training has epochs")
      .value("effective_step_time_s", "s", &F::effective_step_time,
             "training_time_s divided by the number of completed steps")
      .value("checkpoint_stall_s", "s", &F::stalled, "time for which training is stopped for checkpoints")
      .value("down_s", "s", &F::down, "time to detect failures, restart and read checkpoints")
      .value("waiting_for_repair_s", "s", &F::without_node,
             "time for which training is stopped until a node is repaired")
      .value("fewer_replicas_s", "s", &F::slower,
             "time that an elastic training loses because it runs with fewer replicas, and a post-training loop with "
             "fewer engines")
      .value("unfinished_step_s", "s", &F::unfinished, "time of the unfinished step at the end")
      .list("steps_of_fewer_replicas", &F::reduced_replicas, reduced_replicas_fields(),
            "step times of an elastic training that has lost replicas")
      .when(&F::reduced_replicas, "if replicas were lost")
      .list("pools", &F::pools, pool_fields(), "pools of GPUs of a post-training loop")
      .value("waiting_for_engines_s", "s", &F::without_engines,
             "time for which training is stopped because no engine is left, with the step that this cuts short")
      .when_since("pools", &F::pools, "with post_training")
      .list("said", &F::set_failures, set_failure_fields(), "failures that the scenario lists, in its order")
      .when(&F::set_failures, "if it lists any");
}

}  // namespace

JsonFields<FailureResult> failure_fields() {
  using F = FailureResult;
  const auto checkpoints = [](const F& f) { return f.checkpoint.interval.value > 0; };
  return JsonFields<F>()
      .value("goodput", "share", &F::goodput,
             "useful share of the training time; the rest is lost to failures and checkpoints")
      .value("goodput_deviation", "share", &F::goodput_deviation, "standard deviation over the simulated trainings")
      .value("lost_work_s", "s", &F::lost_work, "time of work that failures undid and that was repeated")
      .value("lost_work_deviation_s", "s", &F::lost_work_deviation, "standard deviation over the simulated trainings")
      .object("failures", training_fields(), "failures of the training: means over the simulated trainings")
      .value(
          "checkpoint_interval_s", "s", [](auto& f) -> auto& { return f.checkpoint.interval; },
          "time between two checkpoints")
      .when(checkpoints, "with checkpoints")
      .object("checkpoint",
              JsonFields<F>()
                  .value("count", "", &F::checkpoints, "number of checkpoints in a training")
                  .inlined(&F::checkpoint, checkpoint_fields()),
              "size, times and best interval of checkpoints")
      .when(checkpoints, "with checkpoints");
}

JsonFields<FailureWhatIf> failure_what_if_fields() {
  using W = FailureWhatIf;
  return JsonFields<W>()
      .value("change", "", &W::change, "change in words")
      .value("refused", "", &W::refused, "why the training with the change is refused; its goodput is 0")
      .when(&W::refused, "if it is refused")
      .value("goodput", "share", &W::goodput, "goodput with the change")
      .value("effective_step_time_s", "s", &W::effective_step_time,
             "training time divided by the number of completed steps");
}

JsonFields<Capacity> capacity_fields() {
  return JsonFields<Capacity>()
      .value("largest_micro_batch_size", "samples", &Capacity::largest_micro_batch_size,
             "largest micro-batch that is likelier to fit than not, in a step of a multiple of it; 0: not even one "
             "sample. Of a loop with packs: number of packs, as plan.micro_batch_size counts them")
      .value("safe_micro_batch_size", "samples", &Capacity::safe_micro_batch_size,
             "largest micro-batch that divides the samples of the step and runs out of memory with a probability below "
             "5 %; 0: none")
      .value("largest_num_hidden_layers", "", &Capacity::largest_num_hidden_layers,
             "largest number of layers that are likelier to fit than not; null: the model has no number of layers");
}

JsonFields<Result::HostCalls> host_call_fields() {
  using H = Result::HostCalls;
  return JsonFields<H>()
      .value("all", "", &H::all,
             "calls of the host: kernels, exchanges and copies; a CUDA graph makes one call of the kernels between two "
             "exchanges; a compiled program (TPU) makes one call of all but the exchanges through hosts and the copies")
      .value("kernels", "", &H::kernels, "kernels of a step")
      .value("exchanges", "", &H::exchanges, "collectives, and messages to and from other pipeline stages")
      .value("copies", "", &H::copies, "batches of samples, and copies of offload to and from host memory")
      .value("compiled", "", &H::compiled,
             "whether one call starts a program with all kernels and all exchanges over links between chips (TPU)")
      .value("rank", "", &H::rank, "rank whose calls these are: the rank of the breakdown");
}

JsonFields<Result::ExpertLoad> expert_load_fields() {
  using L = Result::ExpertLoad;
  return JsonFields<L>()
      .value("busiest", "", &L::most, "rows of the busiest expert rank, over the mean of rows that the router chose")
      .value("least_busy", "", &L::least,
             "rows of the least busy expert rank, over the mean of rows that the router chose")
      .value("longest_wait_s", "s", &L::longest_wait,
             "time of a rank in exposed all-to-alls of a step beyond that of the rank of its group that waits least; "
             "the longest")
      .value("mean_wait_s", "s", &L::mean_wait, "mean of that time over all ranks");
}

JsonFields<Result::Input> input_fields() {
  using I = Result::Input;
  return JsonFields<I>()
      .value("starved_share", "share", &I::starved_share, "share of the step that is lost to waiting for samples")
      .object(
          "input",
          JsonFields<I>()
              .value("storage_busy_share", "share", &I::storage_busy,
                     "share of the simulated steps, the first one included, in which the busiest storage link works")
              .value("decode_busy_share", "share", &I::decode_busy,
                     "share of the simulated steps, the first one included, in which the busiest decoder works")
              .value("read_bytes", "bytes", &I::read, "bytes read from the storage in a step")
              .value("from_cache_share", "share", &I::from_cache, "share of the samples that hosts have cached")
              .value("host_bytes", "bytes", &I::host_bytes, "batches and cache in the host memory of the fullest node")
              .value("largest_shard", "samples", &I::largest_shard,
                     "largest number of samples of a replica in an epoch")
              .value("smallest_shard", "samples", &I::smallest_shard,
                     "smallest number of samples of a replica in an epoch, at most one less")
              .value("largest_shards", "", &I::largest_shards, "number of replicas with the largest number of samples"),
          "figures of the input pipeline");
}

}  // namespace trainyard
