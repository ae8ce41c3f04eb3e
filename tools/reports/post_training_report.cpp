#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/post_training/weight_transfer.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

/// Mean share of the generation from which on busy sandboxes are called its limit.
constexpr double kBusySandboxes = 0.9;
constexpr double kPartDigit = 0.01;   ///< s, the last digit of the printed parts
constexpr double kNamedShare = 0.01;  ///< share of the step from which on recomputed keys and values are named
constexpr double kNearlyFull = 0.99;  ///< share of the room from which on a cache is called full

std::string loop_seconds(double seconds) { return fmt::format("{:.2f}", seconds); }

/// The parts of the step, which sum to it as printed.
std::string loop_parts(const PostTrainingResult& r, bool is_asynchronous) {
  const std::vector<std::string> names{is_asynchronous ? "generation by some engine" : "generation",
                                       "fetch of answers",
                                       "log-probabilities",
                                       "wait for values of the critic",
                                       "training",
                                       "wait for the critic",
                                       "weights to engines",
                                       "reload",
                                       "loop"};
  std::vector<std::string> words;
  const std::vector<double> times{r.generation.value,  r.fetch.value,    r.log_probabilities.value,
                                  r.values_wait.value, r.training.value, r.updates_wait.value,
                                  r.weights.value,     r.reload.value,   r.loop.value};
  std::vector<double> signed_times = times;
  signed_times.push_back(-r.hidden.value);
  const std::vector<double> rounded = rounded_parts(signed_times, kPartDigit);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (times[i] > 0) words.push_back(fmt::format("{} {}", names[i], loop_seconds(rounded[i])));
  std::string text = fmt::format("{}", fmt::join(words, " │ "));
  if (r.hidden.value > 0) text += fmt::format(" │ hidden −{}", loop_seconds(std::abs(rounded.back())));
  text += fmt::format("   (s, together {})", loop_seconds(r.step_time.value));
  if (r.loop.value == 0) return text;
  return text +
         fmt::format(
             "\n{}{}loop: rewards, preparation of data and the workers of the loop", report_label(""),
             r.reload.value > 0
                 ? "reload: weights and optimizer states leave the GPUs before generation and come back after it; "
                 : "");
}

std::string schedule_words(const PostTrainingChoice& choice) {
  if (choice.asynchrony)
    return fmt::format("asynchronous with a staleness of {:g}{}{}", choice.asynchrony->staleness,
                       choice.asynchrony->by_start ? ", trained on as started" : "",
                       choice.asynchrony->partial_rollouts ? "" : ", without partial rollouts");
  return choice.one_step_off ? "one step off" : "synchronous";
}

std::string transfer_names(const PostTrainingChoice& choice) {
  const std::vector<WeightTransfer>& all = choice.transfers;
  return all.front().name + (all.size() > 1 ? " and " + all.back().name + " do" : " does");
}

std::string limit_words(const PostTrainingChoice& choice, const PostTrainingResult& r) {
  if (choice.asynchrony && r.limit != LoopLimit::both_in_turn)
    return fmt::format(
        "{}: training waits {} s of a step for answers, an engine {} s for answers to start{}", name_of(r.limit),
        loop_seconds(r.waiting.value), loop_seconds(start_wait(r).value),
        choice.calls.empty() ? "" : fmt::format(" and {} s for calls of tools", loop_seconds(r.parts.calls.value)));
  if (choice.one_step_off) return fmt::format("{} is the longer half; the other one waits for it", name_of(r.limit));
  return "generation and training follow each other";
}

/// The resource whose change shortens the loop's step most, and the what-ifs.
std::string loop_bottleneck_lines(const Result& result, const std::vector<WhatIf>& what_ifs) {
  const std::string& bottleneck = result.post_training->bottleneck;
  const bool has_nodes = std::ranges::find(what_ifs, kMoreNodes, &WhatIf::resource_class) != what_ifs.end();
  return (bottleneck.empty()
              ? ""
              : fmt::format("{}{}, by the what-if that shortens the loop step most{}\n", report_label("bottleneck"),
                            limit_in_words(bottleneck), has_nodes ? ", more nodes aside" : "")) +
         what_if_line(result, what_ifs);
}

