#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/reading/nearest.hpp"
#include "sim/index.hpp"
#include "topologies/cluster.hpp"
#include "topologies/fabrics/fabric_rows.hpp"

namespace trainyard {
namespace {

constexpr int kMostDims = 6, kMostPlaces = 1 << 20;

std::vector<int> read_dims(Fields& fields, const char* key) {
  std::vector<int> dims;
  const Node* list = fields.child(key);
  if (!list || list->kind == Node::Kind::null) return dims;
  if (const Node* value = list->find("value")) list = value;
  const auto refuse = [&](const Place& place) {
    fail(place, fmt::format("{}.{}: expected one to {} lengths, such as [4, 4, 4]", fields.what(), key, kMostDims));
  };
  if (list->kind != Node::Kind::list || list->items.empty() || list->items.size() > kMostDims) refuse(list->place);
  for (const Node& item : list->items) {
    std::int64_t length = 0;
    try {
      length = parse_integer(item.scalar);
    } catch (const UserError&) {
      refuse(item.place);
    }
    if (length < 1 || length > kMostPlaces) refuse(item.place);
    dims.push_back(static_cast<int>(length));
  }
  return dims;
}

/// Arranges `count` blocks as a torus with the block's number of dimensions and the smallest sum of lengths: `best`. If
/// there are several, it is the first. `lengths` are the dimensions chosen so far.
void search_dims(int count, const std::vector<int>& block, std::vector<int>& lengths, std::vector<int>& best) {
  if (lengths.size() + 1 == block.size()) {
    lengths.push_back(count * block.back());
    if (best.empty() ||
        std::accumulate(lengths.begin(), lengths.end(), 0) < std::accumulate(best.begin(), best.end(), 0))
      best = lengths;
    lengths.pop_back();
    return;
  }
  for (int blocks = 1; blocks <= count; ++blocks) {
    if (count % blocks != 0) continue;
    lengths.push_back(blocks * block[lengths.size()]);
    search_dims(count / blocks, block, lengths, best);
    lengths.pop_back();
  }
}

std::vector<int> equal_dims(int count, const std::vector<int>& block) {
  std::vector<int> lengths, best;
  search_dims(count, block, lengths, best);
  return best;
}

/// Positions on a grid: numbers with mixed bases, with the first dimension fastest.
struct Grid {
  std::vector<int> dims;
  int size() const { return std::accumulate(dims.begin(), dims.end(), 1, std::multiplies<>()); }
  std::vector<int> position(int number) const {
    std::vector<int> coordinates;
    for (const int length : dims) {
      coordinates.push_back(number % length);
      number /= length;
    }
    return coordinates;
  }
  int number(const std::vector<int>& position) const {
    int n = 0;
    for (std::size_t d = dims.size(); d-- > 0;) n = n * dims[d] + position[d];
    return n;
  }
};

/// Routes dimension by dimension, the shorter way round. If both are equally long, messages from even positions go up.
/// Positions are numbered slice after slice; the adapters of all slices meet in one switch.
class DimensionOrderRouter : public FabricRouter {
 public:
  DimensionOrderRouter(Grid grid, std::vector<bool> wrap)
      : grid_(std::move(grid)), size_(grid_.size()), wrap_(std::move(wrap)) {}
  static constexpr int kSwitch = -2;  // the switch between the slices, instead of a router
  Grid grid_;                         // the routers of one slice
  int size_;                          // their number
  std::vector<bool> wrap_;            // indexed by dimension
  std::vector<int> router_of_;        // indexed by device; −1: none
  std::vector<LinkId> into_;          // indexed by device: its wire to its router or to the switch between the slices
  // Indexed by router and dimension: the wire to the next higher position; −1: none.
  std::vector<std::vector<LinkId>> up_;
  DeviceId border_ = -1;           // −1: there is none
  std::vector<LinkId> to_border_;  // indexed by router

