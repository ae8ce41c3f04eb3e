#include "scenarios/src/lessons/teach_product.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/software/training_memory.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/values.hpp"
#include "sim/program.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

enum ProductBuffer : std::uint16_t { kX, kW, kY, kPacked };
enum ProductCall : std::uint16_t { kMultiply = 1, kPack, kMakeRoom, kUnpack };

/// The product and its programs. The caller is the actor after the threads; it stores matrices row by row.
class SplitProduct {
 public:
  explicit SplitProduct(const ProductShape& shape)
      : s_(shape), flops_(static_cast<std::size_t>(shape.threads)), x_(s_.m, s_.k), w_(s_.k, s_.n) {
    for (Eigen::Index i = 0; i < x_.size(); ++i) x_.data()[i] = static_cast<double>(i + 1);
    for (Eigen::Index i = 0; i < w_.size(); ++i) w_.data()[i] = static_cast<double>((i * 5) % 7 - 3);
  }

  /// Returns the first row or column of a thread; for `threads`, the number of all rows or columns. The first threads
  /// get the remainder of the division.
  int first(int thread) const {
    return thread * (s_.slices() / s_.threads) + std::min(thread, s_.slices() % s_.threads);
  }
  int count(int thread) const { return first(thread + 1) - first(thread); }
  double flops(int thread) const { return flops_[static_cast<std::size_t>(thread)]; }
  const RowMajor& x() const { return x_; }
  const RowMajor& w() const { return w_; }

  std::unique_ptr<Program> thread(int t) const {
    if (count(t) == 0) return std::make_unique<ListProgram>(std::vector<Op>{});
    return std::make_unique<ListProgram>(
        std::vector<Op>{message(Kind::recv, 0, kX, x_bytes(t), all(kX), MemoryClass::activations),
                        message(Kind::recv, 0, kW, w_bytes(t), all(kW), MemoryClass::parameters),
                        calls(kMultiply, y_bytes(t), MemoryClass::buffers),
                        message(Kind::send, 0, kY, y_bytes(t), all(kY))},
        std::vector<Actor>{s_.threads}, 1);
  }
  /// The program of the caller. Columns of w and y are not contiguous: they are packed into a separate buffer.
  std::unique_ptr<Program> caller() const {
    std::vector<Op> ops;
    std::vector<Actor> threads;
    if (!s_.by_rows) ops.push_back(calls(kPack, s_.element * std::max(s_.k, s_.m) * s_.n, MemoryClass::buffers));
    for (int t = 0; t < s_.threads; ++t) {
      const auto slot = static_cast<std::uint16_t>(t);
      threads.push_back(t);
      if (count(t) == 0) continue;
      ops.push_back(message(Kind::send, slot, kX, x_bytes(t), s_.by_rows ? part(kX, t) : all(kX)));
      ops.push_back(message(Kind::send, slot, kW, w_bytes(t), s_.by_rows ? all(kW) : part(kPacked, t)));
    }
    if (!s_.by_rows) ops.push_back(calls(kMakeRoom, Bytes{0}, MemoryClass::buffers));
    for (int t = 0; t < s_.threads; ++t)
      if (count(t) > 0)
        ops.push_back(
            message(Kind::recv, static_cast<std::uint16_t>(t), kY, Bytes{0}, part(s_.by_rows ? kY : kPacked, t)));
    if (!s_.by_rows) ops.push_back(calls(kUnpack, Bytes{0}, MemoryClass::buffers));
    return std::make_unique<ListProgram>(std::move(ops), std::move(threads), 1);
  }

