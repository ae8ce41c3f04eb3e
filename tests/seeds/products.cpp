// MM-01: a matrix product y = x w on threads, each with rows of x or with columns of w.
#include <Eigen/Core>

#include "models/software/training_memory.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/list_program.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/values.hpp"
#include "sim/process/child.hpp"
#include "tests/seeds/seed_case.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

using nlohmann::json;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

enum ProductBuffer : std::uint16_t { kX, kW, kY, kPacked };
enum ProductCall : std::uint16_t { kMultiply = 1, kPack, kUnpack };

/// n × n, an element has `size` bytes. Matrices lie in memory row by row; the caller, actor n, has them.
struct SplitProduct {
  int n = 3;
  bool by_rows = true;
  Bytes size{4};
  int flops = 0;  // of a thread

  Bytes matrix() const { return size * (n * n); }
  Bytes slice() const { return size * n; }
  BufferRef part(std::uint16_t buffer, int thread) const {
    return {buffer, static_cast<std::uint16_t>(thread), static_cast<std::uint16_t>(n)};
  }
  static BufferRef whole_of(std::uint16_t buffer) { return {buffer, 0, 1}; }

  static Op message(Kind kind, std::uint16_t slot, Tag tag, Bytes bytes, BufferRef ref, MemoryClass held = {}) {
    Op op;
    op.kind = kind;
    op.message.slot = slot;
    op.message.tag = tag;
    op.message.mode = Mode::put;
    if (kind == Kind::send) {
      op.message.bytes = bytes;
      op.effect.read = ref;
      return op;
    }
    op.effect.action = Action::copy;
    op.effect.write = ref;
    op.memory.change = bytes.value;
    op.set_memory_class(static_cast<std::uint8_t>(held));
    return op;
  }
  static Op calls(std::uint16_t number, Bytes takes, MemoryClass held) {
    Op op;
    op.effect.action = Action::call;
    op.effect.call = number;
    op.memory.change = takes.value;
    op.set_memory_class(static_cast<std::uint8_t>(held));
    return op;
  }

  std::unique_ptr<Program> thread() const {
    const Bytes x = by_rows ? slice() : matrix(), w = by_rows ? matrix() : slice();
    return std::make_unique<ListProgram>(
        std::vector<Op>{message(Kind::recv, 0, kX, x, whole_of(kX), MemoryClass::activations),
                        message(Kind::recv, 0, kW, w, whole_of(kW), MemoryClass::parameters),
                        calls(kMultiply, slice(), MemoryClass::buffers),
                        message(Kind::send, 0, kY, slice(), whole_of(kY))},
        std::vector<Actor>{n}, 1);
  }
  /// By columns, slices of w and y do not lie in one piece: they are packed into a buffer of their own.
  std::unique_ptr<Program> caller() const {
    std::vector<Op> ops;
    std::vector<Actor> threads;
    if (!by_rows) ops.push_back(calls(kPack, matrix(), MemoryClass::buffers));
    for (int t = 0; t < n; ++t) {
      const auto slot = static_cast<std::uint16_t>(t);
      threads.push_back(t);
      ops.push_back(message(Kind::send, slot, kX, by_rows ? slice() : matrix(), by_rows ? part(kX, t) : whole_of(kX)));
      ops.push_back(
          message(Kind::send, slot, kW, by_rows ? matrix() : slice(), by_rows ? whole_of(kW) : part(kPacked, t)));
    }
    for (int t = 0; t < n; ++t)
      ops.push_back(message(Kind::recv, static_cast<std::uint16_t>(t), kY, Bytes{0}, part(by_rows ? kY : kPacked, t)));
    if (!by_rows) ops.push_back(calls(kUnpack, Bytes{0}, MemoryClass::buffers));
    return std::make_unique<ListProgram>(std::move(ops), std::move(threads), 1);
  }

