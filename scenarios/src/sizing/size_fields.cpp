// JSON fields of `trainyard size`.

#include <nlohmann/json.hpp>

#include "models/reading/document_text.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/sizing/size_growth.hpp"
#include "scenarios/src/sizing/size_networks.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

constexpr struct {
  const ClusterName& operator()(const ClusterName& cluster) const { return cluster; }
  ClusterName& operator()(ClusterName& cluster) const { return cluster; }
} name_of_cluster;

JsonFields<ClusterName> cluster_fields() {
  using C = ClusterName;
  return JsonFields<C>()
      .value("model", "", &C::model, "name of the model")
      .value("node", "", &C::node, "name of the node type")
      .value("nodes", "", &C::nodes, "number of nodes");
}

JsonFields<ClusterName> beside_fields() {
  using C = ClusterName;
  return JsonFields<C>()
      .value("beside", "", &C::beside, "type of owned nodes that train in the same job")
      .value("beside_nodes", "", &C::beside_nodes, "number of these nodes")
      .when_since("beside", &C::beside, "if there are such nodes");
}

JsonFields<SizeRow> size_row_fields() {
  using R = SizeRow;
  const auto is_good = [](const R& r) { return r.good(); };
  const char* if_possible = "if the training is possible";
  return JsonFields<R>()
      .inlined(name_of_cluster, cluster_fields())
      .value("gpus", "", &R::gpus, "number of devices of all nodes")
      .value("batch", "", &R::batch, "samples of a step")
      .when(&R::batch, "if the scenario can be read")
      .value("batches", "", &R::batches, "batches that were compared; `batch` takes the least time per sample")
      .when(&R::batches, "with --batch-tolerance")
      .value("error", "", &R::error, "why the training is impossible")
      .when([](const R& r) { return !r.good(); }, "if it is impossible")
      .value("too_large", "", &R::too_large, "no plan fits into the devices")
      .when(&R::too_large, "if no plan fits")
      .value("refused", "", &R::refused, "the batch divides among no replicas, or the reader refuses all plans")
      .when(&R::refused, "if there is no plan at all")
      .value("meets", "", &R::meets, "whether the cluster meets deadline and budget")
      .value("terms", "", &R::terms,
             "way to pay by which it is judged: the cheapest one that meets deadline and budget, else the cheapest in "
             "time, else the cheapest")
      .when(&R::terms, "with prices")
      .value("cost", "", &R::cost, "cost of the training on these terms, or purchase price, or device-hours")
      .value("end_days", "d", &R::end_days, "days until the training ends on these terms, including the delivery")
      .when_since("cost", is_good, if_possible)
      .value("delivery_days", "d", &R::wait_days,
             "days until all its nodes are delivered; a training that grows with them begins earlier")
      .when(&R::wait_days, "with a delivery")
      .value("paid_goodput", "share", &R::paid_goodput, "useful share of the time on these terms")
      .value("paid_gpu_hours", "h", &R::paid_gpu_hours, "device-hours of the training on these terms")
      .when_since("paid_goodput", is_good, if_possible)
      .value("pareto", "", &R::pareto,
             "no other row is both faster and cheaper; without prices, fewer device-hours are cheaper")
      .value("plan", "", &R::plan, "the plan in words")
      .value("proved", "", &R::proved, "no plan of the space is faster")
      .value("headroom", "share", &R::headroom, "share of a device's memory that plans leave free")
      .value("memory_peak_bytes", "bytes", &R::peak, "peak memory of the fullest device")
      .value(
          "memory_interval_bytes", "bytes", &R::memory_interval,
          "lower and upper end of the interval that holds the memory of the fullest device with a probability of 80 %")
      .value("out_of_memory_probability", "share", &R::risk, "probability that a device runs out of memory")
      .value("parameters", "", &R::parameters, "number of parameters of the model")
      .value("steps", "", &R::steps, "number of steps of the training")
      .value("tokens", "", &R::tokens, "number of tokens of the training")
      .value("step_time_s", "s", &R::step_time, "time of one step")
      .when_since("plan", is_good, if_possible)
      .value(
          "step_time_interval_s", "s", [](auto& r) { return likely_step_times(r.step_time, r.doubt); },
          "lower and upper end of the interval that holds the step time of the real machine with a probability of 80 %")
      .when([](const R& r) { return r.doubt.exists(); }, "if the stack is one that can be measured")
      .value(
          "announced_step_times_s", "s", [](auto& r) { return r.doubt.announced(r.step_time); },
          "step times at the fast and the slow end of the ranges of hardware that is only announced; the interval "
          "reaches from the one to the other")
      .when([](const R& r) { return r.doubt.announced(1).has_value(); }, "if the ends of these ranges differ")
      .value("on_time_probability", "share", &R::on_time, "probability that the training ends by the deadline")
      .when(&R::on_time, "if the stack is one that can be measured")
      .value("training_s", "s", &R::time, "time of the training with failures and checkpoints")
      .value("days", "d", &R::days, "days of the whole training without spot interruptions, and without the delivery")
      .value("mfu", "share", &R::mfu, "model FLOPs over the dense peak")
      .value("goodput", "share", &R::goodput, "useful share of the time")
      .value("gpu_hours", "h", &R::gpu_hours, "device-hours of the training")
      .when_since("training_s", is_good, if_possible)
      .value("energy_J", "J", &R::energy, "energy of the training, measured at the site")
      .value("paid_energy_J", "J", &R::paid_energy, "that energy on these terms, with spot with that of interruptions")
      .value(
          "tokens_per_J", "1/J", [](auto& r) { return r.tokens_per_joule(); },
          "tokens a joule on these terms, measured at the site")
      .when_since("energy_J", &R::energy, "if the power of the devices is stated")
      .value("money", "money", &R::money, "cost of the training by rents on demand, or of electricity")
      .when(&R::money, "with prices of rents")
      .value(
          "money_per_million", "money", [](auto& r) { return r.per_million(); },
          "cost of a million tokens on the terms by which it is judged; of a purchase, of owning it for that time")
      .when([](const R& r) { return r.per_million() > 0; }, "with prices")
      .value("racks", "", &R::racks, "number of racks of its nodes")
      .value("nodes_of_rack", "", &R::nodes_of_rack, "most nodes of a rack")
      .value("rack_limit", "", &R::rack_limit, "the key of `site` that limits the nodes of a rack")
      .when_since("racks", &R::racks, "if the site says what a rack takes")
      .object("ownership", &R::ownership, ownership_fields(), "cost of buying the cluster")
      .when(&R::ownership, "if its nodes have a purchase price")
      .list("rents", &R::rents, rent_cost_fields(), "the training by each kind of rent")
      .when(&R::rents, "with prices of reserved terms or spot")
      .value("network", "", &R::network, "kind of network that its figures count")
      .when(&R::network, "with --network, if a network is counted and it has one")
      .inlined(name_of_cluster, beside_fields())
      .value("network_cost", "money", &R::network_cost,
             "part of its cost for switches and cables; without --purchase, for owning them during the training")
      .when(&R::network, "with --network, if a network is counted and it has one");
}