  void attach(Values& values) {
    const int caller = s_.threads;
    values.buffer(caller, kX) = Eigen::Map<const Eigen::VectorXd>(x_.data(), x_.size());
    values.buffer(caller, kW) = Eigen::Map<const Eigen::VectorXd>(w_.data(), w_.size());
    values.buffer(caller, kY).setZero(Eigen::Index{s_.m} * s_.n);
    values.on_call(kMultiply, [this, &values](Actor actor, const Op&) { multiply(values, actor); });
    values.on_call(kPack, [this, &values](Actor actor, const Op&) {
      const Eigen::MatrixXd w = Eigen::Map<const RowMajor>(values.buffer(actor, kW).data(), s_.k, s_.n);
      values.buffer(actor, kPacked) = Eigen::Map<const Eigen::VectorXd>(w.data(), w.size());
    });
    values.on_call(kMakeRoom, [this, &values](Actor actor, const Op&) {
      values.buffer(actor, kPacked).setZero(Eigen::Index{s_.m} * s_.n);
    });
    values.on_call(kUnpack, [this, &values](Actor actor, const Op&) {
      const RowMajor y = Eigen::Map<const Eigen::MatrixXd>(values.buffer(actor, kPacked).data(), s_.m, s_.n);
      values.buffer(actor, kY) = Eigen::Map<const Eigen::VectorXd>(y.data(), y.size());
    });
  }

 private:
  ProductShape s_;
  std::vector<double> flops_;
  RowMajor x_, w_;

  Bytes x_bytes(int t) const { return s_.element * (s_.by_rows ? count(t) : s_.m) * s_.k; }
  Bytes w_bytes(int t) const { return s_.element * (s_.by_rows ? s_.n : count(t)) * s_.k; }
  Bytes y_bytes(int t) const { return s_.element * (s_.by_rows ? s_.n : s_.m) * count(t); }
  static BufferRef all(std::uint16_t buffer) { return {buffer, 0, 1}; }
  /// A thread's rows, or its columns if these are contiguous.
  BufferRef part(std::uint16_t buffer, int t) const {
    return {buffer, static_cast<std::uint16_t>(first(t)), static_cast<std::uint16_t>(s_.slices()),
            static_cast<std::uint16_t>(count(t))};
  }
  static Op message(Kind kind, std::uint16_t slot, Tag tag, Bytes bytes, BufferRef ref, MemoryClass memory_class = {}) {
    Op op{.kind = kind};
    op.address(slot, tag, Mode::put);
    if (kind == Kind::send) {
      op.message.bytes = bytes;
      op.effect.read = ref;
      return op;
    }
    op.write_to(ref);
    op.book_memory(bytes.value, memory_class);
    return op;
  }
  static Op calls(std::uint16_t number, Bytes takes, MemoryClass memory_class) {
    Op op;
    op.effect.action = Action::call;
    op.effect.call = number;
    op.book_memory(takes.value, memory_class);
    return op;
  }

  /// Computes a thread's slice of y element by element.
  void multiply(Values& values, Actor actor) {
    const Eigen::VectorXd &x = values.buffer(actor, kX), &w = values.buffer(actor, kW);
    Eigen::VectorXd& y = values.buffer(actor, kY);
    const int mine = count(actor), others = s_.by_rows ? s_.n : s_.m;
    y.resize(Eigen::Index{mine} * others);
    double& flops = flops_[static_cast<std::size_t>(actor)];
    for (int i = 0; i < mine; ++i)
      for (int j = 0; j < others; ++j) {
        const auto product = [&](int l) {
          return s_.by_rows ? x[i * s_.k + l] * w[l * s_.n + j] : x[j * s_.k + l] * w[i * s_.k + l];
        };
        double& sum = y[i * others + j];
        sum = product(0);
        ++flops;
        for (int l = 1; l < s_.k; ++l, flops += 2) sum += product(l);
      }
  }
};

std::vector<double> numbers_of_matrix(const RowMajor& matrix) { return {matrix.data(), matrix.data() + matrix.size()}; }

enum class Split : std::uint8_t { none, rows, columns };

