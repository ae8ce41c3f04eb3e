#include "tools/reports/teaching/product_views.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/pictures/svg.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

constexpr double kProductEdge = 16, kProductCell = 26, kProductGap = 46, kProductAbove = 76, kProductLetter = 11;
constexpr int kDrawnElements = 16;  // rows or columns of a matrix; more are left out
constexpr const char* kThreadFills[] = {"#9dc3e6", "#a9d8a0", "#f6d27a", "#d4b6e0", "#f2b8a0", "#a6dcd6"};

const char* all_threads_fill() { return "#e6e6e6"; }

/// Whose is row `i` of x, or column `i` of w?
std::size_t owner_of(const ProductLesson& lesson, int i) {
  std::size_t thread = 0;
  while (i >= lesson.threads[thread].first + lesson.threads[thread].count) ++thread;
  return thread;
}

struct DrawnMatrix {
  const char* name;
  const std::vector<double>& values;
  int rows, columns;
  bool by_rows, by_columns;  // shared out so; neither: every thread has all of it
};

double draw_matrix(Svg& svg, double x, const DrawnMatrix& matrix, const ProductLesson& lesson) {
  const int rows = std::min(matrix.rows, kDrawnElements), columns = std::min(matrix.columns, kDrawnElements);
  const std::string cut = rows < matrix.rows || columns < matrix.columns ? " (its beginning)" : "";
  svg.text(x, kProductAbove - 8, fmt::format("{}: {} x {}{}", matrix.name, matrix.rows, matrix.columns, cut),
           {kProductLetter + 1, "#222222", Svg::Anchor::start, true});
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      const double left = x + column * kProductCell, top = kProductAbove + row * kProductCell;
      const bool parted = matrix.by_rows || matrix.by_columns;
      const char* fill = parted
                             ? kThreadFills[owner_of(lesson, matrix.by_rows ? row : column) % std::size(kThreadFills)]
                             : all_threads_fill();
      svg.rect(left, top, kProductCell, kProductCell, fill);
      svg.frame(left, top, kProductCell, kProductCell, "#ffffff");
      const auto at = static_cast<std::size_t>(row * matrix.columns + column);
      svg.text(left + kProductCell / 2, top + 17, fmt::format("{:.6g}", matrix.values[at]),
               {kProductLetter - 2, "#111111", Svg::Anchor::middle});
    }
  return x + std::max(columns * kProductCell, 90.0) + kProductGap;
}

std::string parts_of_thread(const ProductLesson& lesson, const ProductThread& thread) {
  if (thread.count == 0) return "nothing";
  const char* what = lesson.shape.by_rows ? "row" : "column";
  return thread.count == 1 ? fmt::format("{} {}", what, thread.first)
                           : fmt::format("{}s {}-{}", what, thread.first, thread.first + thread.count - 1);
}

std::string place_of_part(const ProductLesson& lesson, const ProductThread& thread) {
  const int pieces = lesson.pieces(thread);
  if (pieces == 0) return "";
  const double each = thread.y / pieces;
  return pieces == 1 ? fmt::format("one piece of {:.6g} B", each)
                     : fmt::format("{} pieces of {:.6g} B, {:.6g} B apart", pieces, each,
                                   lesson.shape.element.value * lesson.shape.n);
}

TextTable thread_table(const ProductLesson& lesson) {
  TextTable table;
  table.right = {true, false, true, true, true, true, false};
  table.head = {"thread", "has", "x (B)", "w (B)", "y (B)", "FLOPs", "its part of y"};
  for (std::size_t t = 0; t < lesson.threads.size(); ++t) {
    const ProductThread& thread = lesson.threads[t];
    const auto number = [](double value) { return fmt::format("{:.6g}", value); };
    table.rows.push_back({std::to_string(t), parts_of_thread(lesson, thread), number(thread.x), number(thread.w),
                          number(thread.y), number(thread.flops), place_of_part(lesson, thread)});
  }
  return table;
}

}  // namespace

std::string product_title(const ProductLesson& lesson) {
  const ProductShape& s = lesson.shape;
  return fmt::format("y = x w, {} x {} by {} x {}, on {} thread{} by {}", s.m, s.k, s.k, s.n, s.threads,
                     s.threads == 1 ? "" : "s", s.by_rows ? "rows of x" : "columns of w");
}