  bool path(const DeviceGraph&, DeviceId from, DeviceId to, std::vector<LinkId>& wires) const override {
    const int a = router(from), b = router(to);
    if (border_ >= 0 && (from == border_ ? b >= 0 : to == border_ && a >= 0)) {
      if (from == border_)
        wires.insert(wires.end(), {to_border_[b] ^ 1, into_[to] ^ 1});
      else
        wires.insert(wires.end(), {into_[from], to_border_[a]});
      return true;
    }
    const bool over_switch = a == kSwitch && b == kSwitch;
    if (!over_switch && (a < 0 || b < 0 || a / size_ != b / size_)) return false;
    wires.push_back(into_[from]);
    if (!over_switch) cross(a, b, wires);
    wires.push_back(into_[to] ^ 1);
    return true;
  }

 private:
  int router(DeviceId device) const {
    return static_cast<std::size_t>(device) < router_of_.size() ? router_of_[device] : -1;
  }
  void cross(int a, int b, std::vector<LinkId>& wires) const {
    const int first = a - a % size_;  // first router of the slice
    std::vector<int> position = grid_.position(a % size_);
    const std::vector<int> target = grid_.position(b % size_);
    for (std::size_t d = 0; d < position.size(); ++d)
      while (position[d] != target[d]) step(position, first, d, target[d], wires);
  }
  void step(std::vector<int>& position, int first, std::size_t d, int target, std::vector<LinkId>& wires) const {
    const int length = grid_.dims[d];
    const int ahead = (target - position[d] + length) % length;
    const bool up =
        !wrap_[d] ? target > position[d] : ahead * 2 < length || (ahead * 2 == length && position[d] % 2 == 0);
    if (up) wires.push_back(up_[first + grid_.number(position)][d]);
    position[d] = (position[d] + (up ? 1 : length - 1)) % length;
    if (!up) wires.push_back(up_[first + grid_.number(position)][d] ^ 1);
  }
};

struct TorusShape {
  std::string type = "torus";  // or "ring"
  bool chips = false;          // joins the chips themselves, not nodes
  std::vector<int> dims;       // empty: as close to a cube as the count permits
  int rank = 1;                // number of dimensions if `dims` is empty
  std::vector<int> node_dims;  // the block of chips of a node; empty: a row
  bool wrap = true;            // false: a mesh
  int wrap_multiple = 1;       // only dimensions whose length is a multiple of this are closed to rings
  int slices = 1;              // separate tori of chips; the adapters of their hosts join them
  BytesPerSecond link_rate;    // in each direction; 0: the rate of the chip's links, or of all HCAs of a node
};

/// A torus (or mesh) of nodes, each with a switch of its own, or of the chips themselves, which forward messages
/// without using their memory. One dimension is a ring. Several slices of chips are joined by the adapters of their
/// hosts and one switch with a port for each, which stands for the network of the data centre.
class TorusFabric : public Fabric {
 public:
  explicit TorusFabric(TorusShape shape) : shape_(std::move(shape)) {}

  std::string type() const override { return shape_.type; }
  bool joins_chips() const override { return shape_.chips; }
  bool has_levels() const override { return false; }
  std::vector<LinkKind> link_kinds() const override {
    if (!shape_.chips) return {LinkKind::hca, LinkKind::uplink};
    return shape_.slices > 1 ? std::vector{LinkKind::ici, LinkKind::hca} : std::vector{LinkKind::ici};
  }
  int slices() const override { return shape_.slices; }
  std::string border_refusal() const override {
    return shape_.chips
               ? "no collective library joins chips over their own links with nodes of another fabric; expected "
                 "several slices of one fabric (slices: 2), or a job on each"
               : "";
  }
  std::shared_ptr<const ChipPlaces> chip_places(const ClusterSpec& spec) const override {
    if (!shape_.chips) return nullptr;
    const Grid grid = this->grid(spec);
    return std::make_shared<ChipPlaces>(ChipPlaces{grid.dims, chip_positions(spec, grid)});
  }
  std::string title() const override {
    return shape_.slices > 1 ? fmt::format("{} slices, each a {}", shape_.slices, type()) : type();
  }
  BytesPerSecond slowest_stated_link() const override { return shape_.link_rate; }
  std::string routing() const override { return "dimension by dimension, the shorter way round"; }
  std::string pair_routing() const override { return "dimension order"; }
  void build(DeviceGraph&, const ClusterSpec&) const override;
  std::vector<FabricRow> rows(const DeviceGraph&, const ClusterSpec&) const override;

