#pragma once
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/reading/figure.hpp"

// The functions that show answers on a screen.
namespace trainyard {

struct AxisLimits;
struct BatchStudy;
struct Capacity;
struct DoubtAnswer;
struct FailureResult;
struct FailureWhatIf;
struct LayerCosts;
struct LayerPlanAnswer;
struct LearnStudy;
struct LearnVariant;
struct Plan;
struct PlanAnswer;
struct RankTimeline;
struct RankView;
struct Result;
struct Scenario;
struct SizeAnswer;
struct SizeBound;
struct SizeOptions;
struct SizeRow;
struct Sweep;
struct SweepOrder;
struct SweepPoint;
struct TrainingPlan;
struct WhatIf;

/// Returns the one-screen answer of `run`: step, breakdown, memory, bottleneck and next change, trust.
std::string screen(const Scenario&, const Plan&, const Result&, const std::vector<WhatIf>&);
/// The steps that the answer is for: "327.1 ± 2.9 ms (95 % confidence, 180 steps after 12 of warm-up)", or
/// "averaged over 8 steps, after 51 that are left out" if they are alike. Empty if it is for one step that is like all
/// others.
std::string steps_in_words(const Scenario&, const Plan&, const Result&);
/// A step of the post-training loop: its parts, what limits it, idle shares, engines, splits. Comes before the screen
/// of the training half.
std::string post_training_screen(const Scenario&, const Result&, const std::vector<WhatIf>& = {});
/// The part of the screen about engines that answer prompts without a loop.
std::string generation_screen(const Scenario&, const Result&, const std::vector<WhatIf>&);
/// A table with a row for each stage of a pipeline: the parts of its step and its peak memory, and the parts of that
/// memory if the plan does not fit. Neighbours with the same printed row share it. Empty for one stage. With a plan,
/// blocks are counted apart from embedding and head; else all layers are counted together.
std::string stage_table(const Result&, const TrainingPlan* plan = nullptr);
/// Returns the largest micro-batch and the largest model that fit, in one line.
std::string capacity_line(const Capacity&);
/// The error to expect of a simulated step, the errors of similar measured steps, and how many figures were not checked.
/// `result`: of the step; null: it was not simulated, so that it has no error to expect. `source_flag`: what lists these
/// figures.
std::string trust_lines(const Scenario&, const Result* result = nullptr, const char* source_flag = "--sources",
                        const std::optional<std::array<double, 2>>& announced_step_times = {});
/// The details that the trust lines leave out: the expected errors of collectives, and what is stated instead of
/// simulated.
std::string trust_details(const Scenario&);
/// The doubts that make the interval of a step time wide, the largest first.
std::string doubt_screen(const DoubtAnswer&);
/// Returns every figure with its source, a line each.
std::string source_table(const Sources&);
/// Goodput, the lost time by cause, failures, the interval of checkpoints.
std::string failure_lines(const FailureResult&);

/// Names the resources that limit the step, and the changes that would shorten it.
std::string bottleneck_lines(const Scenario&, const Result&, const std::vector<WhatIf>&);
/// The changes that shorten the step, or the loop's step, the largest saving first. Empty without what-ifs.
std::string what_if_line(const Result&, const std::vector<WhatIf>&);
/// The table of what-ifs, and that of changes to failures and checkpoints. The largest saving comes first.
std::string what_if_table(const Result&, const std::vector<WhatIf>&);
std::string failure_what_if_table(const FailureResult&, std::vector<FailureWhatIf>);
/// A table of layers, with neighbours of equal costs in one row, and the parts that make up the simulated compute of
/// the step.
std::string layer_costs_text(const Scenario&, const LayerCosts&, const Result&);
/// Returns the costs of layers as JSON: `layers` of {layer, count, forward_s, backward_s, forward_FLOPs,
/// backward_FLOPs, bytes, FLOP_per_byte, bound, share}, and the parts of the step in seconds.
nlohmann::ordered_json layer_costs_json(const LayerCosts&, const Result&);
/// Steps, samples and time to the target by batch, by the formula and by the learner.
std::string batch_report(const Scenario&, const BatchStudy&);
/// Charts of the time to the target and, if they were published for the network, of validation errors against the batch.
std::string batch_svg(const Scenario&, const BatchStudy&);
/// Advice about the learning rate of a training that diverged, as a line; "" if none is known.
std::string scaling_advice(const Scenario&);
/// For each kind of parallelism, a line that says how far it helps, and the rows of a table.
std::string limits_screen(const AxisLimits&);

/// The place of a rank, the rank that is simulated for it, its groups and peers, and the links to them.
std::string rank_text(const RankView&);
/// The first operations of a rank, in the order of time.
std::string rank_timeline_text(const RankTimeline&, int rank);

/// A table with a row for each point: the fields that vary, and the main results with their units. A result that no
/// point has has no column.
std::string sweep_report(const Sweep&, const std::vector<SweepPoint>&, const SweepOrder&);
/// The question, the best plan, the next ones, what changing one thing costs, how flat the optimum is, trust. The scenario
/// gives the network, the machine and the software; its plan may be another one.
std::string plan_screen(const PlanAnswer&, const Scenario&);

/// The verdict of `size`, the cheapest cluster, all evaluated clusters, and what would change the decision.
std::string size_screen(const SizeAnswer&);
/// Draws the thresholds of an answer with a cheapest cluster as a tornado chart: a bar for each quantity, from its value
/// to both thresholds. The quantity that must move least is on top.
std::string tornado_picture(const SizeAnswer&);

/// One training: the timed network, the learned task, the curve of the loss, and the cost of reaching the target.
std::string learn_report(const Scenario&, const LearnVariant&, int seeds);
/// The trainings of several variants side by side.
std::string learn_comparison(const Scenario&, const LearnStudy&);
/// An SVG of loss and accuracy against simulated time, samples and bytes. Each variant has a line: the mean of its
/// seeds.
std::string learn_svg(const std::string& title, const LearnStudy&);
/// The answer of `plan --layers` on one screen: stages with their layers, devices and splits, compared with plans of
/// equal stages.
std::string layer_plan_screen(const LayerPlanAnswer&);
/// Returns the first answer of `size` in words: the bounds of some of all node types, and the cluster with one simulated
/// plan. Names the conditions of the question that the cluster misses. `row` null: no plan was found.
std::string first_size_answer(const std::vector<SizeBound>&, std::size_t all_types, const SizeRow* row,
                              const SizeOptions&);
/// Returns the few best clusters so far while `size` searches, a line for each below a head. No line has more than `width`
/// columns. "": there is none.
std::string live_size_table(const SizeAnswer&, std::size_t width);

}  // namespace trainyard