std::vector<std::string> product_sums(const ProductLesson& lesson) {
  const ProductShape& s = lesson.shape;
  std::vector<std::string> all;
  all.push_back(s.by_rows
                    ? fmt::format("every thread with work has all of w: {:.4g} copies; a w that is larger than a "
                                  "thread's memory cannot be had so",
                                  lesson.w_copies())
                    : fmt::format("w lies on the threads {:.4g} times in all; every thread with work has all of x",
                                  lesson.w_copies()));
  all.push_back(lesson.extra_buffer > 0
                    ? fmt::format("columns do not lie in one piece: the caller packs and unpacks them in {:.6g} B more",
                                  lesson.extra_buffer)
                    : "rows lie in one piece: the caller needs no buffer to part and to join them");
  const auto idle = std::count_if(lesson.threads.begin(), lesson.threads.end(),
                                  [](const ProductThread& thread) { return thread.count == 0; });
  if (idle > 0)
    all.push_back(fmt::format("{} thread{} nothing to do: there are {} {}", idle, idle == 1 ? " has" : "s have",
                              s.parted(), s.by_rows ? "rows" : "columns"));
  all.push_back(fmt::format("{:.6g} B go to the threads and back; y {} the product", lesson.moved,
                            lesson.right ? "equals" : "is NOT"));
  return all;
}

std::string product_text(const ProductLesson& lesson) {
  std::string text = product_title(lesson) + "\n\n" + thread_table(lesson).text("") + "\n";
  for (const std::string& sentence : product_sums(lesson)) text += sentence + "\n";
  return text;
}

std::string product_svg(const ProductLesson& lesson) {
  const ProductShape& s = lesson.shape;
  const DrawnMatrix matrices[] = {{"x", lesson.x, s.m, s.k, s.by_rows, false},
                                  {"w", lesson.w, s.k, s.n, false, !s.by_rows},
                                  {"y", lesson.y, s.m, s.n, s.by_rows, !s.by_rows}};
  const std::vector<std::string> sums = product_sums(lesson);
  double width = kProductEdge, rows = 0;
  for (const DrawnMatrix& matrix : matrices) {
    width += std::max(std::min(matrix.columns, kDrawnElements) * kProductCell, 90.0) + kProductGap;
    rows = std::max(rows, static_cast<double>(std::min(matrix.rows, kDrawnElements)));
  }
  for (const std::string& text : sums) width = std::max(width, 1.2 * Svg::text_width(text, kProductLetter));
  width = std::max(width, 1.2 * Svg::text_width(product_title(lesson), 15) + 2 * kProductEdge);
  const double below = kProductAbove + rows * kProductCell;
  Svg svg(width, below + 62 + 18 * static_cast<double>(sums.size()), product_title(lesson),
          "The three matrices, each element in the colour of the thread that has it");
  svg.text(kProductEdge, 26, product_title(lesson), {15, "#222222", Svg::Anchor::start, true});
  double x = kProductEdge;
  for (const DrawnMatrix& matrix : matrices) x = draw_matrix(svg, x, matrix, lesson);
  svg.rect(kProductEdge, below + 18, 14, 14, all_threads_fill());
  svg.text(kProductEdge + 20, below + 29, "on every thread; a colour: on one of them", {kProductLetter});
  double y = below + 56;
  for (const std::string& sentence : sums) {
    svg.text(kProductEdge, y, sentence, {kProductLetter});
    y += 18;
  }
  return svg.finish();
}

std::string product_html(const ProductLesson& lesson) {
  const TextTable threads = thread_table(lesson);
  std::string table = "<table>\n";
  const auto add = [&table](const char* tag, const std::vector<std::string>& cells) {
    table += "<tr>";
    for (const std::string& cell : cells) table += fmt::format("<{0}>{1}</{0}>", tag, cell);
    table += "</tr>\n";
  };
  add("th", threads.head);
  for (const std::vector<std::string>& row : threads.rows) add("td", row);
  return html_text(
      {.title = product_title(lesson),
       .body = fmt::format("<div class=\"scroll machine\">{}</div>\n{}</table>\n", product_svg(lesson), table)});
}

}  // namespace trainyard
