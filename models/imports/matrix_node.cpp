#include "models/imports/imported_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "models/imports/topology_matrix.hpp"
#include "sim/index.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostMatrixSockets = 8;

/// Groups of devices. The index of a group is that of its first device.
class DeviceGroups {
 public:
  explicit DeviceGroups(std::size_t devices) : first_(consecutive_numbers(std::size_t{0}, devices)) {}
  std::size_t group_of(std::size_t device) const { return first_[device]; }
  void join(std::size_t a, std::size_t b) {
    const std::size_t low = std::min(group_of(a), group_of(b)), high = std::max(group_of(a), group_of(b));
    if (low != high) std::replace(first_.begin(), first_.end(), high, low);
  }
  std::vector<std::size_t> all() const {
    std::vector<std::size_t> firsts;
    for (std::size_t i = 0; i < first_.size(); ++i)
      if (first_[i] == i) firsts.push_back(i);
    return firsts;
  }

 private:
  std::vector<std::size_t> first_;
};

bool within(const MatrixCell& cell, MatrixHop most) { return cell.hop <= most; }

/// Returns " to DEVICE" for a device that joins two others by hops up to `most`; empty if no single device does.
std::string joining_device(const TopologyMatrix& matrix, std::size_t a, std::size_t b, MatrixHop most) {
  for (std::size_t w = 0; w < matrix.devices.size(); ++w)
    if (w != a && w != b && within(matrix.devices[a].cells[w], most) && within(matrix.devices[w].cells[b], most))
      return " to " + matrix.devices[w].name;
  return "";
}

/// Groups the devices that hops up to `most` join. Throws UserError if two devices of a group are farther apart by
/// their own entry. An entry for NVLinks does not show the path over PCIe, so it is not checked.
DeviceGroups groups_within(const TopologyMatrix& matrix, MatrixHop most, const char* relation) {
  const std::size_t count = matrix.devices.size();
  DeviceGroups groups(count);
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (within(matrix.devices[a].cells[b], most)) groups.join(a, b);
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const MatrixCell& cell = matrix.devices[a].cells[b];
      if (groups.group_of(a) != groups.group_of(b) || within(cell, most) || cell.hop == MatrixHop::nvlink) continue;
      matrix.refuse(a, b,
                    fmt::format("{}, but by their other entries{} both {}", show(cell),
                                joining_device(matrix, a, b, most), relation));
    }
  return groups;
}

/// Finds the sockets. SYS separates devices. Other entries join them, as do equal NUMA nodes; devices without a NUMA
/// node are joined to as few sockets as possible.
class SocketFinder {
 public:
  SocketFinder(const TopologyMatrix& matrix, std::vector<std::string>& notes)
      : matrix_(matrix), notes_(notes), groups_(groups_within(matrix, MatrixHop::node, "are at one socket")) {
    label_groups();
    note_distances();
  }

  DeviceGroups find() {
    join_where([this](std::size_t a, std::size_t b) { return !label(a).empty() && label(a) == label(b); });
    // Groups with the same label that are still separate have SYS between them.
    for (const std::size_t a : groups_.all())
      for (const std::size_t b : groups_.all())
        if (a < b && !label(a).empty() && label(a) == label(b))
          notes_.push_back(fmt::format("{} and {} name one affinity ({}), but SYS lies between them: two sockets here.",
                                       name(a), name(b), label(a)));
    const std::size_t groups_before = groups_.all().size();
    join_where([this](std::size_t a, std::size_t b) { return label(a).empty() || label(b).empty(); });
    if (groups_.all().size() < groups_before)
      notes_.push_back(
          "GPUs joined by NVLink share a socket here if neither the matrix nor an affinity shows their sockets.");
    return groups_;
  }

 private:
  const std::string& name(std::size_t device) const { return matrix_.devices[device].name; }
  const std::string& label(std::size_t group) const { return labels_[group]; }

  void label_groups() {
    labels_.resize(matrix_.devices.size());
    for (std::size_t i = 0; i < matrix_.devices.size(); ++i) {
      const std::string& affinity = matrix_.devices[i].affinity;
      std::string& label = labels_[groups_.group_of(i)];
      if (label.empty()) label = affinity;
      if (!affinity.empty() && affinity != label)
        notes_.push_back(fmt::format("{} names {}, but {} at the same socket {}: the matrix was followed.", name(i),
                                     affinity, name(groups_.group_of(i)), label));
    }
  }

  /// Returns the mark of two groups: 1 if SYS lies between them.
  char& separate(std::size_t a, std::size_t b) { return separate_[a * matrix_.devices.size() + b]; }