/// Draws the beginning of a matrix. Each element has the colour of its thread.
LessonGrid matrix_grid(const ProductLesson& lesson, const char* name, const std::vector<double>& values, int rows,
                       int columns, Split split) {
  constexpr int kDrawn = 16;
  constexpr Tone tones[] = {Tone::blue, Tone::green, Tone::yellow, Tone::purple, Tone::orange, Tone::pale};
  LessonGrid grid;
  grid.title =
      fmt::format("{}: {} x {}{}", name, rows, columns, rows > kDrawn || columns > kDrawn ? " (its beginning)" : "");
  for (int row = 0; row < std::min(rows, kDrawn); ++row) {
    std::vector<LessonCell>& cells = grid.rows.emplace_back().cells;
    for (int column = 0; column < std::min(columns, kDrawn); ++column) {
      std::size_t thread = 0;  // thread that has this row or column
      while (lesson.threads[thread].first + lesson.threads[thread].count <= (split == Split::rows ? row : column) &&
             split != Split::none)
        ++thread;
      cells.push_back({fmt::format("{:.6g}", values[static_cast<std::size_t>(row * columns + column)]),
                       split == Split::none ? Tone::grey : tones[thread % std::size(tones)]});
    }
  }
  return grid;
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
  const double elements = thread.y / pieces;
  return pieces == 1 ? fmt::format("one piece of {:.6g} B", elements)
                     : fmt::format("{} pieces of {:.6g} B, {:.6g} B apart", pieces, elements,
                                   lesson.shape.element.value * lesson.shape.n);
}

std::vector<std::string> product_sums(const ProductLesson& lesson) {
  const ProductShape& s = lesson.shape;
  std::vector<std::string> all;
  const std::string copies =
      fmt::format("{:.4g} {}", lesson.weight_copies(), lesson.weight_copies() == 1 ? "copy" : "copies");
  all.push_back(
      s.by_rows ? fmt::format("every thread with work has all of w: {}; a w larger than a thread's memory does not fit",
                              copies)
                : fmt::format("the threads together have {} of w; every thread with work has all of x", copies));
  all.push_back(lesson.extra_buffer > 0
                    ? fmt::format("columns are not contiguous: the caller packs and unpacks them in {:.6g} B more",
                                  lesson.extra_buffer)
                    : "rows are contiguous: the caller needs no buffer to split and join them");
  const auto idle =
      std::ranges::count_if(lesson.threads, [](const ProductThread& thread) { return thread.count == 0; });
  if (idle > 0)
    all.push_back(fmt::format("{} thread{} nothing to do: there are {} {}", idle, idle == 1 ? " has" : "s have",
                              s.slices(), s.by_rows ? "rows" : "columns"));
  all.push_back(fmt::format("{:.6g} B go to the threads and back; y {} the product", lesson.moved,
                            lesson.right ? "equals" : "is NOT"));
  return all;
}

std::vector<FieldRow> product_json_rows() {
  return {
      {"split", "text", "what threads divide: rows of x, or columns of w", ""},
      {"shape", "[number]", "rows of x, columns of x, columns of w", ""},
      {"element_bytes", "bytes", "size of an element", ""},
      {"w_copies", "number", "number of copies of w", ""},
      {"extra_buffer_bytes", "bytes", "buffer in which parts of y are put together", ""},
      {"moved_bytes", "bytes", "bytes that are copied from that buffer", ""},
      {"x", "[number]", "elements of x, row by row", ""},
      {"w", "[number]", "elements of w, row by row", ""},
      {"y", "[number]", "elements of the product, row by row", ""},
      {"equals_product", "true|false", "the threads computed the product of one thread", ""},
      {"thread", "list", "figures of each thread", ""},
      {"thread[].first", "number", "first row or column of the thread", ""},
      {"thread[].count", "number", "number of rows or columns of the thread", ""},
      {"thread[].x_bytes", "bytes", "part of x that the thread reads", ""},
      {"thread[].w_bytes", "bytes", "part of w that the thread reads", ""},
      {"thread[].y_bytes", "bytes", "part of y that the thread writes", ""},
      {"thread[].flops", "FLOP", "floating-point operations of the thread", ""},
      {"thread[].pieces_of_y", "number", "number of pieces that are not adjacent, in which its part of y lies", ""}};
}
const RegisterJsonReference product_json_reference{"teach matrix-product", "a matrix product that threads share",
                                                   product_json_rows};

}  // namespace

double ProductLesson::weight_copies() const {
  double stored = 0;
  for (const ProductThread& thread : threads) stored += thread.w;
  return stored / (shape.element.value * shape.k * shape.n);
}

int ProductLesson::pieces(const ProductThread& thread) const {
  if (thread.count == 0) return 0;
  return shape.by_rows || thread.count == shape.n ? 1 : shape.m;
}

