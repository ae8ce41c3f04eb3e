#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// Connection of two devices in `nvidia-smi topo -m`, nearer ones first. For NVLinks the matrix does not show the path
/// over PCIe.
enum class MatrixHop : std::uint8_t { self, pix, pxb, phb, node, sys, nvlink };

struct MatrixCell {
  MatrixHop hop = MatrixHop::self;
  int links = 0;  ///< number of NVLinks, with `nvlink`
  int column = 0;
  bool operator==(const MatrixCell& other) const { return hop == other.hop && links == other.links; }
};
std::string show(const MatrixCell&);  ///< "NV2", "PIX"

struct MatrixDevice {
  std::string name;      ///< "GPU0", "mlx5_0"; for NIC0 its name in the legend
  bool gpu = false;      ///< true: a GPU; false: a NIC
  int number = 0;        ///< index among the devices of its kind, by columns
  int line = 0;          ///< line of its row
  std::string affinity;  ///< its NUMA node, or else its CPUs; empty: not in the print
  std::vector<MatrixCell> cells;
};

/// The matrix that `nvidia-smi topo -m` prints: symmetric, with a row for each column and at least one GPU.
struct TopologyMatrix {
  std::shared_ptr<const std::string> file;
  std::vector<MatrixDevice> devices;

  /// Throws UserError at the cell of row `a` and column `b`.
  [[noreturn]] void refuse(std::size_t a, std::size_t b, const std::string& what) const;
};

/// Reads the matrix. Tabs or spaces, underlined headers, prints of old drivers and text around the matrix are allowed.
/// Throws UserError "file:line:column: …".
TopologyMatrix read_topology_matrix(std::string_view text, const std::string& file);

}  // namespace trainyard