  void note_distances() {
    const std::size_t count = matrix_.devices.size();
    separate_.resize(count * count);
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b)
        if (matrix_.devices[a].cells[b].hop == MatrixHop::sys) separate(groups_.group_of(a), groups_.group_of(b)) = 1;
  }

  void join(std::size_t a, std::size_t b) {
    if (labels_[a].empty()) labels_[a] = labels_[b];
    groups_.join(a, b);
    for (std::size_t other = 0; other < matrix_.devices.size(); ++other)
      if (separate(b, other)) separate(a, other) = separate(other, a) = 1;
  }

  template <class Same>
  void join_where(const Same& same) {
    const std::vector<std::size_t> all = groups_.all();
    for (std::size_t b = 0; b < all.size(); ++b)
      for (std::size_t a = 0; a < b; ++a) {
        if (groups_.group_of(all[a]) != all[a] || !same(all[a], all[b]) || separate(all[a], all[b])) continue;
        join(all[a], all[b]);
        break;
      }
  }

  const TopologyMatrix& matrix_;
  std::vector<std::string>& notes_;
  DeviceGroups groups_;
  std::vector<std::string> labels_;  // indexed by the first device of a group
  std::vector<char> separate_;
};

bool any_hop(const TopologyMatrix& matrix, MatrixHop hop) {
  return std::ranges::any_of(matrix.devices, [hop](const MatrixDevice& device) {
    return std::ranges::any_of(device.cells, [hop](const MatrixCell& cell) { return cell.hop == hop; });
  });
}

void wire_pcie(ImportedNode& node, const TopologyMatrix& matrix) {
  groups_within(matrix, MatrixHop::pix, "are below one PCIe switch");  // only checks the matrix
  const DeviceGroups below = groups_within(matrix, MatrixHop::pxb, "are below one root port");
  const DeviceGroups sockets = SocketFinder(matrix, node.notes).find();
  std::map<std::size_t, int> numbers;
  for (const std::size_t socket : sockets.all()) numbers.emplace(socket, static_cast<int>(numbers.size()));
  if (numbers.size() > kMostMatrixSockets)
    fail({matrix.file, matrix.devices.front().line, 1},
         fmt::format("SYS keeps {} groups of devices apart; a node has {} sockets at most", numbers.size(),
                     kMostMatrixSockets));
  node.sockets = static_cast<int>(numbers.size());
  bool has_single_device = false, has_hidden_path = false;
  for (const std::size_t group : below.all()) {
    PcieSwitch pcie_switch;
    pcie_switch.socket = numbers.at(sockets.group_of(group));
    for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
      const MatrixDevice& device = matrix.devices[i];
      if (below.group_of(i) == group) (device.gpu ? pcie_switch.gpus : pcie_switch.hcas).push_back(device.number);
    }
    const auto& cells = matrix.devices[group].cells;
    has_hidden_path |= pcie_switch.gpus.size() == 1 && pcie_switch.hcas.empty() &&
                       std::ranges::any_of(cells, [](const MatrixCell& c) { return c.hop == MatrixHop::nvlink; });
    has_single_device |= pcie_switch.gpus.size() + pcie_switch.hcas.size() == 1;
    node.switches.push_back(std::move(pcie_switch));
  }
  if (any_hop(matrix, MatrixHop::pxb))
    node.notes.push_back("PXB: PCIe switches below a common one were merged with it; topo show prints PIX there.");
  if (any_hop(matrix, MatrixHop::node))
    node.notes.push_back("NODE: a socket has one host bridge here; topo show prints PHB there.");
  if (has_single_device)
    node.notes.push_back("A device without PIX or PXB has a PCIe switch of its own here, one hop more.");
  if (has_hidden_path)
    node.notes.push_back("NVLinks hide which PCIe switches GPUs share: those without a near NIC share none.");
}

/// Returns the rate of one NVLink of the GPU's architecture, per direction. No value: the architecture is unknown, or
/// the GPU's rate is no multiple of it.
std::optional<BytesPerSecond> architecture_nvlink_rate(const Gpu& gpu) {
  static const std::map<std::string, BytesPerSecond> rates{{"pascal", BytesPerSecond{20e9}},
                                                           {"volta", BytesPerSecond{25e9}},
                                                           {"ampere", BytesPerSecond{25e9}},
                                                           {"hopper", BytesPerSecond{25e9}},
                                                           {"blackwell", BytesPerSecond{50e9}}};
  const auto entry = rates.find(gpu.architecture);
  if (entry == rates.end()) return {};
  // Boards for workstations have slower links (14.0625 GB/s with Ampere): their rate is no multiple of this one.
  const double links = gpu.nvlink.value / entry->second.value;
  return std::abs(links - std::round(links)) < 1e-9 ? std::optional(entry->second) : std::nullopt;
}

/// NVLinks in the matrix.
struct NvlinkCount {
  std::vector<NvlinkBundle> pairs;
  std::map<std::size_t, int> links;      // number of links by device
  bool alike = true;                     // all pairs of GPUs have the same number
  std::size_t most_at = 0, most_to = 0;  // row and column of a cell of the GPU with the most links
};

