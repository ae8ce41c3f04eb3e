#include "scenarios/src/reading/training_length.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainyard {
namespace {

constexpr double kMostCounted = 1e18;
constexpr std::int64_t kMostMicroBatch = 1 << 24;  // largest micro-batch

/// Reads a whole number, such as "300000000000" or "300e9".
double count_of(Fields& fields, Key key, double most = kMostCounted) {
  const double count = fields.number(key, 1, most);
  if (count != std::floor(count)) fields.refuse(key, fmt::format("{} is no whole number", count));
  return count;
}

/// Writes a number of tokens with a suffix, such as 300B or 15T, in digits. The reader of the number refuses other texts.
void expand_suffix(Node& node) {
  Node* tokens = node.find("tokens");
  if (!tokens || tokens->kind != Node::Kind::scalar || find_number(tokens->scalar)) return;
  if (const std::optional<double> count = find_count(tokens->scalar)) tokens->scalar = fmt::format("{:.0f}", *count);
}

[[noreturn]] void wrong_keys(const Fields& fields) {
  fail(fields.place(),
       fmt::format(
           "{}: expected one of {{steps}}, {{tokens}}, {{time}}, {{epochs, samples}} and {{epochs, steps_per_epoch}}",
           fields.what()));
}

/// Reads `image`. `from` is the registry: a storage of the catalog, or a map. Cached layers are not pulled.
void read_image(TrainingEnds& ends, const Node& node, const Catalog& catalog) {
  Fields image(node, "plan.training.image");
  const Bytes size = image.bytes({"size", "Size of the container image, for example 10 GB."}),
              cached = image.bytes({"cached", "Layers of the image that the nodes have already, for example 8 GB."},
                                   Bytes{0});
  if (cached > size) image.refuse("cached", fmt::format("{} of an image of {}", show(cached), show(size)));
  ends.image = size - cached;
  ends.registry = read_storage(catalog.resolve(
      "storage",
      image.required_child(
          {"from", "Storage that holds the image: a name, for example nfs-10g, or a map (trainyard list storages)."})));
  image.finish();
}

TrainingEnds::RankZeroWork read_rank_zero_work(const Node& node, const Catalog& catalog) {
  Fields fields(node, "plan.training.rank_0");
  TrainingEnds::RankZeroWork alone;
  alone.place = node.place;
  alone.time = fields.seconds({"time", "Time in which rank 0 works alone, for example 10 s."}, Seconds{0});
  if (fields.has(
          {"every",
           "Steps between two times of that work, which also comes at the end, for example 1000. Default: only at the "
           "end."}))
    alone.interval_steps = count_of(fields, "every");
  if (const Node* store = fields.child_unless_null(
          {"checkpoint",
           "Storage to which rank 0 writes its weights: a name, for example nfs-10g (trainyard list storages), or "
           "local (drives of its node). Default: it writes none."})) {
    alone.writes = true;
    if (store->kind != Node::Kind::scalar || store->scalar != "local")
      alone.store = read_storage(catalog.resolve("storage", *store));
  }
  alone.states =
      fields.boolean({"states", "Whether the checkpoint of rank 0 has the states of the optimizer too."}, false);
  if (alone.states && !alone.writes) fields.refuse("states", "only with checkpoint");
  if (const Node* log = fields.child_unless_null(
          {"log", "Lines that rank 0 writes, for example {to: nfs-10g, line: 100 B, every: 1}. Default: none."})) {
    Fields lines(*log, "plan.training.rank_0.log");
    alone.log = read_storage(catalog.resolve(
        "storage",
        lines.required_child({"to", "Storage of the log: a name, for example nfs-10g (trainyard list storages)."})));
    alone.line = lines.bytes({"line", "Size of a line of the log, for example 100 B."}, Bytes{100});
    if (lines.has({"every", "Steps between two lines of the log, for example 10. Default: 1."}))
      alone.line_every = count_of(lines, "every");
    lines.finish();
  }
  if (const Node* evaluate = fields.child_unless_null({"evaluate",
                                                       "Evaluation by rank 0 alone at the end, for example {samples: "
                                                       "10000, micro_batch_size: 32}. Default: none."})) {
    Fields samples(*evaluate, "plan.training.rank_0.evaluate");
    alone.samples = count_of(samples, {"samples", "Number of samples of the evaluation, for example 10000."});
    alone.micro_batch_size = samples.integer_within(
        {"micro_batch_size", "Micro-batch size of the evaluation, for example 32."}, 1, kMostMicroBatch);
    samples.finish();
  }
  fields.finish();
  if (alone.time.value == 0 && !alone.writes && !alone.log && alone.samples == 0)
    fail(node.place,
         "plan.training.rank_0: expected time, checkpoint, log or evaluate, for the work that only rank 0 does");
  return alone;
}

TrainingEnds read_ends(Fields& fields, const Catalog& catalog) {
  TrainingEnds ends;
  ends.start = fields.seconds(
      {"start", "Time before the first step, for the start of containers, processes and framework, for example 60 s."},
      Seconds{0});
  ends.weights = fields.boolean(
      {"weights", "Whether weights are copied to the first GPU and from there to all others, before the first step."},
      false);
  if (const Node* image =
          fields.child_unless_null({"image",
                                    "Container image that every node pulls before the start, for example {size: 10 GB, "
                                    "from: nfs-10g, cached: 8 GB}. Default: none."}))
    read_image(ends, *image, catalog);
  if (const Node* alone = fields.child_unless_null(
          {"rank_0",
           "Work that only rank 0 does, while the others wait: {time: 10 s, every: 1000, checkpoint: local | STORAGE, "
           "states: true (also those of the optimizer), log: {to: STORAGE, line: 100 B, every: 1}, evaluate: {samples: "
           "10000, micro_batch_size: 32}}. time and checkpoint come after each `every` steps and at the end (without "
           "every: only at the end), evaluate at the end. Default: none."}))
    ends.rank_zero_work = read_rank_zero_work(*alone, catalog);
  const Node* node =
      fields.child_unless_null({"evaluate",
                                "Evaluations after each `every` steps and at the end, for example {samples: 50000, "
                                "every: 1000}. Without every: only at the end. Default: none."});
  if (!node) return ends;
  Fields evaluate(*node, "plan.training.evaluate");
  ends.evaluate_place = node->place;
  ends.samples = count_of(evaluate, {"samples", "Number of samples of an evaluation, for example 50000."});
  if (evaluate.has({"every", "Steps between two evaluations, for example 1000. Default: only at the end."}))
    ends.interval_steps = count_of(evaluate, "every");
  if (evaluate.has(
          {"micro_batch_size", "Micro-batch size of an evaluation, for example 64. Default: that of the training."}))
    ends.micro_batch_size = evaluate.integer_within("micro_batch_size", 1, kMostMicroBatch);
  if (evaluate.has({"precision", "Precision of an evaluation, for example bf16. Default: that of the training."}))
    ends.precision = evaluate.text("precision");
  evaluate.finish();
  return ends;
}

}  // namespace