  /// A thread's slice, multiplication by multiplication.
  void multiply(Values& values, Actor actor) {
    const Eigen::VectorXd &x = values.buffer(actor, kX), &w = values.buffer(actor, kW);
    Eigen::VectorXd& y = values.buffer(actor, kY);
    y.resize(n);
    flops = 0;
    for (int i = 0; i < n; ++i) {
      const auto product = [&](int k) { return by_rows ? x[k] * w[k * n + i] : x[i * n + k] * w[k]; };
      y[i] = product(0);
      ++flops;
      for (int k = 1; k < n; ++k, flops += 2) y[i] += product(k);
    }
  }
  void attach(Values& values) {
    values.on_call(kMultiply, [this, &values](Actor actor, const Op&) { multiply(values, actor); });
    values.on_call(kPack, [this, &values](Actor actor, const Op&) {
      const Eigen::MatrixXd w = Eigen::Map<const RowMajor>(values.buffer(actor, kW).data(), n, n);
      values.buffer(actor, kPacked) = Eigen::Map<const Eigen::VectorXd>(w.data(), w.size());
    });
    values.on_call(kUnpack, [this, &values](Actor actor, const Op&) {
      const RowMajor y = Eigen::Map<const Eigen::MatrixXd>(values.buffer(actor, kPacked).data(), n, n);
      values.buffer(actor, kY) = Eigen::Map<const Eigen::VectorXd>(y.data(), y.size());
    });
  }
};

SeedFigures mm_01(const Node& inputs) {
  SeedFigures got;
  for (const bool by_rows : {true, false}) {
    SplitProduct split;
    split.n = static_cast<int>(number_of(inputs, "threads"));
    split.size = Bytes{number_of(inputs, "bytes")};
    split.by_rows = by_rows;
    const json j = json::parse(in_child([&split] {
      const int n = split.n;
      ClusterMachine machine(star_cluster(n + 1, BytesPerSecond{1e9}), SoftwareStack{});
      Values values;
      split.attach(values);
      RowMajor x(n, n), w(n, n);
      for (int i = 0; i < n * n; ++i) {
        x.data()[i] = i + 1;
        w.data()[i] = (i * 5) % 7 - 3;
      }
      values.buffer(n, kX) = Eigen::Map<const Eigen::VectorXd>(x.data(), x.size());
      values.buffer(n, kW) = Eigen::Map<const Eigen::VectorXd>(w.data(), w.size());
      values.buffer(n, kY).setZero(x.size());
      MemoryUse memory;
      Simulation simulation(machine);
      simulation.observe(values);
      simulation.observe(memory);
      for (int t = 0; t < n; ++t) simulation.add(t, split.thread());
      simulation.add(n, split.caller());
      simulation.run();
      const RowMajor y = x * w;
      double weights = 0;
      for (int t = 0; t < n; ++t) weights += memory.parts_at_peak(t)[static_cast<std::size_t>(MemoryClass::parameters)];
      return json{
          memory.parts_at_peak(0), weights, memory.peak(n).value, split.flops,
          values.buffer(n, kY) == Eigen::Map<const Eigen::VectorXd>(y.data(), y.size()) && values.hazards().empty()}
          .dump();
    }));
    const auto held = j[0].get<MemoryUse::ByClass>();
    const std::string where = by_rows ? "row_wise " : "column_wise ";
    got[where + "w_bytes_per_thread"] = held[static_cast<std::size_t>(MemoryClass::parameters)];
    got[where + "x_bytes_per_thread"] = held[static_cast<std::size_t>(MemoryClass::activations)];
    got[where + "y_bytes_per_thread"] = held[static_cast<std::size_t>(MemoryClass::buffers)];
    got[where + "w_copies"] = j[1].get<double>() / split.matrix().value;
    got[where + "extra_buffer_bytes"] = j[2];
    got[where + "flops_per_thread"] = j[3];
    got[where + "equals_product"] = j[4];
  }
  return got;
}

const RegisterSeed product_seeds[] = {{"MM-01", mm_01}};

}  // namespace
}  // namespace trainyard
