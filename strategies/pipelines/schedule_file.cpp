// A pipeline schedule as a file: the passes of each stage, one after another.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <tuple>

#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

using Pass = PipelineTask::Pass;
constexpr std::string_view kLetters = "FBIW";  // in the order of `Pass`

// Values of the key `placement`.
constexpr const char *kLoop = "loop", *kBothEnds = "both-ends";

/// The name of a pass in a file: F3, or F3.1 for the second of several chunks.
std::string pass_name(const PipelineTask& task, int chunks) {
  const char letter = kLetters[static_cast<std::size_t>(task.pass)];
  return chunks == 1 ? fmt::format("{}{}", letter, task.micro_batch)
                     : fmt::format("{}{}.{}", letter, task.micro_batch, task.chunk);
}

PipelineTask read_pass(const Node& item) {
  const std::string& text = item.scalar;
  PipelineTask task;
  const std::size_t letter = text.empty() ? std::string_view::npos : kLetters.find(text.front());
  const char* const end = text.data() + text.size();
  bool good = item.kind == Node::Kind::scalar && letter != std::string_view::npos;
  const auto number = [&](const char* from, int& value) {
    const std::from_chars_result read = std::from_chars(from, end, value);
    good = good && read.ec == std::errc{} && value >= 0;
    return read.ptr;
  };
  if (good) {
    const char* const rest = number(text.data() + 1, task.micro_batch);
    good = good && (rest == end || (*rest == '.' && number(rest + 1, task.chunk) == end));
  }
  if (!good)
    fail(item.place,
         fmt::format("\"{}\" is no pass; expected F (forward), B (backward), I (gradients of inputs) or W (gradients "
                     "of weights) with the number of a micro-batch, and after a dot that of a chunk: F0, B3, I2.1",
                     text));
  task.pass = static_cast<Pass>(letter);
  return task;
}

/// The orders of all stages, with the places of their passes in the file.
class OrderFile {
 public:
  explicit OrderFile(const std::filesystem::path& path) {
    const Node document = read_document(path);
    Fields fields(document, "order of passes");
    shape_.chunks = fields.integer_within<int>({"chunks", "Model chunks of each stage."}, 1, 64, 1);
    placement_ =
        fields.choice({"placement",
                       "Where the chunks lie: loop (chunk after chunk from the first stage to the last), v (down the "
                       "stages and up again) or both-ends (two copies of the network: chunk 0 leads down and takes the "
                       "first half of the micro-batches, chunk 1 leads up and takes the others)."},
                      {kLoop, "v", kBothEnds}, kLoop);
    if (placement_ != kLoop && shape_.chunks != 2)
      fields.refuse("placement", fmt::format("{} needs chunks: 2, not {}", placement_, shape_.chunks));
    const std::vector<Node>* stages =
        fields.list({"stages",
                     "The passes of each stage, in order: F (forward), B (backward), I (gradients of inputs), W "
                     "(gradients of weights), each with its micro-batch and, after a dot, its chunk."});
    if (!stages)
      fail(document.place, "order of passes: \"stages\" is missing; expected a list of passes for each stage");
    fields.finish();
    shape_.stages = static_cast<int>(stages->size());
    for (const Node& stage : *stages) read_stage(stage);
    if (has_two_copies() && (shape_.stages % 2 != 0 || shape_.micro_batches % 2 != 0))
      fields.refuse("placement", fmt::format("both-ends needs even numbers of stages and micro-batches, not {} and {}",
                                             shape_.stages, shape_.micro_batches));
    for (std::size_t stage = 0; stage < orders_.size(); ++stage) require_all(static_cast<int>(stage), (*stages)[stage]);
    if (has_two_copies()) require_alike();
    require_end();
  }

  PipelineSchedule schedule(const std::string& name) const {
    const auto orders = std::make_shared<const std::vector<std::vector<PipelineTask>>>(orders_);
    const PipelineShape stated = shape_;
    PipelineSchedule made;
    made.name = name;
    made.description = "the order of passes that a file states";
    made.least_chunks = stated.chunks;
    if (placement_ != kLoop) made.place = v_place;
    made.copies = has_two_copies() ? 2 : 1;
    // A caller that bounds the time of a step asks for fewer micro-batches. It gets the same order without the others.
    made.tasks = [orders](int stage, const PipelineShape& shape) {
      std::vector<PipelineTask> tasks;
      for (const PipelineTask& task : orders->at(static_cast<std::size_t>(stage)))
        if (task.micro_batch < shape.micro_batches) tasks.push_back(task);
      return tasks;
    };
    made.refuses = [stated](const PipelineShape& shape) -> std::string {
      if (std::tuple{shape.stages, shape.micro_batches, shape.chunks} ==
          std::tuple{stated.stages, stated.micro_batches, stated.chunks})
        return "";
      return fmt::format("the file has {}; the plan has {}", in_words(stated), in_words(shape));
    };
    return made;
  }