/// The interval of step time and samples per second, and what it does not cover.
std::string loop_interval_line(const PostTrainingResult& r) {
  if (!r.likely_step_times || !r.likely_samples) return "";
  const auto [low, high] = *r.likely_step_times;
  std::string text = fmt::format("{}{} to {} · {} to {} answers/s, with a probability of 80 %",
                                 report_label("interval"), show(Seconds{low}), show(Seconds{high}),
                                 three_digits(r.likely_samples->at(0)), three_digits(r.likely_samples->at(1)));
  if (!r.unmeasured.empty()) text += " for a loop like the measured ones · no measured loop has: " + r.unmeasured;
  return text + "\n";
}

std::string answer_times_line(const AnswerTimes& times, const char* since, bool has_calls = false) {
  return fmt::format(
      "{}first token of an answer {} after {} in the mean, 99 of 100 within {}; then {} from token to token, the mean "
      "over the answers{}\n",
      report_label("answers"), show(times.first_token), since, show(times.late_first_token), show(times.token),
      has_calls ? ", with the calls between them" : "");
}

std::string engine_interval_lines(const GenerationResult& r) {
  if (!r.likely_tokens || !r.likely_time) return "";
  std::string text =
      fmt::format("{}{} to {} tokens/s · all after {} to {}, with a probability of 80 %", report_label("interval"),
                  three_digits(r.likely_tokens->at(0)), three_digits(r.likely_tokens->at(1)),
                  show(Seconds{r.likely_time->at(0)}), show(Seconds{r.likely_time->at(1)}));
  if (!r.unmeasured.empty()) text += " for engines like the measured ones · no measured engine has: " + r.unmeasured;
  if (r.likely_token && r.likely_first_token)
    text += fmt::format("\n{}first token after {} to {}, then {} to {} from token to token", report_label(""),
                        show(Seconds{r.likely_first_token->at(0)}), show(Seconds{r.likely_first_token->at(1)}),
                        show(Seconds{r.likely_token->at(0)}), show(Seconds{r.likely_token->at(1)}));
  return text + "\n";
}

std::string cache_line(const PostTrainingResult& r) {
  return fmt::format(
      "{}{} GiB of {} GiB a GPU for keys, values and states, besides weights of {} GiB: {}\n", report_label("cache"),
      gib(r.memory.cache_peak.value), gib(r.memory.cache.value), gib(r.memory.weights.value),
      r.preemptions > 0
          ? fmt::format("full, {} sequences gave theirs up and computed them again",
                        r.preemptions < 1 ? fmt::format("{:.2g}", r.preemptions) : fmt::format("{:.0f}", r.preemptions))
      : r.waits_for_cache ? "full at times: answers waited for room, and none gave theirs up"
      : r.memory.cache_peak > kNearlyFull * r.memory.cache ? "full at its peak, but no answer waited for room"
                                                           : "never full");
}

/// The memory that a GPU needs in a phase, and the verdict on it: "50.4 of 80.0 GiB a GPU with the policy: fits".
std::string phase_words(const PostTrainingResult& r, std::string_view name, const char* beside) {
  const auto phase = std::ranges::find(r.phases, name, &PostTrainingResult::PhaseMemory::phase);
  if (phase == r.phases.end()) return "no memory";
  return fmt::format("{} of {} GiB a GPU{}: {}", gib(phase->needed.value), gib(phase->usable.value), beside,
                     phase->fits() ? "fits" : "too much");
}

