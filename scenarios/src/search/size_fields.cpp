// The JSON of `trainyard size`.
#include <nlohmann/json.hpp>

#include "models/reading/document_text.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/json_reference.hpp"
#include "scenarios/src/search/size_search.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

JsonFields<SizeRow> size_row_fields() {
  using R = SizeRow;
  const auto good = [](const R& r) { return r.good(); };
  const char* when = "where there is such a training";
  return JsonFields<R>()
      .value("model", "", &R::model, "its name")
      .value("node", "", &R::node, "type of node")
      .value("nodes", "", &R::nodes, "how many")
      .value("gpus", "", &R::gpus, "of them all")
      .value("batch", "", &R::batch, "samples of a step")
      .when([](const R& r) { return r.batch > 0; }, "where the scenario can be read")
      .value("batches", "", &R::batches, "that had plans, and of which `batch` took the least time for a sample")
      .when([](const R& r) { return !r.batches.empty(); }, "with --batch-tolerance")
      .value("error", "", &R::error, "why there is no such training")
      .when([](const R& r) { return !r.good(); }, "where there is none")
      .value("too_large", "", &R::too_large, "no plan fits into the devices")
      .when([](const R& r) { return r.too_large; }, "where none does")
      .value("refused", "", &R::refused, "the batch divides among no replicas, or the reader refuses all plans")
      .when([](const R& r) { return r.refused; }, "where there is no plan at all")
      .value("meets", "", &R::meets, "deadline and budget")
      .value("pareto", "", &R::pareto, "none is both faster and cheaper (without prices: takes fewer device-hours)")
      .value("plan", "", &R::plan, "in words")
      .when(good, when)
      .value("proved", "", &R::proved, "no plan of the space is faster")
      .when(good, when)
      .value("headroom", "share", &R::headroom, "of a device's memory that plans leave free")
      .when(good, when)
      .value("memory_peak_bytes", "bytes", &R::peak, "of the fullest device")
      .when(good, when)
      .value("parameters", "", &R::parameters, "of the model")
      .when(good, when)
      .value("tokens", "", &R::tokens, "of the training")
      .when(good, when)
      .value("step_time_s", "s", &R::step_time, "of one step")
      .when(good, when)
      .value("training_s", "s", &R::time, "of the training, with failures and checkpoints")
      .when(good, when)
      .value("days", "d", &R::days, "the same in days")
      .when(good, when)
      .value("mfu", "share", &R::mfu, "model FLOPs over the dense peak")
      .when(good, when)
      .value("goodput", "share", &R::goodput, "useful share of the time")
      .when(good, when)
      .value("gpu_hours", "h", &R::gpu_hours, "of all devices")
      .when(good, when)
      .value("energy_J", "J", &R::energy, "of the site")
      .when([](const R& r) { return r.energy > 0; }, "where the power of the devices is stated")
      .value("money", "money", &R::money, "by the prices given")
      .when([](const R& r) { return r.money > 0; }, "with prices");
}

JsonFields<SizeFewest> size_fewest_fields() {
  using F = SizeFewest;
  return JsonFields<F>()
      .value("model", "", &F::model, "its name")
      .value("node", "", &F::node, "type of node")
      .value("nodes", "", &F::nodes, "that meet the deadline")
      .value("unit", "", &F::unit, "of nodes: numbers are multiples of it")
      .value("late", "", &F::late, "the most below them that were looked at: they do not, and none between has a plan");
}

const RegisterJsonReference size_reference{"size", "which clusters train a model in time",
                                           [] { return size_fields().rows(); }};

}  // namespace

std::string to_text(const SizeRow& row) {
  nlohmann::ordered_json j = size_row_fields().json(row);
  if (row.good()) j["document"] = yaml_text(row.document);
  return json_text(j);
}

SizeRow size_row_from_text(const std::string& text) {
  SizeRow row;
  const nlohmann::ordered_json j = parse_ordered_json(text);
  size_row_fields().read(j, row);
  if (j.contains("document")) row.document = parse_document(j.at("document").get<std::string>(), "--out");
  return row;
}

const JsonFields<SizeAnswer>& size_fields() {
  using A = SizeAnswer;
  static const JsonFields<A> fields =
      JsonFields<A>()
          .value("scenario", "", &A::scenario, "its name")
          .value("deadline_days", "d", &A::days, "asked for")
          .value("budget", "money", &A::budget, "asked for")
          .when([](const A& a) { return a.budget > 0; }, "with --budget")
          .value("currency", "", &A::currency, "of the prices")
          .when([](const A& a) { return !a.currency.empty(); }, "with prices")
          .value("operations", "", &A::work, "the most that each search for a plan simulates")
          .when([](const A& a) { return a.work > 0; }, "without --search")
          .value("search_s", "s", &A::search_seconds, "wall time of each search for a plan: not repeatable")
          .when([](const A& a) { return a.search_seconds > 0; }, "with --search")
          .value("unfinished", "", &A::unfinished, "where a signal ended it")
          .when([](const A& a) { return !a.unfinished.empty(); }, "where one did")
          .list("rows", &A::rows, size_row_fields(), "by model, type of node and nodes")
          .list("fewest", &A::fewest, size_fewest_fields(),
                "of the numbers that were looked at the least that meets the deadline, by type of node")
          .when([](const A& a) { return !a.fewest.empty(); }, "where more than one unit of nodes is needed")
          .object("cheapest", &A::cheapest, size_row_fields(), "of those that meet deadline and budget")
          .when([](const A& a) { return a.cheapest.has_value(); }, "where one does")
          .object("fastest", &A::fastest, size_row_fields(), "of those that meet deadline and budget")
          .when([](const A& a) { return a.fastest.has_value(); }, "where one does")
          .object("largest", &A::largest, size_row_fields(), "model that meets deadline and budget")
          .when([](const A& a) { return a.largest.has_value(); }, "where one does")
          .object("nearest", &A::nearest, size_row_fields(), "to deadline and budget")
          .when([](const A& a) { return a.nearest.has_value(); }, "where none meets them")
          .object("without_headroom", &A::without_headroom, size_row_fields(),
                  "the best plan that fits on the nodes of the cheapest, or else of the nearest")
          .when([](const A& a) { return a.without_headroom.has_value(); },
                "where it leaves less than the headroom, and is faster");
  return fields;
}

}  // namespace trainyard