JsonFields<SiteLimit> site_limit_fields() {
  using L = SiteLimit;
  return JsonFields<L>()
      .value("node", "", &L::node, "name of the node type")
      .value("nodes", "", &L::nodes, "most nodes that the site has room for")
      .value("limit", "", &L::limit, "the key of `site` that allows the fewest nodes")
      .value("node_power_W", "W", &L::node_power, "most power of a node, without cooling")
      .when(&L::node_power, "if it is stated")
      .value("nodes_of_rack", "", &L::nodes_of_rack, "most nodes of a rack")
      .value("rack_limit", "", &L::rack_limit, "the key of `site` that limits the nodes of a rack")
      .when_since("nodes_of_rack", &L::nodes_of_rack, "if the site says what a rack takes")
      .value("shortage", "", &L::shortage, "why there is no room for a node: what it needs, and what there is")
      .when(&L::shortage, "if there is none");
}

JsonFields<SizeThreshold> threshold_fields() {
  using T = SizeThreshold;
  return JsonFields<T>()
      .value(
          "quantity", "", &T::quantity,
          "price of the price file, deadline or delivery (in days), budget, time on a node type (in % of the "
          "simulated), tokens, power of the site (in kW), interest, staff or space (in %), or depreciation (in years)")
      .value("value", "", &T::value, "value of that quantity in the question")
      .value("threshold", "", &T::threshold, "value beyond which the decision is another one")
      .value("model", "", &T::model, "name of the model of that cluster; empty: no evaluated cluster is left")
      .value("node", "", &T::node, "name of its node type; empty: no evaluated cluster is left")
      .value("nodes", "", &T::nodes, "number of its nodes")
      .value("number", "", &T::number,
             "\"more than\" or \"fewer than\" these nodes: such a number may be the decision, and was not simulated")
      .when(&T::number, "if so")
      .value("terms", "", &T::terms, "way to pay for it")
      .when(&T::terms, "with prices, if a cluster is left")
      .value("network", "", &T::network, "kind of network between its nodes")
      .when(&T::network, "with --network, if a network is counted")
      .inlined(name_of_cluster, beside_fields());
}