ProductLesson teach_product(const ProductShape& shape) {
  SplitProduct split(shape);
  ClusterMachine machine(star_cluster(shape.threads + 1, BytesPerSecond{1e9}), SoftwareStack{});
  Values values;
  MemoryUse memory;
  split.attach(values);
  Programs programs;
  for (int t = 0; t < shape.threads; ++t) programs.push_back(split.thread(t));
  programs.push_back(split.caller());
  run_programs(machine, std::move(programs), {{&values, &memory}});
  ProductLesson lesson;
  lesson.shape = shape;
  for (int t = 0; t < shape.threads; ++t) {
    const MemoryUse::ByClass parts = memory.parts_at_peak(t);
    const auto bytes_of = [&parts](MemoryClass kind) { return parts[static_cast<std::size_t>(kind)]; };
    lesson.threads.push_back({split.first(t), split.count(t), bytes_of(MemoryClass::activations),
                              bytes_of(MemoryClass::parameters), bytes_of(MemoryClass::buffers), split.flops(t)});
    lesson.moved += lesson.threads.back().stored_bytes();
  }
  lesson.extra_buffer = memory.peak(shape.threads).value;
  lesson.x = numbers_of_matrix(split.x());
  lesson.w = numbers_of_matrix(split.w());
  const RowMajor y = split.x().lazyProduct(split.w());
  const Eigen::VectorXd& got = values.buffer(shape.threads, kY);
  lesson.y = {got.data(), got.data() + got.size()};
  lesson.right = got == Eigen::Map<const Eigen::VectorXd>(y.data(), y.size()) && values.hazards().empty();
  return lesson;
}

LessonView lesson_view(const ProductLesson& lesson) {
  const ProductShape& s = lesson.shape;
  LessonView view{fmt::format("y = x w, {} x {} by {} x {}, on {} by {}", s.m, s.k, s.k, s.n,
                              counted_noun(s.threads, "thread"), s.by_rows ? "rows of x" : "columns of w"),
                  "The three matrices; each element has the colour of its thread",
                  {}};
  view.right = lesson.right;
  view.sums = product_sums(lesson);
  const Split rows = s.by_rows ? Split::rows : Split::none, columns = s.by_rows ? Split::none : Split::columns;
  LessonFrame& frame = view.frames.emplace_back();
  frame.drawn_only = true;
  frame.grids = {matrix_grid(lesson, "x", lesson.x, s.m, s.k, rows),
                 matrix_grid(lesson, "w", lesson.w, s.k, s.n, columns),
                 matrix_grid(lesson, "y", lesson.y, s.m, s.n, s.by_rows ? rows : columns)};
  frame.legend = {{"", "on every thread; a colour: on one thread", Tone::grey}};
  view.figures.head = {"thread", "has", "x (B)", "w (B)", "y (B)", "FLOPs", "its part of y"};
  view.figures.right = {true, false, true, true, true, true, false};
  nlohmann::ordered_json threads = nlohmann::ordered_json::array();
  for (const ProductThread& thread : lesson.threads) {
    const auto number = [](double value) { return fmt::format("{:.6g}", value); };
    view.figures.rows.push_back({std::to_string(threads.size()), parts_of_thread(lesson, thread), number(thread.x),
                                 number(thread.w), number(thread.y), number(thread.flops),
                                 place_of_part(lesson, thread)});
    threads.push_back({{"first", thread.first},
                       {"count", thread.count},
                       {"x_bytes", thread.x},
                       {"w_bytes", thread.w},
                       {"y_bytes", thread.y},
                       {"flops", thread.flops},
                       {"pieces_of_y", lesson.pieces(thread)}});
  }
  view.json = json_text(nlohmann::ordered_json{{"split", s.by_rows ? "rows" : "columns"},
                                               {"shape", {s.m, s.k, s.n}},
                                               {"element_bytes", s.element.value},
                                               {"w_copies", lesson.weight_copies()},
                                               {"extra_buffer_bytes", lesson.extra_buffer},
                                               {"moved_bytes", lesson.moved},
                                               {"x", lesson.x},
                                               {"w", lesson.w},
                                               {"y", lesson.y},
                                               {"equals_product", lesson.right},
                                               {"thread", threads}},
                        2);
  return view;
}

}  // namespace trainyard
