#include "tools/reports/teaching/thread_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/svg.hpp"
#include "tools/reports/html_page.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kThreadNameColumns = 11, kThreadColumns = 100 - kThreadNameColumns;
constexpr double kThreadEdge = 16, kThreadNames = 64, kThreadRow = 28, kThreadAbove = 58, kThreadText = 11,
                 kThreadPixels = 1000;
constexpr const char* kFunctionFills[] = {"#7aa6dc", "#8fcf8f", "#f2c14e", "#c9a7d8"};

/// "f0": the function's letter and the item; of a loop, which has one function, the item alone.
std::string thread_task_word(const ThreadLesson& lesson, const ThreadTask& task) {
  return lesson.loop ? std::to_string(task.item) : static_cast<char>('f' + task.function) + std::to_string(task.item);
}

std::string numbers_in_words(const std::vector<double>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i == 5 && numbers.size() > 6) return text + fmt::format(", … {:.6g}", numbers.back());
    text += fmt::format("{}{:.6g}", i == 0 ? "" : ", ", numbers[i]);
  }
  return text;
}

/// c = h(g(f(a))).
std::string composed(const ThreadLesson& lesson) {
  std::string text = "a[i]";
  for (std::size_t i = 0; i < lesson.times.size(); ++i)
    text = fmt::format("{}({})", static_cast<char>('f' + static_cast<int>(i)), text);
  return text;
}

std::string thread_row(const ThreadLesson& lesson, const std::vector<ThreadTask>& tasks) {
  std::size_t longest = 1;
  double shortest = lesson.end;
  for (const auto& thread : lesson.threads)
    for (const ThreadTask& task : thread) {
      longest = std::max(longest, thread_task_word(lesson, task).size());
      shortest = std::min(shortest, task.end - task.begin);
    }
  const double scale =
      std::min(static_cast<double>(longest + 1) / shortest, static_cast<double>(kThreadColumns) / lesson.end);
  std::string row(static_cast<std::size_t>(std::lround(lesson.end * scale)), '.');
  for (const ThreadTask& task : tasks) {
    const auto begin = static_cast<std::size_t>(std::lround(task.begin * scale));
    const auto end = std::min(row.size(), static_cast<std::size_t>(std::lround(task.end * scale)));
    const std::string word = thread_task_word(lesson, task);
    for (std::size_t at = begin; at < end; ++at)
      row[at] = word.size() < end - begin || at == begin ? (at - begin < word.size() ? word[at - begin]
                                                            : at + 1 == end          ? ' '
                                                                                     : '-')
                                                         : '-';
  }
  return row;
}

}  // namespace

std::string thread_title(const ThreadLesson& lesson) {
  const std::size_t threads = lesson.threads.size(), functions = lesson.times.size();
  const std::string on = fmt::format("on {} thread{}", threads, threads == 1 ? "" : "s");
  const std::string items = fmt::format("{} item{}", lesson.items(), lesson.items() == 1 ? "" : "s");
  return lesson.loop ? fmt::format("a loop of {} {}: a[i] += b[i]", items, on)
                     : fmt::format("{} function{}, {}, {}: {}", functions, functions == 1 ? "" : "s", items, on,
                                   composed(lesson));
}

std::vector<std::string> thread_sums(const ThreadLesson& lesson) {
  std::vector<std::string> all{fmt::format("{:.6g} slot{}; one thread alone takes {:.6g}: {:.4g} times as fast",
                                           lesson.end, lesson.end == 1 ? "" : "s", lesson.serial, lesson.speed_up()),
                               fmt::format("the threads work {:.4g} % of the time", 100 * lesson.working_share())};
  if (const int idle = lesson.idle_threads(); idle > 0)
    all.push_back(fmt::format("{} thread{} nothing to do: there is work for {}", idle, idle == 1 ? " has" : "s have",
                              static_cast<int>(lesson.threads.size()) - idle));
  if (!lesson.loop) {
    double sum = 0, longest = 0;
    for (const double time : lesson.times) {
      sum += time;
      longest = std::max(longest, time);
    }
    all.push_back(
        fmt::format("an item takes {:.6g}, {:.6g} of it in the longest function: at most {:.4g} times as fast, "
                    "however many threads",
                    sum, longest, sum / longest));
  }
  all.push_back(fmt::format("{} has become {}: {}", numbers_in_words(lesson.inputs), numbers_in_words(lesson.results),
                            lesson.right ? "what one thread gives" : "NOT what one thread gives"));
  return all;
}

std::string thread_text(const ThreadLesson& lesson) {
  std::string text = thread_title(lesson) + "\n\n";
  for (std::size_t thread = 0; thread < lesson.threads.size(); ++thread)
    text += fmt::format("{:<{}}{}\n", fmt::format("thread {}", thread), kThreadNameColumns,
                        thread_row(lesson, lesson.threads[thread]));
  text += "\n";
  for (const std::string& sentence : thread_sums(lesson)) text += sentence + "\n";
  return text;
}

std::string thread_svg(const ThreadLesson& lesson) {
  const std::vector<std::string> sums = thread_sums(lesson);
  double width = kThreadPixels + kThreadNames + 2 * kThreadEdge;
  for (const std::string& text : sums) width = std::max(width, 1.2 * Svg::text_width(text, kThreadText));
  const double rows = kThreadRow * static_cast<double>(lesson.threads.size());
  const double height = kThreadAbove + rows + 24 + 18 * static_cast<double>(sums.size()) + kThreadEdge;
  Svg svg(width, height, thread_title(lesson), "A row a thread, a cell a function of one item, over time");
  svg.text(kThreadEdge, 26, thread_title(lesson), {15, "#222222", Svg::Anchor::start, true});
  double y = kThreadAbove;
  const double scale = kThreadPixels / lesson.end;
  for (std::size_t thread = 0; thread < lesson.threads.size(); ++thread, y += kThreadRow) {
    svg.text(kThreadEdge, y + 18, fmt::format("thread {}", thread), {kThreadText});
    svg.rect(kThreadEdge + kThreadNames, y, kThreadPixels, kThreadRow, "#e6e6e6");
    for (const ThreadTask& task : lesson.threads[thread]) {
      const double x = kThreadEdge + kThreadNames + task.begin * scale, wide = (task.end - task.begin) * scale;
      const std::string word = thread_task_word(lesson, task);
      svg.rect(x, y, wide, kThreadRow, kFunctionFills[static_cast<std::size_t>(task.function) % 4]);
      svg.frame(x, y, wide, kThreadRow, "#ffffff");
      if (Svg::text_width(word, kThreadText) <= wide)
        svg.text(x + wide / 2, y + 18, word, {kThreadText, "#111111", Svg::Anchor::middle});
    }
  }
  y += 24;
  for (const std::string& sentence : sums) {
    svg.text(kThreadEdge, y, sentence, {kThreadText});
    y += 18;
  }
  return svg.finish();
}

std::string thread_html(const ThreadLesson& lesson) {
  std::string table = "<table>\n<tr><th>thread</th><th>works</th><th>idle</th></tr>\n";
  for (std::size_t thread = 0; thread < lesson.threads.size(); ++thread)
    table += fmt::format("<tr><td>{}</td><td>{:.6g}</td><td>{:.6g}</td></tr>\n", thread, lesson.busy(thread),
                         lesson.end - lesson.busy(thread));
  return html_text(
      {.title = thread_title(lesson),
       .body = fmt::format("<div class=\"scroll machine\">{}</div>\n{}</table>\n", thread_svg(lesson), table)});
}

}  // namespace trainyard