JsonFields<SizeChoice> size_choice_fields() {
  using C = SizeChoice;
  return JsonFields<C>()
      .inlined(name_of_cluster, cluster_fields())
      .value("gpus", "", &C::gpus, "number of devices of all nodes")
      .value("terms", "", &C::terms,
             "way to pay: on demand, a reserved term, spot, electricity (of machines without a rent), or purchase")
      .value("decision", "", &C::decision, "whether the verdict takes this choice")
      .value("missed", "", &C::missed, "conditions that it misses: deadline, budget, or both; empty: none")
      .value("days", "d", &C::days, "days until the training ends, including the delivery of bought nodes")
      .value("days_interval", "d", &C::likely_days,
             "lower and upper end of the interval that holds these days with a probability of 80 %")
      .when(&C::likely_days, "if the stack is one that can be measured")
      .value("on_time_probability", "share", &C::on_time, "probability that the training ends by the deadline")
      .when(&C::on_time, "if the stack is one that can be measured")
      .value("money", "money", &C::money,
             "cost of the training; of a purchase, the cost of owning it for the time of the training")
      .value("tokens", "", &C::tokens, "tokens of the training")
      .value(
          "money_per_million", "money", [](auto& c) { return c.per_million(); },
          "cost of a million tokens: `money` over the tokens of the training")
      .when_since("tokens", &C::tokens, "if the network has tokens")
      .value("tokens_per_J", "1/J", &C::tokens_per_joule, "tokens a joule, measured at the site")
      .when(&C::tokens_per_joule, "if the power of the devices is stated")
      .value("purchase", "money", &C::purchase, "purchase price")
      .value("total", "money", &C::total, "cost of owning it for the years of depreciation, always in use")
      .when_since(
          "purchase", [](const C& c) { return c.terms == "purchase"; }, "if it is bought")
      .value("power_W", "W", &C::power, "mean power of the site during the training")
      .when(&C::power, "if the power of the devices is stated")
      .value("used_money", "money", &C::used_money,
             "cost of the hours of a reserved term that the training uses, if others pay for the rest of the term")
      .when(&C::used_money, "if the term is longer than the training")
      .value("out_of_memory_probability", "share", &C::risk, "probability that a device runs out of memory")
      .value("quantity", "", &C::quantity, "name of the price that its cost depends on")
      .value("price", "money", &C::price, "value of that price")
      .when_since("quantity", &C::quantity, "if it is not free")
      .value("break_even", "money", &C::break_even,
             "price at which it costs as much as the decision; for the decision, the price above which the decision is "
             "another one")
      .when(&C::break_even, "if there is such a price")
      .value("network", "", &C::network, "kind of network that its figures count")
      .when(&C::network, "with --network, if a network is counted")
      .inlined(name_of_cluster, beside_fields());
}

JsonFields<SizeVerdict> size_verdict_fields() {
  using V = SizeVerdict;
  return JsonFields<V>()
      .value("decision", "", &V::decision, "what to rent or to buy, in a sentence")
      .value("reason", "", &V::reason, "why: the next choice, and the choices that miss a condition")
      .value("changes", "", &V::changes, "the prices, deadline and budget that would change the decision")
      .value("sure_order", "share", &V::sure_order, "probability that the decision costs less than the next choice")
      .when(&V::sure_order, "if the doubt of a step time moves one of the two costs");
}

JsonFields<SizeBound> size_bound_fields() {
  using B = SizeBound;
  const auto fits = [](const B& b) { return b.days > 0; };
  return JsonFields<B>()
      .value("model", "", &B::model, "name of the model")
      .value("node", "", &B::node, "name of the node type")
      .value("nodes", "", &B::nodes, "number of nodes that was bounded last; 0: none could be")
      .value("least_days", "d", &B::days, "no plain plan on these nodes ends earlier, without failures")
      .value("least_cost", "", &B::cost, "nor costs less: price of the nodes, rents on demand, or device-hours")
      .when_since("least_days", fits, "if a plain plan fits");
}