 private:
  PipelineShape shape_{1, 0, 1};
  std::string placement_ = kLoop;
  std::vector<std::vector<PipelineTask>> orders_;
  std::vector<std::vector<Place>> places_;

  static std::string in_words(const PipelineShape& shape) {
    return fmt::format("{} stages, {} micro-batches and {} a stage", shape.stages, shape.micro_batches,
                       counted_noun(shape.chunks, "chunk"));
  }
  std::string name_of_task(const PipelineTask& task) const { return pass_name(task, shape_.chunks); }
  bool has_two_copies() const { return placement_ == kBothEnds; }
  /// True if the micro-batch goes through that chunk of a stage.
  bool takes(int chunk, int micro_batch) const {
    return !has_two_copies() || chunk == (micro_batch < shape_.micro_batches / 2 ? 0 : 1);
  }

  void read_stage(const Node& stage) {
    if (stage.kind != Node::Kind::list || stage.items.empty())
      fail(stage.place, "order of passes: expected the list of passes of a stage, such as [F0, F1, B0, B1]");
    std::vector<PipelineTask>& order = orders_.emplace_back();
    std::vector<Place>& places = places_.emplace_back();
    for (const Node& item : stage.items) {
      const PipelineTask task = read_pass(item);
      if (task.chunk >= shape_.chunks)
        fail(item.place, fmt::format("{}: chunk {}, expected 0 to {} (chunks: {})", item.scalar, task.chunk,
                                     shape_.chunks - 1, shape_.chunks));
      if (task.micro_batch >= static_cast<int>(stage.items.size()))
        fail(item.place, fmt::format("{}: micro-batch {}, but the stage has {} passes in all", item.scalar,
                                     task.micro_batch, stage.items.size()));
      shape_.micro_batches = std::max(shape_.micro_batches, task.micro_batch + 1);
      order.push_back(task);
      places.push_back(item.place);
    }
  }

