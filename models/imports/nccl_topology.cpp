#include "models/imports/imported_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "models/imports/xml_element.hpp"

namespace trainyard {
namespace {

constexpr int kMostNumaNodes = 8;  // they are the sockets of a node
constexpr int kMostNvlinks = 64;   // in one <nvlink> of a GPU

/// Returns the PCIe generation of a link, by its transfers per second and lane.
int generation_of(const XmlElement& pci) {
  const std::string& speed = pci.text("link_speed");
  static const std::vector<std::pair<const char*, int>> speeds{{"8", 3}, {"16", 4}, {"32", 5}, {"64", 6}};
  for (const auto& [number, generation] : speeds)
    for (const char* point : {"", ".0"})
      for (const char* unit : {" GT/s", " GT/s PCIe"})
        if (speed == std::string(number) + point + unit) return generation;
  pci.place.refuse(fmt::format("<pci>: link_speed=\"{}\", expected 8, 16, 32 or 64 GT/s", speed));
}

/// Returns the number of lanes of generation 3 with the same rate. Generations double the rate, so that links of
/// several generations can be compared exactly.
int third_generation_lanes(const XmlElement& pci) {
  const int width = pci.integer("link_width", 1, kFullWidth);
  if ((width & (width - 1)) != 0)
    pci.place.refuse(fmt::format("<pci>: link_width=\"{}\", expected 1, 2, 4, 8 or 16", width));
  return width << (generation_of(pci) - 3);
}

struct ImportedNvlink {
  std::string target;  // bus id
  int count = 0;
  bool nvswitch = false;
  XmlPlace place;
};
struct ImportedGpu {
  int dev = 0, sm = 0, lanes = 0;
  std::string bus;
  std::vector<ImportedNvlink> nvlinks;
  XmlPlace place;
};
struct ImportedNet {
  int dev = 0, megabits = 0;
  int lanes = 0;  // PCIe lanes of generation 3; 0: at no PCIe device
  std::string name;
  XmlPlace place;
};
struct ImportedSwitch {
  int socket = 0, lanes = 0;
  std::vector<std::size_t> gpus, nets;  // in the order of the file
};

class NcclReader {
 public:
  std::vector<ImportedGpu> gpus;
  std::vector<ImportedNet> nets;
  std::vector<ImportedSwitch> switches;
  int sockets = 0;
  std::vector<std::string> notes;

  void read(const XmlElement& system) {
    if (system.name != "system") system.place.refuse(fmt::format("<{}>: expected <system>", system.name));
    std::map<int, const XmlElement*> cpus;  // indexed by NUMA node
    for (const XmlElement& cpu : system.children) {
      expect(cpu, "system", {"cpu"});
      if (!cpus.emplace(cpu.integer("numaid", -1, 1 << 20), &cpu).second)
        cpu.place.refuse(fmt::format("<cpu>: numaid=\"{}\" a second time: the topology of one node is expected",
                                     cpu.text("numaid")));
    }
    sockets = static_cast<int>(cpus.size());
    if (sockets > kMostNumaNodes)
      system.place.refuse(fmt::format("<system>: {} NUMA nodes; the most is {}", sockets, kMostNumaNodes));
    int socket = 0;
    for (const auto& [numa, cpu] : cpus) read_cpu(*cpu, socket++);
    if (gpus.empty())
      system.place.refuse("<system>: no <gpu> in it; NCCL_TOPO_DUMP_FILE writes a file that names the GPUs");
  }

 private:
  static void expect(const XmlElement& child, const char* parent, std::initializer_list<const char*> names) {
    if (std::ranges::none_of(names, [&child](const char* legal_name) { return child.name == legal_name; }))
      child.place.refuse(fmt::format("<{}> in <{}>: expected <{}>", child.name, parent, fmt::join(names, "> or <")));
  }

  void note(const std::string& text) {
    if (std::ranges::find(notes, text) == notes.end()) notes.push_back(text);
  }

  void read_cpu(const XmlElement& cpu, int socket) {
    for (const XmlElement& child : cpu.children) {
      expect(child, "cpu", {"pci", "nic"});
      ImportedSwitch below;
      below.socket = socket;
      if (child.name == "nic") {
        below.lanes = 0;  // 0: as wide as the widest link
        read_nic(child, below, 0);
      } else {
        read_pci(child, below, 0, 0);
        if (!below.gpus.empty() || !below.nets.empty()) below.lanes = third_generation_lanes(child);
      }
      if (!below.gpus.empty() || !below.nets.empty()) switches.push_back(std::move(below));
    }
  }