/// The lines of what few loops have: staleness, lost answers, calls of tools, speculation, further models.
std::string further_lines(const PostTrainingChoice& choice, const PostTrainingResult& r) {
  std::string text;
  if (choice.asynchrony)
    text += fmt::format(
        "{}{:.2f} steps in the mean, {:.0f} at most, from the policy that begins an answer to the one that is trained "
        "on it{} · policies of several steps generate {} of the answers\n",
        report_label("staleness"), r.mean_staleness, r.most_staleness,
        r.most_staleness > std::ceil(choice.asynchrony->staleness)
            ? " (the bound limits how many answers start, so a long one may be staler; post_training.order=started "
              "bounds "
              "each)"
            : "",
        percent(r.mixed_answers));
  if (r.recomputed.value >= kNamedShare * r.step_time.value)
    text += fmt::format("{}engines compute keys and values of interrupted answers again for {} s\n",
                        report_label("again"), loop_seconds(r.recomputed.value));
  if (r.unsettled > 0)
    text += fmt::format(
        "{}the loop has not settled: its engines do work that differs by {} from that of the answers which the "
        "simulated "
        "steps train on\n",
        report_label("unsettled"), percent(r.unsettled));
  if (choice.sampling.is_given())
    text += fmt::format(
        "{}{} of {} prompts until {} have answers that differ in reward: {:.0f} answers and {:.0f} tokens are thrown "
        "away\n",
        report_label("rounds"), counted_noun(choice.sampling.rounds, "round"), choice.sampling.round_prompts,
        choice.prompts, r.lost_answers, r.lost_tokens);
  else if (r.lost_answers > 0)
    text += fmt::format(
        "{}{} prompts start, and the first {} with all answers are trained on: {:.0f} answers and {:.0f} tokens are "
        "lost\n",
        report_label("cut"), choice.started_prompts, choice.prompts, r.lost_answers, r.lost_tokens);
  if (choice.sampling.masks_cut_answers)
    text += fmt::format("{}{:.0f} of {} trained answers were cut and have no loss\n", report_label("overlong"),
                        r.masked_answers, choice.samples());
  if (!choice.calls.empty())
    text += fmt::format("{}{} an answer of {} in the mean, with results of {:.0f} tokens{} · engines wait {} s\n",
                        report_label("tools"), counted_noun(choice.tools.calls, "call"), show(choice.tools.wait),
                        choice.tools.tokens,
                        choice.tools.sandboxes > 0
                            ? fmt::format(", {} at once{}: a sandbox is busy for {} of the {}", choice.tools.sandboxes,
                                          choice.tools.cores > 0 ? fmt::format(" on {} each of the nodes that generate",
                                                                               counted_noun(choice.tools.cores, "core"))
                                                                 : "",
                                          percent(r.busy_sandboxes), choice.asynchrony ? "step" : "generation")
                            : "",
                        loop_seconds(r.parts.calls.value));
  if (choice.speculation.tokens > 0)
    text += fmt::format(
        "{}{} drafts {}, of which the model accepts {} each: {:.2f} tokens a pass\n", report_label("drafts"),
        choice.speculation.draft ? choice.speculation.draft->name : "a further layer",
        counted_noun(choice.speculation.tokens, "token"), percent(choice.speculation.acceptance), r.tokens_of_pass);
  if (choice.critic_nodes() > 0)
    text += fmt::format(
        "{}{} s on {} GPUs of its own, {} s of them beside the policy's; {} · its states would take {} GiB more of "
        "a GPU that trains the policy\n",
        report_label("critic"), loop_seconds(r.critic.value), r.critic_gpus, loop_seconds(r.hidden_critic.value),
        phase_words(r, "critic", ""), gib(r.freed_states.value));
  else if (choice.critic)
    text += fmt::format("{}{} s of training and log-probabilities; states of {} GiB, and {}\n", report_label("critic"),
                        loop_seconds(r.critic.value), gib(r.critic_states.value),
                        phase_words(r, "training of policy and critic", " with the policy"));
  if (r.controller.value > 0)
    text +=
        fmt::format("{}{} s of log-probabilities and training, in which one process sends and receives all samples\n",
                    report_label("controller"), loop_seconds(r.controller.value));
  if (choice.reward)
    text += fmt::format("{}{} s of log-probabilities\n", report_label("reward"), loop_seconds(r.reward.value));
  std::vector<std::string> phases;
  for (const PostTrainingResult::PhaseMemory& phase : r.phases)
    phases.push_back(fmt::format("{} {}{}", phase.phase, gib(phase.needed.value), phase.fits() ? "" : " (too much)"));
  if (!phases.empty())
    text += fmt::format("{}{}   (of {} GiB that a GPU that trains has for programs)\n", report_label("models"),
                        fmt::join(phases, " │ "), gib(r.phases.front().usable.value));
  return text;
}

/// The line of the model whose outputs an algorithm without rollouts compares with the policy's.
std::string frozen_line(const LoopAlgorithm& algorithm, const PostTrainingResult& r) {
  if (!algorithm.frozen) return "";
  const char* const model = algorithm.name == "dpo" ? "reference" : "teacher";
  const std::string name = report_label(model);
  if (algorithm.precomputed)
    return fmt::format("{}{} s for the samples of a step, once, before the training\n", name,
                       loop_seconds(r.reference.value));
  return fmt::format("{}{} s of log-probabilities; weights of {} GiB, and {}\n", name, loop_seconds(r.reference.value),
                     gib(r.reference_weights.value), phase_words(r, model, " with the policy"));
}