  /// Throws UserError unless each micro-batch goes forward once and back once through each chunk of the stage.
  void require_all(int stage, const Node& node) const {
    using Lines = std::array<int, kLetters.size()>;  // line of each pass in the file; 0: it is missing
    const auto has = [](const Lines& lines, Pass pass) { return lines[static_cast<std::size_t>(pass)] > 0; };
    std::vector<Lines> found(static_cast<std::size_t>(shape_.micro_batches) * shape_.chunks);
    const auto lines_of = [&](const PipelineTask& task) -> Lines& {
      return found[static_cast<std::size_t>(task.micro_batch) * shape_.chunks + task.chunk];
    };
    const std::vector<PipelineTask>& order = orders_[stage];
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Place& place = places_[stage][i];
      if (!takes(order[i].chunk, order[i].micro_batch))
        fail(place,
             fmt::format("{}: micro-batch {} of {} goes through chunk {}, as placement: both-ends says",
                         name_of_task(order[i]), order[i].micro_batch, shape_.micro_batches, 1 - order[i].chunk));
      Lines& lines = lines_of(order[i]);
      int& line = lines[static_cast<std::size_t>(order[i].pass)];
      if (line > 0)
        fail(place,
             fmt::format("{} of stage {} comes twice; the first is in line {}", name_of_task(order[i]), stage, line));
      line = place.line;
      if (has(lines, Pass::backward) && (has(lines, Pass::backward_input) || has(lines, Pass::backward_weights)))
        fail(place, fmt::format("{} of stage {}: the micro-batch goes back twice; expected either B, or I and W",
                                name_of_task(order[i]), stage));
    }
    const auto require = [&](bool is_there, const PipelineTask& task) {
      if (is_there) return;
      fail(node.place,
           fmt::format(
               "stage {} lacks {}; each of the {} micro-batches goes forward once (F) and back once (B, or I and W)",
               stage, name_of_task(task), shape_.micro_batches));
    };
    for (int micro_batch = 0; micro_batch < shape_.micro_batches; ++micro_batch)
      for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
        if (!takes(chunk, micro_batch)) continue;
        const Lines& lines = lines_of({Pass::forward, micro_batch, chunk});
        const bool inputs = has(lines, Pass::backward_input), weights = has(lines, Pass::backward_weights);
        require(has(lines, Pass::forward), {Pass::forward, micro_batch, chunk});
        if (has(lines, Pass::backward)) continue;
        require(inputs || weights, {Pass::backward, micro_batch, chunk});
        require(inputs, {Pass::backward_input, micro_batch, chunk});
        require(weights, {Pass::backward_weights, micro_batch, chunk});
      }
  }

  /// Throws UserError unless stages with the same layers run the same passes of them, one after another: they gather
  /// and sum in this order. A stage must complete the gradients of its later layers first.
  void require_alike() const {
    for (std::size_t stage = 0; stage < orders_.size() / 2; ++stage) {
      const std::size_t opposite = orders_.size() - 1 - stage;
      const std::vector<PipelineTask>&passes = orders_[stage], &other = orders_[opposite];
      const auto [unlike, differing] = std::mismatch(
          passes.begin(), passes.end(), other.begin(), other.end(),
          [](const PipelineTask& a, const PipelineTask& b) { return a.pass == b.pass && a.chunk != b.chunk; });
      if (unlike != passes.end() || differing != other.end()) {
        const auto number = std::min(static_cast<std::size_t>(differing - other.begin()), other.size() - 1);
        fail(places_[opposite][number],
             fmt::format("{} of stage {}: stage {} holds the same layers, so with placement: both-ends it runs the "
                         "same passes, each through the other chunk",
                         name_of_task(other[number]), opposite, stage));
      }
      if (passes.back().chunk != 0)
        fail(places_[stage].back(), fmt::format("{} ends stage {}: a pass of chunk 0 is expected there, since the "
                                                "stage sums gradients of its later layers first",
                                                name_of_task(passes.back()), stage));
    }
  }

  /// A pass that a stage waits for.
  struct Need {
    int stage = -1;
    std::size_t position = 0;  ///< its position in the order of that stage
    bool waits() const { return stage >= 0; }
  };

  /// Returns a pass that the next pass of the stage needs and that has not run yet. `done`: by stage, the number of
  /// passes that have run.
  Need need_of(const PipelineSchedule& schedule, const std::vector<std::size_t>& done, int stage) const {
    const PipelineTask& task = orders_[stage][done[stage]];
    const int v = schedule.virtual_stage(stage, task.chunk, shape_);
    const auto undone = [&](int virtual_stage, bool back) {
      const PipelinePlace place = schedule.place_of(virtual_stage, shape_);
      const auto number = static_cast<std::size_t>(place.stage);
      for (std::size_t i = done[number]; i < orders_[number].size(); ++i) {
        const PipelineTask& other = orders_[number][i];
        const bool gives =
            back ? other.pass == Pass::backward || other.pass == Pass::backward_input : other.pass == Pass::forward;
        if (gives && other.micro_batch == task.micro_batch && other.chunk == place.chunk) return Need{place.stage, i};
      }
      return Need{};
    };
    if (task.pass == Pass::forward) return schedule.begins_network(v, shape_) ? Need{} : undone(v - 1, false);
    if (const Need forward = undone(v, false); forward.waits()) return forward;
    if (task.pass == Pass::backward_weights) return undone(v, true);
    return schedule.ends_network(v, shape_) ? Need{} : undone(v + 1, true);
  }

  /// Runs the orders. Throws UserError at a pass that waits for ever.
  void require_end() const {
    const PipelineSchedule schedule = this->schedule("");
    std::vector<std::size_t> done(orders_.size());
    const auto runs = [&](int stage) { return done[stage] < orders_[stage].size(); };
    for (bool progress = true; progress;) {
      progress = false;
      for (int stage = 0; stage < shape_.stages; ++stage)
        for (; runs(stage) && !need_of(schedule, done, stage).waits(); progress = true) ++done[stage];
    }
    int stage = 0;
    while (stage < shape_.stages && !runs(stage)) ++stage;
    if (stage == shape_.stages) return;
    std::vector<bool> seen(orders_.size());  // the waits, followed from stage to stage, lead into the cycle
    for (; !seen[stage]; stage = need_of(schedule, done, stage).stage) seen[stage] = true;
    std::vector<std::string> waits;
    const auto task_at = [&](int number, std::size_t position) {
      return fmt::format("{} of stage {}", name_of_task(orders_[number][position]), number);
    };
    int waiting = stage;
    do {
      const Need need = need_of(schedule, done, waiting);
      waits.push_back(fmt::format("{} waits for {} (line {})", task_at(waiting, done[waiting]),
                                  task_at(need.stage, need.position), places_[need.stage][need.position].line));
      waiting = need.stage;
    } while (waiting != stage);
    fail(places_[stage][done[stage]], fmt::format("deadlock: {}", fmt::join(waits, ", and ")));
  }
};

}  // namespace

PipelineSchedule read_pipeline_schedule(const std::filesystem::path& path) {
  return OrderFile(path).schedule(path.string());
}

std::string pipeline_schedule_text(const PipelineSchedule& schedule, const PipelineShape& shape) {
  const bool turns = schedule.place_of(shape.stages * shape.chunks - 1, shape).stage != shape.stages - 1;
  std::string text = fmt::format(
      "# Passes of {}: F forward, B backward, I gradients of inputs, W gradients of weights; then the micro-batch{}.\n"
      "chunks: {}\nplacement: {}\nstages:\n",
      schedule.name, shape.chunks > 1 ? ", and the chunk after a dot" : "", shape.chunks,
      schedule.copies > 1 ? kBothEnds
      : turns             ? "v"
                          : kLoop);
  for (const std::vector<PipelineTask>& order : schedule.orders(shape)) {
    std::vector<std::string> passes;
    for (const PipelineTask& task : order) passes.push_back(pass_name(task, shape.chunks));
    text += fmt::format("  - [{}]\n", fmt::join(passes, ", "));
  }
  return text;
}

}  // namespace trainyard
