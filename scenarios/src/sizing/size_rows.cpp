// The best plan on each size of `trainyard size`.
#include "scenarios/src/sizing/size_rows.hpp"

#include <fmt/format.h>

#include <cmath>

#include "scenarios/src/search/legal_batches.hpp"
#include "scenarios/src/search/plan_answer.hpp"
#include "scenarios/src/sizing/size_first.hpp"
#include "scenarios/src/studies/sweeps/sweep_journal.hpp"
#include "sim/process/job.hpp"

namespace trainyard {
namespace {

/// Number of batches that are compared if the batch may differ, and their share of the search's limit.
constexpr std::size_t kComparedBatches = 8;
constexpr double kShareOfBatches = 0.5;

}  // namespace

bool RowSearch::has_plan(const SizeCase& size_case, int nodes) const {
  end_if_interrupted();
  try {
    return !batches_on(read_plan_question(question_.scenario(size_case, nodes, true), question_.name())).empty();
  } catch (const UserError&) {
    return false;
  }
}

/// Lists batches that have plans: the scenario's, and those within the tolerance that may be better.
std::vector<std::int64_t> RowSearch::batches_on(const PlanQuestion& question) const {
  const std::int64_t batch = question.base.global_batch_size;
  const auto tolerance = static_cast<std::int64_t>(static_cast<double>(batch) * options_.batch_tolerance);
  return legal_splits(question, sized_space(question, question_.document()))
      .promising_batches(batch, batch - tolerance, batch + tolerance, kComparedBatches);
}

double RowSearch::work() const {
  if (options_.search_seconds > 0) return 0;
  return options_.work > 0 ? options_.work : kWorkOfCluster;
}

std::string RowSearch::bound_words(const char* before, const char* behind) const {
  return work() > 0 ? fmt::format("{}after {:.3g} M operations: --work{}", before, work() * 1e-6, behind) : "";
}

SizeRow RowSearch::row(const SizeCase& size_case, const RowRequest& request) {
  SizeRow row = question_.empty_row(size_case, request.nodes);
  try {
    PlanQuestion question = plans_of(size_case, request);
    row.batch = own_batch_ = question.base.global_batch_size;
    const std::string key = answer_key(
        answer_key(question.base) +
            fmt::format(" {} {} {} {} {} {} {}", options_.search_seconds, work(), options_.tokens_per_parameter,
                        request.useful, request.headroom.value_or(options_.headroom.value_or(-1)),
                        options_.batch_tolerance, request.batch) +
            request.fabric + plans_words(row),
        question_.document());
    {
      const Journal journal(options_.journal);
      if (const std::optional<std::string> line = journal.find(key)) {
        plans_.keep(row = size_row_from_text(*line));
        return row;
      }
    }
    double share = 1;
    if (request.batch > 0)
      take_batch(size_case, request, request.batch, question, row);
    else if (options_.batch_tolerance > 0)
      share -= choose_batch(size_case, request, question, row);
    search(question, row, request, share);
    Journal(options_.journal).add(key, to_text(row));
  } catch (const UserError& e) {
    row.error = e.what();
    row.refused = true;
  }
  plans_.keep(row);
  return row;
}

/// Describes the plans of other sizes that are tried on a size.
std::string RowSearch::plans_words(const SizeRow& row) const {
  std::string words;
  for (const PlanPoint& point : plans_.for_size(row)) words += "; " + words_of(point, 0);
  return words;
}

/// Returns true if the plans of other sizes are not those that were tried on this size before.
bool RowSearch::tries_new_plans(const SizeRow& row) {
  std::string words = plans_words(row);
  std::string& tried = tried_[fmt::format("{} on {}", row.model, nodes_in_words(row))];
  if (tried == words) return false;
  tried = std::move(words);
  return true;
}

/// Reads the question for a plan on the nodes of a request, with its fabric between them.
PlanQuestion RowSearch::plans_of(const SizeCase& size_case, const RowRequest& request, Overrides overrides) const {
  const Node document = question_.scenario(size_case, request.nodes, true);
  if (!request.fabric.empty()) overrides.emplace_back(path_of_fabric(document, size_case.node.name), request.fabric);
  return read_plan_question(document, question_.name(), overrides);
}

void RowSearch::take_batch(const SizeCase& size_case, const RowRequest& request, std::int64_t batch,
                           PlanQuestion& question, SizeRow& row) const {
  if (batch == row.batch) return;
  row.batch = batch;
  question = plans_of(size_case, request, {{"plan.global_batch_size", fmt::format("{}", batch)}});
}

/// Searches a plan for each batch within the tolerance and chooses the batch of the least time per sample. Returns
/// the share of the wall time that these searches took. A limit of work applies to the following search in full.
double RowSearch::choose_batch(const SizeCase& size_case, const RowRequest& request, PlanQuestion& question,
                               SizeRow& row) {
  const std::vector<std::int64_t> batches = batches_on(question);
  if (batches.empty()) return 0;  // the search reports why
  std::int64_t best = batches.front();
  double least = 0;
  const double batch_share = kShareOfBatches / static_cast<double>(batches.size());
  for (const std::int64_t batch : batches) {
    if (batches.size() == 1) break;
    take_batch(size_case, request, batch, question, row);
    const PlanAnswer answer = answer_plan(question, plan_options(question, row, batch_share, batch_share));
    if (is_interrupted()) stop(row, answer);
    if (answer.best.empty()) continue;
    row.batches.push_back(batch);
    const double time = answer.best.front().outcome.step_time / static_cast<double>(batch);
    if (row.batches.size() > 1 && time >= least) continue;
    least = time;
    best = batch;
  }
  take_batch(size_case, request, best, question, row);
  return batches.size() == 1 ? 0 : kShareOfBatches;
}

/// Returns the options of a plan search. It may use `time_share` of the limit of wall time, and `work_share` of the
/// limit of work.
PlanAnswerOptions RowSearch::plan_options(const PlanQuestion& question, const SizeRow& row, double time_share,
                                          double work_share) const {
  PlanAnswerOptions options;
  options.neighbours = options.rule = options.without_headroom = false;
  options.headroom = options_.headroom;
  options.journal = options_.journal;
  options.seconds = options_.search_seconds * time_share;
  options.search.work = work() * work_share;
  const std::string cluster_text = fmt::format("{}{}{}", place, nodes_in_words(row), bound_words(" (ends ", ")"));
  if (options_.progress)
    options.search.progress = [this, cluster_text](const std::string& text) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
      options_.progress(fmt::format("{}{}, {} ({:.0f} s)", best_words, cluster_text, text, passed.count()));
    };
  options.space = sized_space(question, question_.document());
  return options;
}