 private:
  TorusShape shape_;

  LinkKind link_kind() const { return shape_.chips ? LinkKind::ici : LinkKind::uplink; }
  int ends(const ClusterSpec& spec) const { return shape_.chips ? spec.gpus() : spec.nodes; }
  bool wraps(int length) const { return shape_.wrap && length % shape_.wrap_multiple == 0; }
  BytesPerSecond link_rate(const ClusterSpec& spec) const {
    if (shape_.link_rate.value > 0) return shape_.link_rate;
    return shape_.chips ? spec.node.gpu.chip_links.rate : fastest_node(spec);
  }
  Grid grid(const ClusterSpec&) const;  // the ends of one slice
  std::string grid_text(const Grid&) const;
  std::vector<int> chip_positions(const ClusterSpec&, const Grid&) const;
  void require_chip_links(const ClusterSpec&, const Grid&) const;
};

Grid TorusFabric::grid(const ClusterSpec& spec) const {
  std::vector<int> block = shape_.node_dims;
  block.resize(static_cast<std::size_t>(std::max(shape_.rank, static_cast<int>(block.size()))), 1);
  if (ends(spec) % shape_.slices != 0 || spec.nodes % shape_.slices != 0)
    fail(spec.fabric_place, fmt::format("{} slices do not divide the {} nodes; nearest: {}", shape_.slices, spec.nodes,
                                        nearest_divisors(spec.nodes, shape_.slices)));
  const int count = ends(spec) / shape_.slices, of_block = Grid{block}.size();
  const bool tiles = shape_.chips && count % of_block == 0;
  const std::vector<int> ones(block.size(), 1);
  Grid grid{!shape_.dims.empty() ? shape_.dims : equal_dims(tiles ? count / of_block : count, tiles ? block : ones)};
  double places = 1;  // an integer of any size
  for (const int length : grid.dims) places *= length;
  if (places != count)
    fail(spec.fabric_place,
         fmt::format("a torus of {} has {} places, but there are {} {}{}", fmt::join(grid.dims, " x "), places, count,
                     shape_.chips ? "chips" : "nodes", shape_.slices > 1 ? " in a slice" : ""));
  return grid;
}

/// Positions of the chips of each node of a slice: nodes are blocks that tile the grid.
std::vector<int> TorusFabric::chip_positions(const ClusterSpec& spec, const Grid& grid) const {
  std::vector<int> block = shape_.node_dims;
  if (block.empty()) block = {std::gcd(spec.node.gpus, grid.dims[0])};
  block.resize(grid.dims.size(), 1);
  const Grid inside{block};
  Grid outside{grid.dims};
  if (inside.size() != spec.node.gpus) {
    // If a row does not fit, chips come one after the other.
    if (shape_.node_dims.empty()) return consecutive_numbers(0, grid.size());
    fail(spec.fabric_place, fmt::format("node_dims of {} hold {} chips, but a node has {}", fmt::join(block, " x "),
                                        inside.size(), spec.node.gpus));
  }
  for (std::size_t d = 0; d < block.size(); ++d) {
    if (grid.dims[d] % block[d] != 0)
      fail(spec.fabric_place, fmt::format("a torus of {} is not made of blocks of {}", fmt::join(grid.dims, " x "),
                                          fmt::join(block, " x ")));
    outside.dims[d] = grid.dims[d] / block[d];
  }
  std::vector<int> positions;
  for (int n = 0; n < outside.size(); ++n)
    for (int c = 0; c < inside.size(); ++c) {
      std::vector<int> position = outside.position(n);
      const std::vector<int> within = inside.position(c);
      for (std::size_t d = 0; d < position.size(); ++d) position[d] = position[d] * block[d] + within[d];
      positions.push_back(grid.number(position));
    }
  return positions;
}

/// Throws UserError if a chip has too few links for the grid, or states no rate.
void TorusFabric::require_chip_links(const ClusterSpec& spec, const Grid& grid) const {
  const Gpu& chip = spec.node.gpu;
  const auto used = 2 * std::ranges::count_if(grid.dims, [](int length) { return length > 1; });
  if (chip.chip_links.count > 0 && used > chip.chip_links.count)
    fail(spec.fabric_place, fmt::format("a torus of {} needs {} links a chip, but {} has {}",
                                        fmt::join(grid.dims, " x "), used, chip.name, chip.chip_links.count));
  if (link_rate(spec).value <= 0)
    fail(spec.fabric_place,
         fmt::format("fabric: missing key \"link_rate\": {} states no links between chips", chip.name));
}

/// Connects neighbours with cables. A dimension of length two has one cable, not two.
std::vector<std::vector<LinkId>> join_neighbours(DeviceGraph& graph, const Grid& grid, DeviceId first,
                                                 const std::vector<bool>& wrap, const Wire& wire) {
  std::vector<std::vector<LinkId>> up(static_cast<std::size_t>(grid.size()), std::vector<LinkId>(grid.dims.size(), -1));
  for (int n = 0; n < grid.size(); ++n)
    for (std::size_t d = 0; d < grid.dims.size(); ++d) {
      std::vector<int> next = grid.position(n);
      const int length = grid.dims[d];
      if (length == 1 || (!wrap[d] && next[d] + 1 == length)) continue;
      next[d] = (next[d] + 1) % length;
      const int to = grid.number(next);
      LinkId& slot = up[n][d];
      const bool has_cable = length == 2 && next[d] == 0;
      slot = has_cable ? up[to][d] ^ 1 : graph.connect(first + n, first + to, wire);
    }
  return up;
}

void TorusFabric::build(DeviceGraph& graph, const ClusterSpec& spec) const {
  const bool chips = shape_.chips;
  const Grid grid = this->grid(spec);
  const int size = grid.size(), routers = size * shape_.slices;
  if (chips) require_chip_links(spec, grid);
  const BytesPerSecond rate = link_rate(spec);
  const auto first = static_cast<DeviceId>(graph.devices().size());
  for (int n = 0; n < routers; ++n) graph.add(fabric_switch(spec, fmt::format("{}{}", chips ? "ici" : "router", n), n));
  const std::vector<int> positions = chips ? chip_positions(spec, grid) : std::vector<int>{};
  std::vector<bool> wrap;
  for (const int length : grid.dims) wrap.push_back(wraps(length));
  auto router = std::make_unique<DimensionOrderRouter>(grid, wrap);
  router->router_of_.assign(static_cast<std::size_t>(first), -1);
  router->into_.assign(static_cast<std::size_t>(first), -1);
  const auto attach = [&](DeviceId end, DeviceId to, int number, const Wire& wire) {
    router->router_of_[end] = number;
    router->into_[end] = graph.connect(end, to, wire);
  };
  const auto links = 2 * static_cast<int>(grid.dims.size());  // links of a router, over which a chip can send at once
  int i = 0;
  for (const DeviceId end : chips ? graph.devices_of_kind(DeviceKind::gpu) : fabric_hcas(graph, spec)) {
    const int node = graph.devices()[end].node,
              position = chips ? i / size * size + positions[i % size] : node - spec.first_node;
    attach(end, first + position, position, chips ? Wire{LinkKind::ici, rate * links, {}} : hca_wire(spec, node));
    ++i;
  }
  const Picoseconds hop{spec.switch_latency.count + (chips ? spec.distance.count : 0)};
  for (int slice = 0; slice < shape_.slices; ++slice) {
    const auto up = join_neighbours(graph, grid, first + slice * size, wrap, {link_kind(), rate, hop});
    router->up_.insert(router->up_.end(), up.begin(), up.end());
  }
  if (shape_.slices > 1) {
    const DeviceId network = graph.add({"fabric", DeviceKind::network_switch, -1, routers});
    for (const DeviceId hca : graph.devices_of_kind(DeviceKind::hca))
      attach(hca, network, DimensionOrderRouter::kSwitch, hca_wire(spec, graph.devices()[hca].node));
  }
  router->to_border_ = add_border(graph, spec, consecutive_numbers(first, routers));
  if (!router->to_border_.empty()) router->border_ = static_cast<DeviceId>(graph.devices().size()) - 1;
  graph.set_router(std::move(router));
}

/// Describes the grid: "torus" or "mesh", "ring" or "line"; if only some dimensions are closed, which ones. (A
/// dimension of length two has one cable in any case.)
std::string TorusFabric::grid_text(const Grid& grid) const {
  std::vector<int> dims = grid.dims, closed, open;
  if (shape_.dims.empty()) std::erase(dims, 1);
  if (dims.empty()) dims = {1};
  for (const int length : dims)
    if (length > 2) (wraps(length) ? closed : open).push_back(length);
  const bool torus = open.empty() || !closed.empty();
  const char* word = dims.size() == 1 ? (torus ? "ring" : "line") : torus ? "torus" : "mesh";
  std::string text = fmt::format("{} {}", word, fmt::join(dims, " x "));
  if (!open.empty() && !closed.empty()) text += fmt::format(" (closed along {})", fmt::join(closed, ", "));
  return text;
}

std::vector<FabricRow> TorusFabric::rows(const DeviceGraph& graph, const ClusterSpec& spec) const {
  const FabricView view(graph, spec);
  const std::vector<CableCount> cables = cables_of(view);
  const bool several = shape_.slices > 1;
  const Grid grid = this->grid(spec);
  std::vector<FabricRow> rows{
      {fmt::format("{}{} of {}", several ? fmt::format("{} slices, each a ", shape_.slices) : "", grid_text(grid),
                   shape_.chips ? "chips" : "nodes"),
       fmt::format("{} routers, {}, {}", grid.size() * shape_.slices, cables[1].text("between neighbours"),
                   cables[0].text(fmt::format("to {}s", view.end_word))),
       ""}};
  add_border_row(view, rows);
  if (!several) return rows;
  CableCount adapters;
  for (const DeviceId hca : graph.devices_of_kind(DeviceKind::hca))
    for (const LinkId wire : graph.links_from(hca))
      if (graph.is_up(wire) && graph.devices()[graph.ends(wire).to].kind == DeviceKind::network_switch)
        adapters.add(graph.links()[wire].capacity);
  rows.push_back({"data-centre network between the slices: one switch", adapters.text("to HCAs"), ""});
  return rows;
}

/// Keys: `joins: nodes | chips`, `dims: [4, 4, 4]` or `dimensions: 3`, `node_dims`, `link_rate` (default: the chip's),
/// `wrap`, `wrap_multiple`, `slices`.
std::shared_ptr<const Fabric> read_torus(Fields& fields) {
  TorusShape shape;
  shape.chips = fields.choice("joins", {"nodes", "chips"}, "nodes") == "chips";
  shape.dims = read_dims(fields, "dims");
  shape.rank = fields.integer_within<int>("dimensions", 1, kMostDims, 1);
  shape.node_dims = read_dims(fields, "node_dims");
  double places = 1;  // an integer of any size
  for (const int length : shape.node_dims) places *= length;
  if (places > kMostPlaces)
    fields.refuse("node_dims",
                  fmt::format("{} are {} places; at most {}", fmt::join(shape.node_dims, " x "), places, kMostPlaces));
  shape.link_rate = fields.bandwidth("link_rate", BytesPerSecond{0});
  shape.wrap = fields.boolean("wrap", true);
  shape.wrap_multiple = fields.integer_within<int>("wrap_multiple", 1, 1 << 20, 1);
  shape.slices = fields.integer_within<int>("slices", 1, 1 << 16, 1);
  if (shape.slices > 1 && !shape.chips) fields.refuse("slices", "only a torus of chips has slices (joins: chips)");
  return std::make_shared<TorusFabric>(std::move(shape));
}

std::shared_ptr<const Fabric> read_ring(Fields& fields) {
  TorusShape shape;
  shape.type = "ring";
  shape.link_rate = fields.bandwidth("link_rate", BytesPerSecond{0});
  shape.wrap = fields.boolean("wrap", true);
  return std::make_shared<TorusFabric>(std::move(shape));
}

const Registration<FabricReader> registered_torus{fabric_types(), "torus", read_torus};
const Registration<FabricReader> registered_ring{fabric_types(), "ring", read_ring};

}  // namespace
}  // namespace trainyard
