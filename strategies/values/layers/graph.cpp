#include "strategies/values/layers/graph.hpp"

#include <fmt/format.h>

#include "sim/error.hpp"
#include "sim/observers/values.hpp"

namespace trainyard::numeric {
namespace {

BufferRef block(int index, int blocks) {
  return {0, static_cast<std::uint16_t>(index), static_cast<std::uint16_t>(blocks), 1};
}

}  // namespace

Matrix plus(const Matrix& a, const Matrix& b, const std::string& what) {
  if (a.rows() != b.rows() || a.cols() != b.cols())
    throw InternalError(
        fmt::format("{}: {} x {} and {} x {} do not fit", what, a.rows(), a.cols(), b.rows(), b.cols()));
  return a + b;
}

void Graph::node(const std::string& name, Compute compute) {
  if (has(name)) throw InternalError("two nodes are called " + name);
  computes_.emplace(name, std::move(compute));
}

void Graph::exchange(const std::string& name, const std::string& source) {
  if (has(name)) throw InternalError("two nodes are called " + name);
  sources_.emplace(name, source);
}

void Graph::list(const std::vector<Exchange>& exchanges) {
  for (const Exchange& e : exchanges) listed_.insert(e.name);
}

const Matrix& Graph::operator[](const std::string& name) {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  if (const auto open = open_.find(name); open != open_.end()) {
    Matrix value = result(name, open->second);
    open_.erase(open);
    return values_[name] = std::move(value);
  }
  if (const auto source = sources_.find(name); source != sources_.end()) {
    if (is_listed(name)) throw InternalError(name + " is used, but was not exchanged in this pass");
    return (*this)[source->second];
  }
  const auto compute = computes_.find(name);
  if (compute == computes_.end()) throw InternalError("nothing is called " + name);
  Matrix value = compute->second();
  return values_[name] = std::move(value);
}

void Graph::fill(const Exchange& e, const ExchangeSide& side) {
  const auto source = sources_.find(e.name);
  if (source == sources_.end()) throw InternalError("no values belong to the exchange " + e.name);
  const Matrix& input = (*this)[source->second];
  const Eigen::Map<const Eigen::VectorXd> flat(input.data(), input.size());
  Eigen::VectorXd& result = *side.result;
  switch (e.kind) {
    case ExchangeKind::all_reduce:
    case ExchangeKind::reduce_scatter:
      result = flat;
      break;
    case ExchangeKind::all_gather:
      result.setConstant(flat.size() * side.size, kGone);
      result.segment(flat.size() * side.index, flat.size()) = flat;
      break;
    case ExchangeKind::all_to_all:
    case ExchangeKind::ring_shift:
      *side.input = flat;
      result.setConstant(flat.size(), kGone);
      break;
  }
  if (e.kind == ExchangeKind::reduce_scatter && input.cols() % side.size != 0)
    throw InternalError(fmt::format("{}: {} columns are scattered over {} ranks", e.name, input.cols(), side.size));
  values_.erase(e.name);  // the value of the previous pass, if this pass repeats the exchange
  open_.insert_or_assign(e.name, OpenExchange{e.kind, side, input.rows(), input.cols()});
}

Matrix Graph::result(const std::string& name, const OpenExchange& open) {
  const Eigen::VectorXd& buffer = *open.side.result;
  const bool gather = open.kind == ExchangeKind::all_gather;
  const Index expected = open.rows * open.columns * (gather ? open.side.size : 1);
  if (buffer.size() != expected)
    throw InternalError(fmt::format("{}: {} elements arrived of {}", name, buffer.size(), expected));
  if (open.kind == ExchangeKind::reduce_scatter) {
    const auto [begin, end] = Values::range(buffer.size(), block(open.side.index, open.side.size));
    return Eigen::Map<const Matrix>(buffer.data() + begin, open.rows, (end - begin) / open.rows);
  }
  return Eigen::Map<const Matrix>(buffer.data(), open.rows, expected / open.rows);
}

void Graph::end_pass() {
  while (!open_.empty()) (*this)[std::string(open_.begin()->first)];
}

}  // namespace trainyard::numeric