JsonFields<SizeFewest> size_fewest_fields() {
  using F = SizeFewest;
  return JsonFields<F>()
      .value("model", "", &F::model, "name of the model")
      .value("node", "", &F::node, "name of the node type")
      .value("nodes", "", &F::nodes, "fewest evaluated number of nodes that meets the deadline")
      .value("unit", "", &F::unit, "numbers of nodes are multiples of it")
      .value("late", "", &F::late,
             "largest smaller number that was evaluated, which is too slow; no number between has a plan");
}

JsonFields<SizeIsland> size_island_fields() {
  using I = SizeIsland;
  const auto is_good = [](const I& i) { return i.good(); };
  const auto has_type = [](const I& i) { return !i.node.empty(); };
  const auto is_pair = [](const I& i) { return i.kind == IslandKind::two_jobs; };
  const char *if_possible = "if the training is possible", *with_type = "unless the owned nodes are alone",
             *if_pair = "of two jobs";
  return JsonFields<I>()
      .value(
          "way", "", [](auto& i) { return std::string(name_of(i.kind)); },
          "owned alone, more of them (owned and bought nodes of one type), bought alone (owned nodes are left to other "
          "work), one job on both, or two jobs: one on each type, with a model of its own and a part of the samples")
      .value("node", "", &I::node, "type of the nodes beside the owned ones")
      .value("nodes", "", &I::nodes, "number of these nodes")
      .when_since("node", has_type, with_type)
      .value("bought_nodes", "", &I::bought_nodes, "number of nodes to buy")
      .value("bought_gpus", "", &I::bought_gpus, "number of devices to buy")
      .value("gpus", "", &I::gpus, "number of devices that train")
      .value("error", "", &I::error, "why there is no such training")
      .when([](const I& i) { return !i.good(); }, "if there is none")
      .value("plan", "", &I::plan, "the plan in words; of two jobs, that on the nodes beside the owned ones")
      .value("step_time_s", "s", &I::step_time, "time of a step; of two jobs, on the nodes beside the owned ones")
      .when_since("plan", is_good, if_possible)
      .value("owned_step_time_s", "s", &I::owned_step_time, "time of a step of the job on the owned nodes")
      .value("owned_share", "share", &I::owned_share, "part of the samples that the job on the owned nodes trains on")
      .when_since("owned_step_time_s", is_pair, if_pair)
      .value("samples_per_s", "", &I::samples_per_s, "samples a second of all jobs")
      .when(is_good, if_possible)
      .value("of_two_jobs", "share", &I::of_two_jobs, "samples a second over those of two jobs on the same nodes")
      .when(&I::of_two_jobs, "of one job, if each type of node has a plan alone")
      .value("days", "d", &I::days, "days until the last job ends, including the delivery of bought nodes")
      .value("cost", "money", &I::cost, "purchase price")
      .value("missed", "", &I::missed, "conditions that it misses: deadline, budget, or both; empty: none")
      .value("scenarios", "", &I::scenarios, "scenarios of the jobs, which `run` takes, beginning with the owned nodes")
      .when_since("days", is_good, if_possible);
}

JsonFields<SizeIslands> size_islands_fields() {
  using I = SizeIslands;
  return JsonFields<I>()
      .value("node", "", &I::node, "type of the owned nodes")
      .value("nodes", "", &I::nodes, "number of the owned nodes")
      .value("gpus", "", &I::gpus, "number of their devices")
      .value("reason", "", &I::reason, "the cheapest way to train one model, and the others in figures")
      .list("rows", &I::rows, size_island_fields(), "ways to train, by the type that is bought");
}

const RegisterJsonReference size_reference{"size", "which clusters train a model in time", size_fields};

}  // namespace

std::string to_text(const SizeRow& row) {
  nlohmann::ordered_json j = size_row_fields().json(row);
  if (row.good()) j["document"] = yaml_text(row.document);
  if (row.doubt.exists() || row.doubt.announced(1)) j["doubt"] = row.doubt.figures();
  return json_text(j);
}

SizeRow size_row_from_text(const std::string& text) {
  SizeRow row;
  const nlohmann::ordered_json j = parse_ordered_json(text);
  size_row_fields().read(j, row);
  if (j.contains("document")) row.document = parse_document(j.at("document").get<std::string>(), "--out");
  if (j.contains("doubt")) row.doubt = StepDoubt::from_figures(j.at("doubt"));
  return row;
}