  /// `lanes`: width of the narrowest link between the outermost switch and `pci`, in lanes of generation 3; 0: no link
  /// yet.
  void read_pci(const XmlElement& pci, ImportedSwitch& below, int lanes, int depth) {
    pci.text("busid");
    for (const XmlElement& child : pci.children) {
      expect(child, "pci", {"pci", "gpu", "nic", "pcilink"});
      if (child.name == "pcilink") {
        note("Direct links between PCIe switches (pcilink) were left out.");
        continue;
      }
      if (child.name == "pci") {
        const std::size_t devices_before = below.gpus.size() + below.nets.size();
        // A link with no GPU or NIC below may lack the attributes for its width.
        int child_lanes = lanes;
        if (holds_device(child)) {
          child_lanes = third_generation_lanes(child);
          if (lanes > 0) child_lanes = std::min(child_lanes, lanes);
        }
        read_pci(child, below, child_lanes, depth + 1);
        if (depth > 0 && below.gpus.size() + below.nets.size() > devices_before)
          note("PCIe switches below others were merged with the outermost.");
        continue;
      }
      const int link = lanes > 0 ? lanes : third_generation_lanes(pci);
      if (depth == 0) note("A device at a root port has a PCIe switch of its own here, one hop more.");
      if (child.name == "gpu")
        read_gpu(pci, child, below, link);
      else
        read_nic(child, below, link);
    }
  }

  static bool holds_device(const XmlElement& pci) {
    return std::ranges::any_of(pci.children, [](const XmlElement& child) {
      return child.name == "gpu" || child.name == "nic" || (child.name == "pci" && holds_device(child));
    });
  }

  void read_gpu(const XmlElement& pci, const XmlElement& element, ImportedSwitch& below, int lanes) {
    ImportedGpu gpu;
    gpu.place = element.place;
    gpu.bus = lower_case(pci.text("busid"));
    gpu.dev = element.integer("dev", 0, 1 << 16);
    gpu.sm = element.integer("sm", 1, 1 << 16);
    gpu.lanes = lanes;
    for (const XmlElement& child : element.children) {
      expect(child, "gpu", {"nvlink", "c2c"});
      if (child.name == "c2c") child.place.refuse("<c2c>: links from a GPU to its CPU cannot be imported");
      ImportedNvlink link{lower_case(child.text("target")), child.integer("count", 1, kMostNvlinks), false,
                          child.place};
      const std::string kind = child.text("tclass");
      link.nvswitch = kind == "0x068000";
      if (!link.nvswitch && !kind.starts_with("0x03"))
        child.place.refuse(
            fmt::format("<nvlink>: tclass=\"{}\", expected that of a GPU (0x03…) or an NVSwitch (0x068000)", kind));
      gpu.nvlinks.push_back(std::move(link));
    }
    for (const ImportedGpu& other : gpus) {
      if (other.dev == gpu.dev) gpu.place.refuse(fmt::format("<gpu>: dev=\"{}\" a second time", gpu.dev));
      if (other.bus == gpu.bus) gpu.place.refuse(fmt::format("<gpu>: busid=\"{}\" a second time", gpu.bus));
      if (other.sm != gpu.sm)
        gpu.place.refuse(
            fmt::format("<gpu>: sm=\"{}\" besides sm=\"{}\": a node has GPUs of one type", gpu.sm, other.sm));
    }
    below.gpus.push_back(gpus.size());
    gpus.push_back(std::move(gpu));
  }