/// The length of a loop in which nothing fails, or its failures.
std::string length_lines(const PostTrainingChoice& choice, const Result& result) {
  if (result.failures) {
    auto failures = *result.failures;
    failures.lost_minibatches = 0;  // a loop counts the work of its steps
    return failure_lines(failures);
  }
  const TrainingLength& length = choice.length;
  if (!length.is_given()) return "";
  const Seconds step = result.post_training->step_time;
  const double steps = length.steps > 0 ? length.steps : std::floor(length.time / step);
  return fmt::format("{}{} in {}, if nothing fails\n", report_label("length"),
                     counted_noun(std::llround(steps), "step"),
                     long_time(length.steps > 0 ? length.steps * step : length.time));
}

std::string packs_line(const Scenario& s, const PostTrainingResult& r) {
  const PostTrainingChoice& choice = *s.post_training;
  if (!choice.packs) return "";
  if (choice.has_dynamic_batches())
    return fmt::format(
        "{}the {} takes samples of a rank up to {:.0f} tokens at once, as sequences of {} tokens; an "
        "optimizer step lasts as long as its fullest rank\n",
        report_label("batches"), r.training_part(), choice.packs->most_tokens, choice.packs->tokens);
  const std::int64_t packs = choice.packs->of_rank(choice.training_samples, s.plan.mesh.data),
                     taken = s.global_batch_size / s.plan.mesh.data / choice.packs->sequences;
  return fmt::format(
      "{}the {} packs answers with their prompts: {} × {} tokens hold {:.2f} of them; its samples are these "
      "sequences of {} tokens{}\n",
      report_label("packs"), r.training_part(), choice.packs->sequences, choice.packs->tokens,
      static_cast<double>(choice.packs->sequences * choice.packs->tokens) / choice.packs->sample_tokens,
      choice.packs->tokens,
      taken > packs ? fmt::format("; a rank has {} and trains on {}, since its micro-batches are equal",
                                  counted_noun(packs, "pack"), taken)
                    : "");
}

/// The heading of the training part, whose screen shows one optimizer step.
std::string optimizer_step_line(const char* part, const PostTrainingResult& r) {
  return r.optimizer_steps == 1 ? fmt::format("\n{}, one optimizer step:\n", part)
                                : fmt::format("\n{}, one of {} optimizer steps:\n", part, r.optimizer_steps);
}

/// The verdict on a training half that does not surely fit, beside the step that it would have. "": it fits.
std::string training_verdict(const Result& training) {
  const std::string_view words = training.plan_fits() ? fits_in_words(training.risk) : training.fits_in_words();
  std::string phases;
  for (const PostTrainingResult::PhaseMemory& phase : training.post_training->phases)
    if (!phase.fits())
      phases += fmt::format("{}{} DOES NOT FIT: {} of {} GiB a GPU\n", report_label("memory"), phase.phase,
                            gib(phase.needed.value), gib(phase.usable.value));
  if (words == "yes") return phases;
  const bool is_too_large = words == "no";
  return fmt::format(
             "{}the {} {}: {} of {} GiB a GPU{}\n", report_label("memory"), training.post_training->training_part(),
             is_too_large ? "DOES NOT FIT" : "is AT RISK to run out of memory", gib(training.memory.peak.value),
             gib(training.memory.capacity.value), is_too_large ? "; this loop step needs GPUs with more memory" : "") +
         phases;
}

std::string without_rollouts(const Scenario& s, const Result& result, const std::vector<WhatIf>& what_ifs) {
  const PostTrainingChoice& choice = *s.post_training;
  const PostTrainingResult& r = *result.post_training;
  return fmt::format("post-training of {} by {}: {} × {} a step, on {}, without rollouts\n", s.network.name,
                     choice.algorithm.name, counted_noun(choice.prompts, "prompt"),
                     counted_noun(choice.samples_per_prompt, "answer"), counted_noun(r.gpus, "GPU")) +
         fmt::format("{}{} · {} answers/s · {:.0f} tokens/s a GPU\n", report_label("loop step"), show(r.step_time),
                     three_digits(r.samples_per_s), r.tokens_per_s_per_gpu) +
         training_verdict(result) + report_label("") + loop_parts(r, false) + "\n" + report_label("interval") +
         "none of this step: no step of a loop without rollouts was measured; that of its training stands below\n" +
         loop_bottleneck_lines(result, what_ifs) + frozen_line(choice.algorithm, r) + packs_line(s, r) +
         length_lines(choice, result) + cost_lines(result) + optimizer_step_line("the training", r);
}

