#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// How two devices reach each other in `nvidia-smi topo -m`, the nearer the smaller. NVLinks hide the way over PCIe.
enum class MatrixHop : std::uint8_t { self, pix, pxb, phb, node, sys, nvlink };

struct MatrixCell {
  MatrixHop hop = MatrixHop::self;
  int links = 0;  ///< with `nvlink`
  int column = 0;
  bool operator==(const MatrixCell& other) const { return hop == other.hop && links == other.links; }
};
std::string show(const MatrixCell&);  ///< "NV2", "PIX"

struct MatrixDevice {
  std::string name;      ///< "GPU0", "mlx5_0"; for NIC0 what the legend calls it
  bool gpu = false;      ///< else a NIC
  int number = 0;        ///< among its kind, by columns
  int line = 0;          ///< of its row
  std::string affinity;  ///< its NUMA node, or else its CPUs; empty where the print does not say
  std::vector<MatrixCell> cells;
};

/// The matrix that `nvidia-smi topo -m` prints: symmetric, a row for each column, one GPU or more.
struct TopologyMatrix {
  std::shared_ptr<const std::string> file;
  std::vector<MatrixDevice> devices;

  /// Throws UserError at the cell of row `a` and column `b`.
  [[noreturn]] void refuse(std::size_t a, std::size_t b, const std::string& what) const;
};

/// Takes tabs or spaces, underlined headers, prints of any age, and text around the matrix. Throws UserError
/// "file:line:column: …".
TopologyMatrix read_topology_matrix(std::string_view text, const std::string& file);

}  // namespace trainyard
