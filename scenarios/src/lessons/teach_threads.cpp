#include "scenarios/src/lessons/teach_threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "scenarios/src/answer/json_fields.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/timeline.hpp"
#include "sim/observers/values.hpp"
#include "sim/program.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {
namespace {

constexpr std::uint16_t kItems = 0, kApply = 1;  // the buffer of a thread's items; the kernel that applies a function

/// The work to divide among threads. The functions of an item run one after another.
struct SharedWork {
  bool loop = false;
  int items = 1, threads = 1;
  std::vector<double> times = {1};
  double handover = 0;

  int functions() const { return static_cast<int>(times.size()); }
  int thread_of(int item, int function) const {
    if (loop) return item % threads;
    return threads < functions() ? function * threads / functions() : function;
  }
  static double input(int item) { return item + 1; }
  /// Applies a function to an integer. Different orders of the functions give different results.
  double apply(int item, int function, double x) const { return loop ? x + 10.0 * (item + 1) : x * (function + 2) + 1; }

  Op task(int item, int function) const {
    Op op{.kind = Kind::compute};
    op.work.flops = Flops{times[static_cast<std::size_t>(function)]};
    op.message.tag = static_cast<Tag>(item * functions() + function);
    op.effect.action = Action::call;
    op.effect.call = kApply;
    return op;
  }
  Op handover_message(Kind kind, int item, int function) const {
    Op op{.kind = kind};
    op.message.bytes = Bytes{handover * IdealMachine::kBytesPerSecond};
    op.address(kind == Kind::send ? 1 : 0, static_cast<Tag>(item * functions() + function), Mode::eager);
    const BufferRef ref{kItems, static_cast<std::uint16_t>(item), static_cast<std::uint16_t>(items)};
    if (kind == Kind::send)
      op.effect.read = ref;
    else
      op.write_to(ref);
    return op;
  }
  std::unique_ptr<Program> program(int thread) const {
    std::vector<Op> ops;
    for (int item = 0; item < items; ++item)
      for (int function = 0; function < functions(); ++function) {
        if (thread_of(item, function) != thread) continue;
        const bool first = function == 0, last = function + 1 == functions();
        if (!first && thread_of(item, function - 1) != thread)
          ops.push_back(handover_message(Kind::recv, item, function - 1));
        ops.push_back(task(item, function));
        if (!last && thread_of(item, function + 1) != thread)
          ops.push_back(handover_message(Kind::send, item, function));
      }
    // The peers are the previous and the next thread. An end thread names itself in place of a missing neighbour.
    return std::make_unique<ListProgram>(
        std::move(ops), std::vector<Actor>{std::max(thread - 1, 0), std::min(thread + 1, threads - 1)});
  }
};

/// Returns the end, the tasks of each thread and the results.
ThreadLesson run_shared_work(const SharedWork& work) {
  IdealMachine machine("thread");
  Values values;
  Timeline timeline;
  Programs programs;
  for (int thread = 0; thread < work.threads; ++thread) {
    if (thread > 0) machine.connect(thread - 1, thread);
    Eigen::VectorXd& items = values.buffer(thread, kItems);
    items.resize(work.items);
    for (int item = 0; item < work.items; ++item) items[item] = SharedWork::input(item);
    programs.push_back(work.program(thread));
  }
  values.on_call(kApply, [&](Actor thread, const Op& op) {
    const auto number = static_cast<int>(op.message.tag);
    double& x = values.buffer(thread, kItems)[number / work.functions()];
    x = work.apply(number / work.functions(), number % work.functions(), x);
  });
  ThreadLesson run;
  run.end = run_programs(machine, std::move(programs), {{&values, &timeline}}).end.value;
  run.threads.resize(static_cast<std::size_t>(work.threads));
  for (const OpRecord& r : timeline.records()) {
    const auto number = static_cast<int>(r.tag);
    if (r.kind == Kind::compute)
      run.threads[position(r.actor)].push_back(
          {number / work.functions(), number % work.functions(), r.started, r.ended});
  }
  for (int item = 0; item < work.items; ++item)
    run.results.push_back(values.buffer(work.thread_of(item, work.functions() - 1), kItems)[item]);
  return run;
}

ThreadLesson teach_shared_work(SharedWork work) {
  ThreadLesson lesson = run_shared_work(work);
  lesson.loop = work.loop;
  lesson.times = work.times;
  lesson.handover = work.handover;
  for (int item = 0; item < work.items; ++item) lesson.inputs.push_back(SharedWork::input(item));
  work.threads = 1;
  const ThreadLesson alone = run_shared_work(work);
  lesson.serial = alone.end;
  lesson.right = alone.results == lesson.results;
  return lesson;
}

std::string threads_title(const ThreadLesson& lesson) {
  const std::size_t threads = lesson.threads.size(), functions = lesson.times.size();
  const std::string items = counted_noun(lesson.items(), "item"), on = "on " + counted_noun(threads, "thread");
  if (lesson.loop) return fmt::format("a loop of {} {}: a[i] += b[i]", items, on);
  std::string composed = "a[i]";  // c = h(g(f(a)))
  for (std::size_t i = 0; i < functions; ++i)
    composed = fmt::format("{}({})", static_cast<char>('f' + static_cast<int>(i)), composed);
  return fmt::format("{}, {}, {}: {}", counted_noun(functions, "function"), items, on, composed);
}

std::string numbers_in_words(const std::vector<double>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i == 5 && numbers.size() > 6) return text + fmt::format(", … {:.6g}", numbers.back());
    text += fmt::format("{}{:.6g}", i == 0 ? "" : ", ", numbers[i]);
  }
  return text;
}