NvlinkCount count_nvlinks(const TopologyMatrix& matrix) {
  NvlinkCount count;
  std::size_t gpus = 0;
  std::map<std::size_t, std::size_t> some;
  for (std::size_t a = 0; a < matrix.devices.size(); ++a) {
    gpus += matrix.devices[a].gpu ? 1 : 0;
    for (std::size_t b = 0; b < matrix.devices.size(); ++b) {
      const MatrixCell& cell = matrix.devices[a].cells[b];
      if (cell.hop != MatrixHop::nvlink) continue;
      count.links[a] += cell.links;
      some.emplace(a, b);
      if (a < b) count.pairs.push_back({matrix.devices[a].number, matrix.devices[b].number, cell.links});
    }
  }
  count.alike =
      2 * count.pairs.size() == gpus * (gpus - 1) &&
      std::ranges::all_of(count.pairs, [&](const NvlinkBundle& b) { return b.links == count.pairs.front().links; });
  for (const auto& [device, links] : count.links)
    if (count.most_at == count.most_to || links > count.links.at(count.most_at)) {
      count.most_at = device;
      count.most_to = some.at(device);
    }
  return count;
}

/// Wires the NVLinks if the rate of a link is unknown: the GPU's rate is divided by its links. If all pairs are joined
/// and there are more GPUs than any board joins directly, they are joined by switches.
void wire_nvlinks_of_unknown_rate(ImportedNode& node, const NvlinkCount& count, const Gpu& gpu) {
  constexpr int most_pairwise = 4;
  if (count.alike && node.gpus > most_pairwise) {
    node.interconnect = "nvswitch";
    return;
  }
  const int links = count.links.at(count.most_at);
  node.interconnect = "nvlink-mesh";
  node.mesh = count.pairs;
  node.nvlink_rate = gpu.nvlink * (1.0 / links);
  node.nvlink_source = fmt::format("assumed: {} of gpu {} over the {} NVLinks of the GPU that has the most here",
                                   show(gpu.nvlink), gpu.name, links);
}

void wire_nvlinks(ImportedNode& node, const TopologyMatrix& matrix, const Gpu& gpu) {
  const NvlinkCount count = count_nvlinks(matrix);
  if (count.pairs.empty()) return;
  const auto refuse = [&](const std::string& what) { matrix.refuse(count.most_at, count.most_to, what); };
  if (gpu.nvlink.value <= 0)
    refuse(fmt::format("{}, but gpu {} has no NVLinks", show(matrix.devices[count.most_at].cells[count.most_to]),
                       gpu.name));
  const std::optional<BytesPerSecond> rate = architecture_nvlink_rate(gpu);
  if (!rate) return wire_nvlinks_of_unknown_rate(node, count, gpu);
  const int gpu_links = static_cast<int>(std::lround(gpu.nvlink / *rate)), needed = count.links.at(count.most_at);
  const int pair_links = count.pairs.front().links;
  if ((count.alike ? pair_links : needed) > gpu_links)
    refuse(fmt::format("{} NVLinks {}, but gpu {} has {}{}", count.alike ? pair_links : needed,
                       count.alike ? "to each GPU" : "to all GPUs together", gpu.name, gpu_links,
                       count.alike || pair_links <= 0 ? "" : "; through NVSwitch all pairs have the same number"));
  node.nvlink_source =
      fmt::format("assumed: each NVLink at {} per direction, as most {} GPUs have them", show(*rate), gpu.architecture);
  if (count.alike && needed > gpu_links) {  // one link cannot lead to two GPUs
    node.interconnect = "nvswitch";
    node.gpu_nvlink = *rate * pair_links;
  } else {
    node.interconnect = "nvlink-mesh";
    node.mesh = count.pairs;
    node.nvlink_rate = *rate;
  }
}

/// Counts GPUs and HCAs, and notes which HCA is which NIC.
void count_devices(ImportedNode& node, const TopologyMatrix& matrix) {
  std::string nics;
  for (const MatrixDevice& device : matrix.devices) {
    ++(device.gpu ? node.gpus : node.hcas);
    if (!device.gpu) nics += fmt::format("{}{} is {}", nics.empty() ? "HCA " : ", ", device.number, device.name);
  }
  if (!nics.empty()) node.notes.push_back(nics + ".");
}

}  // namespace

std::string node_entry_of_topology_matrix(std::string_view text, const std::string& file, const Gpu& gpu,
                                          BytesPerSecond hca_rate) {
  const TopologyMatrix matrix = read_topology_matrix(text, file);
  ImportedNode node;
  node.kind = "nvidia-smi topo -m print";
  node.file = file;
  node.gpu_type = gpu.name;
  count_devices(node, matrix);
  wire_nvlinks(node, matrix, gpu);
  wire_pcie(node, matrix);
  node.notes.push_back("All PCIe links have 16 lanes and the GPU's rate here.");
  if (hca_rate.value > 0 && node.hcas == 0)
    throw UserError(fmt::format("{}: a rate of HCAs, but there are no NICs", file));
  node.hca_rate = hca_rate.value > 0 ? hca_rate : BytesPerSecond{100e9 / 8};
  node.hca_source = hca_rate.value > 0 ? "given to the import (--hca-rate)"
                                       : "assumed: 100 Gbit/s, which the print does not say (--hca-rate)";
  return imported_node_entry(node);
}

}  // namespace trainyard