std::string split_table(const PostTrainingChoice& choice, const std::vector<PostTrainingSplit>& splits) {
  if (splits.empty()) return "";
  TextTable table{choice.shares_gpus() ? ">nodes that only generate" : ">nodes that generate",
                  ">GPUs",
                  ">GPUs that train",
                  ">step",
                  ">generation",
                  ">training half",
                  ">tokens/s a GPU",
                  ""};
  bool first = true;
  for (const PostTrainingSplit& split : splits) {
    std::vector<std::string> row{fmt::format("{}", split.nodes), fmt::format("{}", split.generation_gpus),
                                 fmt::format("{}", split.training_gpus)};
    std::string note = split.nodes == choice.nodes ? "this one" : "";
    if (split.error.empty()) {
      for (const double seconds : {split.step_time.value, split.generation.value, split.training_half.value})
        row.push_back(show(Seconds{seconds}));
      row.push_back(fmt::format("{:.0f}", split.tokens_per_s_per_gpu));
      if (first) note = note.empty() ? "best" : "best, this one";
    } else {
      row.insert(row.end(), 4, "");
      note = "impossible: " + split.error;
    }
    first = false;
    row.push_back(note);
    table.rows.push_back(std::move(row));
  }
  constexpr std::size_t most = 118;  // columns, as other lines of the screen
  const int numbers = choice.machine_nodes - choice.critic_nodes() - 1;
  const std::string left_out =
      static_cast<int>(splits.size()) >= numbers
          ? ""
          : fmt::format("  of 1 to {} nodes; left out: numbers that the plan or the engines refuse{}\n", numbers,
                        static_cast<int>(splits.size()) < kMostSplits
                            ? ""
                            : fmt::format(", and all but {} of the others", kMostSplits));
  return "splits of the nodes, the fastest first:\n" + table.text("  ", most) + left_out;
}

/// Lists what engines spend their time on. `calls`: the part of calls of tools, or "".
std::string engine_parts_line(const PostTrainingResult& r, const std::string& calls, const std::string& engines,
                              const std::string& limit) {
  return fmt::format("{}prompts {} │ products {} │ cache {} │ exchanges {} │ host {}{}   (s of {}; most for {})\n",
                     report_label(""), loop_seconds(r.parts.prefill.value), loop_seconds(r.parts.products.value),
                     loop_seconds(r.parts.cache.value), loop_seconds(r.parts.exchanges.value),
                     loop_seconds(r.parts.host.value), calls, engines, limit);
}

}  // namespace

std::string generation_screen(const Scenario& s, const Result& result, const std::vector<WhatIf>& what_ifs) {
  const PostTrainingChoice& choice = *s.generation;
  const GenerationResult& all = *result.generation;
  const PostTrainingResult& r = all.engines;
  const std::string come =
      choice.concurrency > 0 ? fmt::format("{} at a time", choice.concurrency) : std::string("all at once");
  return fmt::format("{} with {} {}: {} answered on {}, {}\n", s.network.name, choice.engine.name,
                     choice.engine.release, counted_noun(choice.prompts, "prompt"),
                     counted_noun(r.generation_gpus, "GPU"), come) +
         fmt::format("{}{} tokens/s · {} a GPU · {} answers/s · all after {}\n", report_label("generation"),
                     three_digits(all.tokens_per_s), three_digits(all.tokens_per_s_per_gpu),
                     three_digits(all.requests_per_s), show(r.generation)) +
         answer_times_line(r.answers, "its prompt has arrived") + engine_interval_lines(all) +
         fmt::format(
             "{}{} (a copy of the model that generates) of {} · prompts of {:.0f} tokens · answers of {:.0f} in the "
             "mean, {:.0f} at most · {} running sequences a decode step\n",
             report_label("engines"), counted_noun(r.engines, "engine"), counted_noun(choice.layout.gpus(), "GPU"),
             choice.prompt_tokens, r.mean_answer, r.longest_answer, three_digits(r.sequences)) +
         engine_parts_line(r, "", "the slowest engine", r.engine_limit) + cache_line(r) +
         what_if_line(result, what_ifs) + "\nforward pass of the plan:\n";
}