const JsonFields<SizeAnswer>& size_fields() {
  using A = SizeAnswer;
  static const JsonFields<A> fields =
      JsonFields<A>()
          .value("scenario", "", &A::scenario, "name of the scenario")
          .value("deadline_days", "d", &A::days, "requested deadline")
          .value("confidence", "share", &A::confidence, "requested probability of meeting the deadline")
          .when(&A::confidence, "with --confidence")
          .value("budget", "money", &A::budget, "requested budget")
          .when(&A::budget, "with --budget")
          .value("currency", "", &A::currency, "currency of the prices")
          .when(&A::currency, "with prices")
          .value("operations", "", &A::work, "limit of the operations that each search for a plan simulates")
          .when(&A::work, "without --search")
          .value("search_s", "s", &A::search_seconds,
                 "limit of the wall time of each search for a plan: the answer is not repeatable")
          .when(&A::search_seconds, "with --search")
          .value("unfinished", "", &A::unfinished, "where a signal ended the search")
          .when(&A::unfinished, "if a signal ended it")
          .list("rows", &A::rows, size_row_fields(), "evaluated clusters, by model, node type and number of nodes")
          .list("fewest", &A::fewest, size_fewest_fields(),
                "fewest evaluated number of nodes that meets the deadline, by node type")
          .when(&A::fewest, "if more than one unit of nodes is needed")
          .list("not_searched", &A::not_searched, size_bound_fields(),
                "node types that were not searched, with lower bounds of their plain plans; --work searches all")
          .when(&A::not_searched, "if the question covers more than it may search")
          .value("left_out", "", &A::left_out, "node types that were not considered, each with the reason")
          .when(&A::left_out, "if there are any")
          .value("purchase", "", &A::purchase, "clusters are bought: cost and budget are purchase prices")
          .when(&A::purchase, "with --purchase")
          .value("total_cost_years", "years", &A::total_years,
                 "cost and budget are those of owning a cluster for these years, always in use, in place of its price")
          .when(&A::total_years, "with --by total-cost")
          .list("site_limits", &A::site_limits, site_limit_fields(),
                "most nodes of each type that the site has room for")
          .when(&A::site_limits, "with limits of the site")
          .value("why_none", "", &A::why_none, "which condition no evaluated cluster meets")
          .when(&A::why_none, "if no evaluated cluster meets all, and one has a plan, or the site has no room")
          .list("thresholds", &A::thresholds, threshold_fields(),
                "values of prices, deadline and budget at which the decision changes")
          .when(&A::thresholds, "if a cluster meets deadline and budget")
          .object("cheapest", &A::cheapest, size_row_fields(),
                  "the cluster of the decision: the cheapest one, of the largest model, that meets deadline and budget")
          .when(&A::cheapest, "if one does")
          .list("choices", &A::choices, size_choice_fields(),
                "the best choice for each node type and way to pay; those that meet all conditions first, then by cost")
          .when(&A::choices, "with prices")
          .object("verdict", &A::verdict, size_verdict_fields(), "the decision, its reason, and what would change it")
          .when(&A::verdict, "if a cluster was searched to its end")
          .object("fastest", &A::fastest, size_row_fields(), "the fastest cluster that meets deadline and budget")
          .when(&A::fastest, "if one does")
          .object("largest", &A::largest, size_row_fields(), "a copy of cheapest: the decision takes the largest model")
          .when(&A::largest, "if one does")
          .object("nearest", &A::nearest, size_row_fields(), "the fastest cluster, if possible within the budget")
          .when(&A::nearest, "if none meets deadline and budget")
          .object("without_headroom", &A::without_headroom, size_row_fields(),
                  "the best plan that fits without headroom on the nodes of the cheapest, or else of the nearest")
          .when(&A::without_headroom, "if it leaves less than the headroom, and is faster")
          .value("counted_network", "", &A::counted_network,
                 "kind of network that all figures count: the choice, or else the cheapest one in time")
          .when(&A::counted_network, "with --network and prices of networks")
          .object("networks", &A::networks, size_networks_fields(),
                  "networks between the nodes of the cheapest clusters in time, else of the nearest")
          .when(&A::networks, "with --network, if the search was not interrupted")
          .object("growth", &A::growth, size_growth_fields(),
                  "the training on nodes that are delivered in batches, if it begins on the first ones and grows")
          .when(&A::growth, "with --purchase, if the nodes of the verdict are delivered in batches")
          .list("islands", &A::islands, size_islands_fields(),
                "owned nodes alone, bought nodes of another type alone, both in one job, and a job on each")
          .when(&A::islands, "with --purchase, if nodes are owned and those of another type can be bought");
  return fields;
}

}  // namespace trainyard