  void read_nic(const XmlElement& nic, ImportedSwitch& below, int lanes) {
    for (const XmlElement& child : nic.children) {
      expect(child, "nic", {"net", "gin", "rma"});
      if (child.name != "net") continue;  // gin and rma are other interfaces of the same ports
      ImportedNet net;
      net.place = child.place;
      net.name = child.text("name");
      net.dev = child.integer("dev", 0, 1 << 16);
      net.megabits = child.integer("speed", 1, 1 << 30);
      net.lanes = lanes;
      for (const ImportedNet& other : nets)
        if (other.dev == net.dev) net.place.refuse(fmt::format("<net>: dev=\"{}\" a second time", net.dev));
      below.nets.push_back(nets.size());
      nets.push_back(std::move(net));
    }
  }
};

/// Numbers the `items` for which `keep` is true by NCCL's device number. The others get −1.
template <class Item, class Keep>
std::vector<int> device_numbers(const std::vector<Item>& items, const Keep& keep) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (keep(items[i])) order.push_back(i);
  std::ranges::sort(order, [&items](std::size_t a, std::size_t b) { return items[a].dev < items[b].dev; });
  std::vector<int> numbers(items.size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) numbers[order[i]] = static_cast<int>(i);
  return numbers;
}

/// Returns the rate of one NVLink of the GPU, per direction.
BytesPerSecond nvlink_rate_of(const ImportedGpu& gpu) {
  static const std::map<int, double> rates{{60, 20e9},      {70, 25e9}, {80, 25e9},
                                           {86, 14.0625e9}, {90, 25e9}, {100, 50e9}};
  const auto entry = rates.find(gpu.sm);
  if (entry == rates.end())
    gpu.place.refuse(
        fmt::format("<gpu>: sm=\"{}\": the rate of its NVLinks is not known; known: 60, 70, 80, 86, 90, 100", gpu.sm));
  return BytesPerSecond{entry->second};
}

std::string gpu_type_of(const ImportedGpu& gpu) {
  static const std::map<int, const char*> types{
      {70, "v100-sxm2-16gb"}, {75, "t4"}, {80, "a100-sxm4-80gb"}, {90, "h100-sxm5-80gb"}};
  const auto entry = types.find(gpu.sm);
  if (entry == types.end())
    gpu.place.refuse(fmt::format("<gpu>: sm=\"{}\" does not identify the type of GPU; name one with --gpu", gpu.sm));
  return entry->second;
}

struct NvlinkWiring {
  std::string interconnect = "pcie";
  std::vector<NvlinkBundle> mesh;
  int to_nvswitch = 0;  // number of links from each GPU to switches
};

NvlinkWiring nvlink_wiring(const std::vector<ImportedGpu>& gpus, const std::vector<int>& number) {
  std::map<std::string, int> at_bus;
  for (std::size_t i = 0; i < gpus.size(); ++i) at_bus[gpus[i].bus] = number[i];
  std::map<std::pair<int, int>, int> links;
  std::map<int, int> to_nvswitch;
  const ImportedNvlink *some_nvswitch = nullptr, *some_gpu = nullptr;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    for (const ImportedNvlink& link : gpus[i].nvlinks) {
      (link.nvswitch ? some_nvswitch : some_gpu) = &link;
      if (link.nvswitch) {
        to_nvswitch[number[i]] += link.count;
        continue;
      }
      const auto target = at_bus.find(link.target);
      if (target == at_bus.end())
        link.place.refuse(fmt::format("<nvlink>: target=\"{}\" is no GPU of the file", link.target));
      if (target->second == number[i]) link.place.refuse("<nvlink>: from a GPU to itself");
      links[{number[i], target->second}] += link.count;
    }
  NvlinkWiring wiring;
  if (some_nvswitch && some_gpu) some_gpu->place.refuse("<nvlink>: to a GPU, but others lead to an NVSwitch");
  if (some_nvswitch) {
    wiring.interconnect = "nvswitch";
    wiring.to_nvswitch = to_nvswitch.begin()->second;
    for (std::size_t i = 0; i < gpus.size(); ++i)
      if (to_nvswitch[number[i]] != wiring.to_nvswitch)
        gpus[i].place.refuse(fmt::format("<gpu>: {} NVLinks to the NVSwitches, but other GPUs have {}",
                                         to_nvswitch[number[i]], wiring.to_nvswitch));
  }
  for (std::size_t i = 0; i < gpus.size(); ++i)
    for (const auto& [pair, count] : links) {
      if (pair.first != number[i]) continue;
      const auto back = links.find({pair.second, pair.first});
      if (back == links.end() || back->second != count)
        gpus[i].place.refuse(fmt::format("<gpu>: {} NVLinks from GPU {} to {}, but {} back", count, pair.first,
                                         pair.second, back == links.end() ? 0 : back->second));
    }
  for (const auto& [pair, count] : links) {
    if (pair.first > pair.second) continue;
    wiring.interconnect = "nvlink-mesh";
    wiring.mesh.push_back({pair.first, pair.second, count});
  }
  return wiring;
}

/// PCIe rates of the whole node, as its entry states them.
struct PcieRates {
  int generation = 3;  // generation of the lanes
  int device_lanes = kFullWidth;
  int lanes(int third_generation) const { return third_generation >> (generation - 3); }
};

PcieRates pcie_rates(const NcclReader& in, const std::vector<int>& hcas, std::vector<std::string>& notes) {
  int widest = kFullWidth;
  for (const ImportedSwitch& s : in.switches) widest = std::max(widest, s.lanes);
  for (const ImportedGpu& gpu : in.gpus) widest = std::max(widest, gpu.lanes);
  PcieRates rates;
  while (kFullWidth << (rates.generation - 3) < widest) ++rates.generation;
  for (const ImportedGpu& gpu : in.gpus)
    if (gpu.lanes != in.gpus.front().lanes)
      gpu.place.refuse("<gpu>: its PCIe link is not as fast as the other GPUs': a node has GPUs with equal links");
  rates.device_lanes = rates.lanes(in.gpus.front().lanes);
  for (const ImportedSwitch& s : in.switches)
    if (s.lanes > 0 && rates.lanes(s.lanes) < 1) in.gpus.front().place.refuse("a PCIe switch with less than one lane");
  if (rates.device_lanes < 1) in.gpus.front().place.refuse("<gpu>: a PCIe link far narrower than the switches'");
  for (std::size_t i = 0; i < in.nets.size(); ++i)
    if (hcas[i] >= 0 && in.nets[i].lanes > 0 && in.nets[i].lanes != in.gpus.front().lanes)
      notes.push_back(
          fmt::format("The PCIe link of HCA {} ({}) is not as fast as the GPUs', but was taken as they are.", hcas[i],
                      in.nets[i].name));
  return rates;
}

std::vector<PcieSwitch> switches_of(const NcclReader& in, const std::vector<int>& gpus, const std::vector<int>& hcas,
                                    const PcieRates& rates) {
  const auto devices = [](const std::vector<std::size_t>& items, const std::vector<int>& numbers) {
    std::vector<int> result;
    for (const std::size_t i : items)
      if (numbers[i] >= 0) result.push_back(numbers[i]);
    std::ranges::sort(result);
    return result;
  };
  std::vector<PcieSwitch> switches;
  for (const ImportedSwitch& s : in.switches)
    switches.push_back(
        {s.socket, devices(s.gpus, gpus), devices(s.nets, hcas), s.lanes > 0 ? rates.lanes(s.lanes) : kFullWidth});
  return switches;
}

}  // namespace