TrainingLength read_training_length(const Node& stated, double step_samples, double sample_tokens,
                                    const Catalog& catalog) {
  Node node = stated;
  expand_suffix(node);
  Fields fields(node, "plan.training");
  const bool
      steps = fields.has(
          {"steps",
           "Number of steps of the training, for example 100000. One of steps, tokens, time and epochs is expected."}),
      tokens = fields.has(
          {"tokens",
           "Number of tokens of the training, for example 300e9. One of steps, tokens, time and epochs is expected."}),
      epochs = fields.has({"epochs",
                           "Number of epochs of the training, for example 90; with samples or steps_per_epoch. One of "
                           "steps, tokens, time and epochs is expected."}),
      samples = fields.has({"samples",
                            "Number of samples of an epoch, for example 1281167. Required with epochs, unless "
                            "steps_per_epoch is given."}),
      per_epoch =
          fields.has({"steps_per_epoch",
                      "Number of steps of an epoch, for example 5004. Required with epochs, unless samples is given."}),
      time = fields.has({"time",
                         "Length of the training, for example 54 d: as many steps as fit. One of steps, tokens, time "
                         "and epochs is expected."});
  TrainingLength length;
  length.ends = read_ends(fields, catalog);
  fields.finish();
  if (steps + tokens + epochs + time != 1 || samples + per_epoch != epochs) wrong_keys(fields);
  if (steps) {
    length.steps = count_of(fields, "steps");
  } else if (tokens) {
    if (sample_tokens <= 1) fields.refuse("tokens", "the model reads no tokens; expected epochs and samples");
    length.steps = std::ceil(count_of(fields, "tokens") / (step_samples * sample_tokens));
  } else if (time) {
    length.time = fields.seconds("time");
    if (length.time.value <= 0) fields.refuse("time", "more than 0 expected");
  } else {
    length.epochs = count_of(fields, "epochs", 1e9);
    length.steps_per_epoch =
        per_epoch ? count_of(fields, "steps_per_epoch", 1e12) : std::ceil(count_of(fields, "samples") / step_samples);
    length.steps = length.epochs * length.steps_per_epoch;
  }
  return length;
}

double TrainingEnds::times_alone(double steps) const {
  if (!rank_zero_work) return 0;
  return rank_zero_work->interval_steps > 0 ? std::ceil(steps / rank_zero_work->interval_steps) : 1;
}

double TrainingEnds::evaluations(double steps) const {
  if (samples == 0) return 0;
  return interval_steps > 0 ? std::ceil(steps / interval_steps) : 1;
}

double virtual_epoch_steps(const TrainingLength& length, double count) {
  return std::ceil(length.steps_per_epoch / count);
}

std::string describe(const TrainingLength& length) {
  const auto counted = [](double n, const char* what) {
    return fmt::format("{} {}{}", with_commas(n), what, n == 1 ? "" : "s");
  };
  if (length.time.value > 0) return long_time(length.time);
  if (length.epochs == 0) return counted(length.steps, "step");
  return fmt::format("{} × {}", counted(length.epochs, "epoch"), counted(length.steps_per_epoch, "step"));
}

std::string long_time(Seconds time) {
  constexpr double hour = 3600, day = 24 * hour, year = 365.25 * day;
  const double s = time.value;
  if (s < 1000) return show(Seconds{s});
  if (s < 2 * hour) return fmt::format("{:.1f} min", s / 60);
  if (s < 3 * day) return fmt::format("{:.1f} h", s / hour);
  return s < 2 * year ? fmt::format("{:.1f} days", s / day) : fmt::format("{:.1f} years", s / year);
}

}  // namespace trainyard
