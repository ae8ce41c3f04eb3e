#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {

using nlohmann::json;
using nlohmann::ordered_json;

JsonFields<Result::Drive> drive_fields() {
  using D = Result::Drive;
  return JsonFields<D>()
      .value("capacity", "bytes", &D::capacity, "capacity of the node's drives; 0: not stated")
      .value("peak", "bytes", &D::peak, "peak of the data on the drives")
      .value("node", "", &D::node, "number of the fullest node");
}

JsonFields<Result::MeasuredValues> measured_fields() {
  using M = Result::MeasuredValues;
  return JsonFields<M>()
      .value("step_time_s", "s", &M::step_time, "measured step time of one device")
      .value("source", "", &M::source, "source of the measured step time");
}

JsonFields<PathLine> path_fields() {
  return JsonFields<PathLine>()
      .value("begin_s", "s", &PathLine::begin, "begin, from the start of the step")
      .value("end_s", "s", &PathLine::end, "end, from the start of the step")
      .value("actor", "", &PathLine::actor, "rank, server or device that executes the operation")
      .value("resource", "", &PathLine::resource, "resource that bounds the operation")
      .value("name", "", &PathLine::name, "name of the operation");
}

JsonFields<DrawnSteps> drawn_steps_fields() {
  return JsonFields<DrawnSteps>()
      .value("mean", "s", &DrawnSteps::mean, "mean step time")
      .value("mean_ci95", "s", &DrawnSteps::half_width, "half the width of the 95 % confidence interval of the mean")
      .value("low", "s", &DrawnSteps::low, "5 % of steps are shorter")
      .value("high", "s", &DrawnSteps::high, "5 % of steps are longer")
      .value("draws", "", &DrawnSteps::draws, "number of further draws");
}

JsonFields<Result::Phase> phase_fields() {
  using P = Result::Phase;
  return JsonFields<P>()
      .value("name", "", &P::name, "name of the phase: start, image, weights, evaluation, and work of rank 0")
      .value("time_s", "s", &P::time, "time of one such phase")
      .value("times", "", &P::times, "number of such phases in the training");
}

const JsonFields<Answer>& answer_fields() {
  static const JsonFields<Answer> fields =
      JsonFields<Answer>()
          .inlined(&Answer::result, result_fields())
          .list(
              "what_if", &Answer::what_ifs,
              JsonFields<WhatIf>()
                  .value("resource", "", &WhatIf::resource_class, "resource class that is faster")
                  .value("factor", "", &WhatIf::factor, "factor by which it is faster")
                  .value("step_time_s", "s", &WhatIf::step_time, "simulated time of a step with the change")
                  .when([](const WhatIf& w) { return w.time_of == WhatIf::TimeOf::step; },
                        "without post_training and generation")
                  .value("loop_time_s", "s", &WhatIf::step_time, "simulated time of a step of the loop with the change")
                  .when([](const WhatIf& w) { return w.time_of == WhatIf::TimeOf::loop_step; }, "with post_training")
                  .value("generation_time_s", "s", &WhatIf::step_time,
                         "simulated time until the last answer of engines ends, with the change")
                  .when([](const WhatIf& w) { return w.time_of == WhatIf::TimeOf::generation; }, "with generation")
                  .value("saves_share", "share", &WhatIf::saves_share, "share of the step time that the change saves")
                  .value("compared_with_s", "s", &WhatIf::compared_with,
                         "step time without the change, averaged over as many steps")
                  .when(&WhatIf::compared_with, "with plan.steps, if workers are not in step")
                  .value("set", "", &WhatIf::sets, "changed fields, in the form that run --set takes")
                  .value("goodput", "share", &WhatIf::goodput, "goodput with the changed step time")
                  .value("effective_step_time_s", "s", &WhatIf::effective_step_time,
                         "training time divided by the number of completed steps")
                  .when_since("goodput", &WhatIf::goodput, "in explain, with faults")
                  .value("goodput_refused", "", &WhatIf::goodput_refused,
                         "why a training with this step and the failures is refused")
                  .when(&WhatIf::goodput_refused, "if it is refused"),
              "savings by faster resources; empty with --no-what-if")
          .list(
              "refused_what_if", [](const Answer& a) { return a.result.refused_what_ifs; },
              JsonFields<RefusedWhatIf>()
                  .value("resource", "", &RefusedWhatIf::resource_class, "resource class that cannot be faster")
                  .value("factor", "", &RefusedWhatIf::factor, "factor by which it would be faster")
                  .value("reason", "", &RefusedWhatIf::reason, "why the scenario refuses the changed fields"),
              "what-ifs that are not possible")
          .when([](const Answer& a) { return !a.result.refused_what_ifs.empty(); }, "if there are any")
          .list("sources", &Answer::sources,
                JsonFields<FigureSource>()
                    .value("figure", "", &FigureSource::figure, "name of the figure of the hardware, model or software")
                    .value("value", "", &FigureSource::value, "value of the figure, as written in the catalog")
                    .value("source", "", &FigureSource::source, "source of the figure")
                    .value("unverified", "", &FigureSource::unverified, "true: the source could not be checked"),
                "sources of all figures that the answer depends on")
          .list("critical_path", &Answer::path, path_fields(), "operations on the critical path, in order")
          .when(&Answer::path, "in explain")
          .list("failure_what_if", &Answer::failure_what_ifs, failure_what_if_fields(),
                "savings by fewer failures, faster restarts and cheaper checkpoints")
          .when(&Answer::failure_what_ifs, "in explain, with faults");
  return fields;
}

namespace {

const RegisterJsonReference answer_json_reference{
    "run", "the answer to a scenario; explain --json also writes the critical path", answer_fields};

}  // namespace

json to_json(const Result& result) { return result_fields().json(result); }

Result result_from_json(const json& j) {
  Result result;
  result_fields().read(j, result);
  return result;
}

json answer_json(Answer answer, bool timing) {
  if (!timing) answer.result.wall_s = {};
  for (WhatIf& w : answer.what_ifs) {
    w.saves_share = w.saves(answer.result.main_time());
    w.time_of = answer.result.post_training ? WhatIf::TimeOf::loop_step
                : answer.result.generation  ? WhatIf::TimeOf::generation
                                            : WhatIf::TimeOf::step;
  }
  return answer_fields().json(answer);
}

std::vector<std::pair<double, std::string>> Result::shares() const {
  std::vector<std::pair<double, std::string>> all;
  for (const auto& [resource, seconds] : critical_path) all.emplace_back(seconds, resource);
  sort_stably(all, [](const auto& a, const auto& b) { return a.first > b.first; });
  return all;
}

Result::Result(const Result&) = default;
Result::Result(Result&&) noexcept = default;
Result& Result::operator=(const Result&) = default;
Result& Result::operator=(Result&&) noexcept = default;
Result::~Result() = default;

}  // namespace trainyard