std::vector<std::string> threads_sums(const ThreadLesson& lesson) {
  std::vector<std::string> all{fmt::format("{:.6g} slot{}; one thread alone takes {:.6g}: {:.4g} times as fast",
                                           lesson.end, lesson.end == 1 ? "" : "s", lesson.serial, lesson.speed_up()),
                               fmt::format("the threads work {:.4g} % of the time", 100 * lesson.working_share())};
  if (const int idle = lesson.idle_threads(); idle > 0)
    all.push_back(fmt::format("{} thread{} nothing to do: there is work for {}", idle, idle == 1 ? " has" : "s have",
                              static_cast<int>(lesson.threads.size()) - idle));
  if (!lesson.loop) {
    const double sum = std::accumulate(lesson.times.begin(), lesson.times.end(), 0.0),
                 longest = std::ranges::max(lesson.times);
    all.push_back(
        fmt::format("an item takes {:.6g}, {:.6g} of it in the longest function: at most {:.4g} times as fast, however "
                    "many threads",
                    sum, longest, sum / longest));
  }
  all.push_back(fmt::format("{} has become {}: {}", numbers_in_words(lesson.inputs), numbers_in_words(lesson.results),
                            lesson.right ? "what one thread gives" : "NOT what one thread gives"));
  return all;
}

std::vector<FieldRow> thread_json_rows() {
  return {{"items", "number", "number of items", ""},
          {"threads", "number", "number of threads", ""},
          {"function_slots", "[slots]", "time that each function takes", ""},
          {"handover_slots", "slots", "time to hand a result to another thread", ""},
          {"slots", "slots", "time of the whole", ""},
          {"serial_slots", "slots", "time of one thread alone", ""},
          {"speed_up", "number", "serial_slots over slots", ""},
          {"working_share", "share", "share of the threads' time in which they work", ""},
          {"idle_threads", "number", "number of threads without an item", ""},
          {"inputs", "[number]", "numbers that go in", ""},
          {"results", "[number]", "numbers that come out", ""},
          {"equals_one_thread", "true|false", "one thread computes the same results", ""},
          {"thread", "list", "figures of each thread", ""},
          {"thread[].works", "slots", "time that the thread works", ""},
          {"thread[].idle", "slots", "time that the thread waits", ""},
          {"thread[].tasks", "list", "what the thread does, in the order of time", ""},
          {"thread[].tasks[].item", "number", "number of the item", ""},
          {"thread[].tasks[].function", "number", "number of the function", ""},
          {"thread[].tasks[].begin", "slots", "begin of the task", ""},
          {"thread[].tasks[].end", "slots", "end of the task", ""}};
}
const RegisterJsonReference thread_json_reference{
    "teach threads", "threads that share a loop; `teach tasks` has the same keys", thread_json_rows};

}  // namespace

double ThreadLesson::busy(std::size_t thread) const {
  double sum = 0;
  for (const ThreadTask& task : threads[thread]) sum += task.end - task.begin;
  return sum;
}

int ThreadLesson::idle_threads() const {
  return static_cast<int>(std::ranges::count_if(threads, [](const auto& tasks) { return tasks.empty(); }));
}

double ThreadLesson::working_share() const {
  double sum = 0;
  for (std::size_t thread = 0; thread < threads.size(); ++thread) sum += busy(thread);
  return sum / (end * static_cast<double>(threads.size()));
}

ThreadLesson teach_loop(int items, int threads) { return teach_shared_work({true, items, threads, {1}, 0}); }

ThreadLesson teach_tasks(int items, const std::vector<double>& times, int threads, double handover) {
  return teach_shared_work({false, items, threads, times, handover});
}

LessonView lesson_view(const ThreadLesson& lesson) {
  constexpr Tone tones[] = {Tone::blue, Tone::green, Tone::yellow, Tone::purple};
  LessonView view{threads_title(lesson), "A row per thread with a cell per function of an item, over time", {}};
  view.sums = threads_sums(lesson);
  view.right = lesson.right;
  view.figures = {.head = {"thread", "works", "idle"}, .page_only = true};
  LessonFrame frame{.end = lesson.end};
  nlohmann::ordered_json threads = nlohmann::ordered_json::array();
  for (std::size_t thread = 0; thread < lesson.threads.size(); ++thread) {
    LessonLane lane{fmt::format("thread {}", thread), "", {}};
    nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
    for (const ThreadTask& task : lesson.threads[thread]) {
      std::string word = std::to_string(task.item);
      if (!lesson.loop) word.insert(0, 1, static_cast<char>('f' + task.function));
      lane.bars.push_back({task.begin, task.end, "", word, tones[static_cast<std::size_t>(task.function) % 4]});
      tasks.push_back({{"item", task.item}, {"function", task.function}, {"begin", task.begin}, {"end", task.end}});
    }
    frame.lanes.push_back(std::move(lane));
    const double busy = lesson.busy(thread), idle = lesson.end - busy;
    view.figures.rows.push_back({std::to_string(thread), fmt::format("{:.6g}", busy), fmt::format("{:.6g}", idle)});
    threads.push_back({{"works", busy}, {"idle", idle}, {"tasks", tasks}});
  }
  view.frames = {std::move(frame)};
  view.json = json_text(nlohmann::ordered_json{{"items", lesson.items()},
                                               {"threads", lesson.threads.size()},
                                               {"function_slots", lesson.times},
                                               {"handover_slots", lesson.handover},
                                               {"slots", lesson.end},
                                               {"serial_slots", lesson.serial},
                                               {"speed_up", lesson.speed_up()},
                                               {"working_share", lesson.working_share()},
                                               {"idle_threads", lesson.idle_threads()},
                                               {"inputs", lesson.inputs},
                                               {"results", lesson.results},
                                               {"equals_one_thread", lesson.right},
                                               {"thread", threads}},
                        2);
  return view;
}

}  // namespace trainyard