std::string post_training_screen(const Scenario& s, const Result& result, const std::vector<WhatIf>& what_ifs) {
  const PostTrainingChoice& choice = *s.post_training;
  const PostTrainingResult& r = *result.post_training;
  if (!choice.algorithm.has_rollouts) return without_rollouts(s, result, what_ifs);
  const std::string schedule = schedule_words(choice);
  const auto s_of = [](int gpus) { return gpus == 1 ? "s" : ""; };
  std::string text = fmt::format(
      "post-training of {} with {} and {}: {} × {} a step, {}\n", s.network.name, choice.stack.name, choice.engine.name,
      counted_noun(choice.prompts, "prompt"), counted_noun(choice.samples_per_prompt, "answer"),
      choice.has_own_nodes() && choice.shares_gpus()
          ? fmt::format("{} only generate{}, and {} generate{}, then train{}", counted_noun(choice.own_gpus(), "GPU"),
                        s_of(choice.own_gpus()), r.generation_gpus - choice.own_gpus(), s_of(r.colocated_gpus),
                        s_of(r.colocated_gpus))
      : choice.has_own_nodes() ? fmt::format("{} generate{} and {} train{}, {}", counted_noun(r.generation_gpus, "GPU"),
                                             s_of(r.generation_gpus), r.training_gpus, s_of(r.training_gpus), schedule)
      : r.generation_gpus == 1 ? std::string("1 GPU generates, then trains")
                               : fmt::format("{} GPUs generate, then train", r.generation_gpus));
  text += fmt::format("{}{} · {} answers/s · {:.0f} tokens/s a GPU, of all {}\n", report_label("loop step"),
                      show(r.step_time), three_digits(r.samples_per_s), r.tokens_per_s_per_gpu, r.gpus);
  text += training_verdict(result);
  text += report_label("") + loop_parts(r, choice.asynchrony && r.limit != LoopLimit::both_in_turn) + "\n" +
          loop_interval_line(r);
  text += report_label("limit") + limit_words(choice, r) + "\n" + loop_bottleneck_lines(result, what_ifs);
  text += fmt::format(
      "{}GPUs that generate do not generate for {} of the step{}; GPUs that train neither train nor compute "
      "log-probabilities for {}\n",
      report_label("idle"), percent(r.idle_generation),
      choice.asynchrony
          ? fmt::format(" (an engine works {} s of it in the mean, and takes new weights in {} s)",
                        loop_seconds((1 - r.idle_engines) * r.step_time.value), loop_seconds(r.weights.value))
          : "",
      percent(r.idle_training));
  text += fmt::format(
      "{}{} (a copy of the model that generates) of {}{} · answers of {:.0f} tokens in the mean, {:.0f} at most · {} a "
      "decode step of {:.0f} running sequences, the mean over the steps{}\n",
      report_label("generation"), counted_noun(r.engines, "engine"), counted_noun(choice.layout.gpus(), "GPU"),
      choice.has_own_nodes() && choice.shares_gpus()
          ? fmt::format(" · {:.0f} answers on GPUs that train", r.colocated_answers)
          : "",
      r.mean_answer, r.longest_answer, show(r.token_time), r.sequences,
      choice.asynchrony  ? ""
      : r.tail.value > 0 ? fmt::format(" · the last tenth of the answers takes {} more", show(r.tail))
                         : " · all answers end together");
  text += engine_parts_line(
      r, choice.calls.empty() ? "" : " │ calls " + loop_seconds(r.parts.calls.value),
      choice.asynchrony ? "a step, the mean of all engines" : "the slowest engine",
      r.busy_sandboxes >= kBusySandboxes ? r.engine_limit + ", but sandboxes limit the generation" : r.engine_limit);
  text += answer_times_line(r.answers,
                            choice.asynchrony            ? "a prompt has arrived"
                            : choice.sampling.is_given() ? "its round begins"
                                                         : "the step begins",
                            !choice.calls.empty());
  text += further_lines(choice, r);
  text += cache_line(r);
  const std::string transfer_words =
      choice.weight_store ? fmt::format("written to {} in {} and read in {}", choice.weight_store->name,
                                        show(r.store_write), show(r.store_read))
                          : fmt::format("sent as {} (trainyard list weight-transfers)", transfer_names(choice));
  text += fmt::format("{}{} of the policy, {}{}\n", report_label("weights"), show(r.sent), transfer_words,
                      choice.layout.weights == EngineFormat::bf16 ? ""
                      : sends_narrow_weights(choice)              ? ", narrowed before"
                                                                  : ", in bf16, which the engines narrow");
  return text + length_lines(choice, result) + cost_lines(result) + packs_line(s, r) +
         split_table(choice, result.splits) + optimizer_step_line("the training half", r);
}

}  // namespace trainyard