/// Ends the answer after a signal. Only a text mentions the best plan of the interrupted search.
void RowSearch::stop(const SizeRow& row, const PlanAnswer& answer) {
  interrupted_ = fmt::format(", on {} node{}", row.nodes, row.nodes == 1 ? "" : "s");
  if (!answer.best.empty())
    interrupted_ += fmt::format(", where the best plan so far takes {:.4g} s a step: {}, batch {}",
                                answer.best.front().outcome.step_time, answer.best.front().plan, row.batch);
  throw Interruption();
}

/// Searches the best plan and computes the whole training with it.
void RowSearch::search(const PlanQuestion& question, SizeRow& row, const RowRequest& request, double share) {
  PlanAnswerOptions options = plan_options(question, row, share, 1);
  if (request.headroom) options.headroom = request.headroom;
  const double steps = question_.steps_of(question.base);
  if (request.useful > 0) options.search.useful = request.useful * kSecondsOfDay / steps;
  const PlanAnswer answer = answer_plan(question, options);
  if (is_interrupted()) stop(row, answer);
  if (answer.search.useless_from > 0) {
    row.error = fmt::format("no plan takes less than {:.1f} days", answer.search.useless_from * steps / kSecondsOfDay);
    return;
  }
  row.headroom = answer.headroom;
  if (answer.search.proved) return take_best(answer, row);
  const double best = answer.best.empty() ? HUGE_VAL : answer.best.front().outcome.step_time;
  PlainPlans plain_plans(question, options.space);
  const std::optional<SimulatedPlan> plain = plain_plans.simulate(row.headroom, best);
  if (plain && plain->outcome.step_time < best)
    take_plan(question_, question, plain_plans.space(), plain->point, own_batch_, row);
  else
    take_best(answer, row);
  take_faster_plan(question_, question, plans_.for_size(row), own_batch_, row);
}

/// Takes the best plan of a search, or the reason why there is none.
void RowSearch::take_best(const PlanAnswer& answer, SizeRow& row) const {
  if (answer.best.empty()) {
    row.too_large = answer.search.ended == SearchEnd::proved;
    row.error =
        row.too_large ? "no plan fits into " + usable_memory(answer.capacity, answer.headroom)
        : answer.search.ended == SearchEnd::time
            ? fmt::format("no plan that fits was found in {:.4g} s (--search)", options_.search_seconds)
            : fmt::format("no plan that fits was found in {:.3g} M operations (--work)", answer.search.work * 1e-6);
    return;
  }
  row.plan = answer.best.front().plan;
  row.proved = answer.search.proved;
  question_.take_training(answer.document, own_batch_, row);
}

bool RowSearch::improve(const SizeCase& size_case, SizeRow& row) {
  if (row.proved || !plans_.has_better(row) || !tries_new_plans(row)) return false;
  PlanQuestion question = plans_of(size_case, {row.nodes});
  SizeRow faster = row;
  faster.batch = own_batch_ = question.base.global_batch_size;
  take_batch(size_case, {row.nodes}, row.batch, question, faster);
  take_faster_plan(question_, question, plans_.for_size(row), own_batch_, faster);
  if (faster.time >= row.time) return false;
  plans_.keep(faster);
  row = std::move(faster);
  return true;
}

}  // namespace trainyard
