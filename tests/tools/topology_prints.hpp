#pragma once
#include <catch2/catch.hpp>
#include <string>

#include "models/imports/imported_node.hpp"
#include "tests/user_errors.hpp"

namespace trainyard::test {

inline Gpu gpu_called(const std::string& name) {
  const Catalog catalog;
  return read_gpu(catalog.entry("gpu", name, {}));
}

inline std::string entry_of(const std::string& print, const std::string& gpu) {
  return node_entry_of_topology_matrix(print, "topo.txt", gpu_called(gpu), {});
}

inline void refused_print(const std::string& print, const std::string& error,
                          const std::string& gpu = "a100-sxm4-80gb") {
  CHECK(user_error([&] { entry_of(print, gpu); }) == error);
}

// The output of `nvidia-smi topo -m` on real machines, without the legends.

/// A DGX-1 with V100: microsoft/msccl, tests of its topologies (microway.com shows the same).
constexpr const char* kDgx1vPrint =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tmlx5_0\tmlx5_2\tmlx5_1\tmlx5_3\tCPU Affinity\n"
    "GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\tPIX\tSYS\tPHB\tSYS\t0-19,40-59\n"
    "GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\tPIX\tSYS\tPHB\tSYS\t0-19,40-59\n"
    "GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\tPHB\tSYS\tPIX\tSYS\t0-19,40-59\n"
    "GPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\tPHB\tSYS\tPIX\tSYS\t0-19,40-59\n"
    "GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\tSYS\tPIX\tSYS\tPHB\t20-39,60-79\n"
    "GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\tSYS\tPIX\tSYS\tPHB\t20-39,60-79\n"
    "GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\tSYS\tPHB\tSYS\tPIX\t20-39,60-79\n"
    "GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \tSYS\tPHB\tSYS\tPIX\t20-39,60-79\n"
    "mlx5_0\tPIX\tPIX\tPHB\tPHB\tSYS\tSYS\tSYS\tSYS\t X \tSYS\tPHB\tSYS\t\n"
    "mlx5_2\tSYS\tSYS\tSYS\tSYS\tPIX\tPIX\tPHB\tPHB\tSYS\t X \tSYS\tPHB\t\n"
    "mlx5_1\tPHB\tPHB\tPIX\tPIX\tSYS\tSYS\tSYS\tSYS\tPHB\tSYS\t X \tSYS\t\n"
    "mlx5_3\tSYS\tSYS\tSYS\tSYS\tPHB\tPHB\tPIX\tPIX\tSYS\tPHB\tSYS\t X \t\n";

/// A server with the mesh of a DGX-1 and one NIC: Oneflow-Inc/DLPerf, test report V1.0.
constexpr const char* kV100ServerPrint =
    "        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7    mlx5_0  CPU Affinity\n"
    "GPU0     X      NV1     NV1     NV2     NV2     SYS     SYS     SYS     NODE    0-11,24-35\n"
    "GPU1    NV1      X      NV2     NV1     SYS     NV2     SYS     SYS     NODE    0-11,24-35\n"
    "GPU2    NV1     NV2      X      NV2     SYS     SYS     NV1     SYS     PIX     0-11,24-35\n"
    "GPU3    NV2     NV1     NV2      X      SYS     SYS     SYS     NV1     PIX     0-11,24-35\n"
    "GPU4    NV2     SYS     SYS     SYS      X      NV1     NV1     NV2     SYS     12-23,36-47\n"
    "GPU5    SYS     NV2     SYS     SYS     NV1      X      NV2     NV1     SYS     12-23,36-47\n"
    "GPU6    SYS     SYS     NV1     SYS     NV1     NV2      X      NV2     SYS     12-23,36-47\n"
    "GPU7    SYS     SYS     SYS     NV1     NV2     NV1     NV2      X      SYS     12-23,36-47\n"
    "mlx5_0  NODE    NODE    PIX     PIX     SYS     SYS     SYS     SYS      X\n";

/// Two A100 of a server: InternLM/lmdeploy, pull request 1944.
constexpr const char* kTwoA100Print =
    "\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tmlx5_2\tmlx5_3\tmlx5_4\tmlx5_5\tmlx5_6\tmlx5_7\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV12\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\tPXB\tPXB\t48-95,144-191\t1\n"
    "GPU1\tNV12\t X \tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\tPXB\tPXB\t48-95,144-191\t1\n"
    "mlx5_0\tSYS\tSYS\t X \tPIX\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\n"
    "mlx5_1\tSYS\tSYS\tPIX\t X \tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\n"
    "mlx5_2\tSYS\tSYS\tNODE\tNODE\t X \tPIX\tSYS\tSYS\tSYS\tSYS\n"
    "mlx5_3\tSYS\tSYS\tNODE\tNODE\tPIX\t X \tSYS\tSYS\tSYS\tSYS\n"
    "mlx5_4\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t X \tPIX\tNODE\tNODE\n"
    "mlx5_5\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\tPIX\t X \tNODE\tNODE\n"
    "mlx5_6\tPXB\tPXB\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\t X \tPIX\n"
    "mlx5_7\tPXB\tPXB\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\tPIX\t X\n";

/// Eight RTX 4090 on two NUMA nodes, all connected by SYS: NVIDIA/go-gpuallocator, issue 17.
constexpr const char* kApartPrint =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0\t\tN/A\n"
    "GPU1\tSYS\t X \tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0\t\tN/A\n"
    "GPU2\tSYS\tSYS\t X \tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0\t\tN/A\n"
    "GPU3\tSYS\tSYS\tSYS\t X \tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0\t\tN/A\n"
    "GPU4\tSYS\tSYS\tSYS\tSYS\t X \tSYS\tSYS\tSYS\tSYS\tSYS\t56-111,168-223\t1\t\tN/A\n"
    "GPU5\tSYS\tSYS\tSYS\tSYS\tSYS\t X \tSYS\tSYS\tSYS\tSYS\t56-111,168-223\t1\t\tN/A\n"
    "GPU6\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t X \tSYS\tPHB\tPHB\t56-111,168-223\t1\t\tN/A\n"
    "GPU7\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t X \tSYS\tSYS\t56-111,168-223\t1\t\tN/A\n"
    "NIC0\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tPHB\tSYS\t X \tPIX\n"
    "NIC1\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tPHB\tSYS\tPIX\t X\n";

/// A POWER8 server with P100 and an old driver, which prints SOC: a public page of nvidia-smi commands.
constexpr const char* kPowerPrint =
    "        GPU0    GPU1    GPU2    GPU3    mlx5_0  mlx5_1  CPU Affinity\n"
    "GPU0     X      NV2     SOC     SOC     SOC     SOC     0-0,8-8,16-16,24-24,32-32,40-40,48-48,56-56\n"
    "GPU1    NV2      X      SOC     SOC     SOC     SOC     0-0,8-8,16-16,24-24,32-32,40-40,48-48,56-56\n"
    "GPU2    SOC     SOC      X      NV2     SOC     SOC     80-80,88-88,96-96,104-104,112-112,120-120\n"
    "GPU3    SOC     SOC     NV2      X      SOC     SOC     80-80,88-88,96-96,104-104,112-112,120-120\n"
    "mlx5_0  SOC     SOC     SOC     SOC      X      PIX\n"
    "mlx5_1  SOC     SOC     SOC     SOC     PIX      X\n";

constexpr const char* kPrintLegend =
    "\nLegend:\n\n  X    = Self\n"
    "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
    "  PIX  = Connection traversing at most a single PCIe bridge\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n";

}  // namespace trainyard::test