std::string node_entry_of_nccl_topology(std::string_view xml, const std::string& file, const std::string& gpu_type) {
  NcclReader in;
  in.read(read_xml(xml, file));
  int fastest = 0;
  for (const ImportedNet& net : in.nets) fastest = std::max(fastest, net.megabits);
  const std::vector<int> gpus = device_numbers(in.gpus, [](const ImportedGpu&) { return true; });
  const std::vector<int> hcas =
      device_numbers(in.nets, [fastest](const ImportedNet& n) { return n.megabits == fastest; });
  const auto hca_count = std::ranges::count_if(hcas, [](int number) { return number >= 0; });
  for (std::size_t i = 0; i < in.nets.size(); ++i)
    if (hcas[i] < 0)
      in.notes.push_back(fmt::format("{} at {} Gbit/s was left out: a node has HCAs of one rate.", in.nets[i].name,
                                     in.nets[i].megabits / 1000.0));
  std::erase_if(in.switches, [&hcas](const ImportedSwitch& s) {
    return s.gpus.empty() && std::ranges::none_of(s.nets, [&hcas](std::size_t n) { return hcas[n] >= 0; });
  });
  const NvlinkWiring nvlink = nvlink_wiring(in.gpus, gpus);
  const PcieRates rates = pcie_rates(in, hcas, in.notes);
  const ImportedGpu& first = in.gpus.front();

  ImportedNode node;
  node.kind = "NCCL topology";
  node.file = file;
  node.notes = in.notes;
  node.gpus = static_cast<int>(in.gpus.size());
  node.gpu_type = gpu_type.empty() ? gpu_type_of(first) : gpu_type;
  node.interconnect = nvlink.interconnect;
  node.mesh = nvlink.mesh;
  if (nvlink.interconnect != "pcie") {
    node.nvlink_rate = nvlink_rate_of(first);
    node.gpu_nvlink = node.nvlink_rate * nvlink.to_nvswitch;
    node.nvlink_source =
        fmt::format("imported from {}; each NVLink at {} GB/s per direction, as compute capability {} has them", file,
                    node.nvlink_rate.value / 1e9, first.sm);
  }
  node.sockets = in.sockets;
  node.pcie_rate = pcie_rate(rates.generation, kFullWidth);
  node.device_lanes = rates.device_lanes;
  node.switches = switches_of(in, gpus, hcas, rates);
  node.hcas = static_cast<int>(hca_count);
  node.hca_rate = BytesPerSecond{fastest * 1e6 / 8};
  return imported_node_entry(node);
}

}  // namespace trainyard
