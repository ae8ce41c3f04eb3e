#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/traces/chakra.hpp"

namespace trainyard {

/// A process group as one rank's trace describes it.
struct RecordedGroup {
  std::string name;          ///< name of the process group; "": the trace does not have it
  int size = 0;              ///< number of ranks; 0: unknown
  std::vector<int> members;  ///< global ranks; empty: the trace does not list them
  bool has_messages = false;
  bool operator==(const RecordedGroup&) const = default;
};

/// The description of an exchange that PyTorch gives to its kernel, or to the operator that starts the kernel.
struct RecordedExchange {
  std::string operation, type;  ///< "allreduce", "BFloat16"; "": the trace does not have it
  double in = 0, out = 0;       ///< numbers of elements; 0: unknown
  double peer = -1;             ///< global rank of the peer of a send or recv; -1: unknown
  RecordedGroup group;
  double first = -1, stride = 0;  ///< ranks of the group, if they have equal distances; 0: unknown
};

/// A kernel, copy or fill that the GPU ran. Times are in us.
struct GpuWork {
  std::string name;
  double begin = 0, end = 0;
  double device = 0, stream = 0, correlation = 0, external = 0;
  bool is_copy = false;
  std::optional<RecordedExchange> exchange;  ///< for kernels of NCCL and RCCL
  std::optional<std::uint32_t> call;         ///< number of the host's call that launched it; no value: unknown
  double called = 0, launched = 0;           ///< begin and end of that call, not later than the begin of the work
  bool has_waited = false;                   ///< that call is long, and ends while the GPU works
};

/// A launch that takes longer than this (us; unverified) waits for the GPU if the GPU works until shortly before its end,
/// because its queue is full or because it copies from memory that is not pinned. Other launches take 3 to 20 us.
constexpr double kLongestLaunch = 100;

/// A call of the CUDA or HIP runtime by a thread of the host. Times are in us.
struct HostCall {
  /// `launch` and `copy` start one kernel, or one copy or fill.
  enum class Kind : std::uint8_t { other, launch, copy, wait, sync };
  double begin = 0, end = 0, thread = 0, correlation = 0, external = 0;
  Kind kind = Kind::other;
};

/// A stream waits for an event of another one, as CUPTI records it. Correlations name calls of the host.
struct EventWait {
  double stream = 0, source = 0, waits = 0, records = 0;
};

/// The events of one rank that PyTorch's profiler recorded.
struct KinetoEvents {
  /// A range ProfilerStep#NUMBER. `works`: number of kernels and copies that the host launches in it. Times are in us.
  struct Step {
    int number = 0;
    double begin = 0, end = 0;
    std::size_t works = 0;
  };
  using Lane = std::vector<std::uint32_t>;

  std::string file;
  std::optional<int> rank;
  int world_size = 0;                              ///< number of ranks; 0: unknown
  std::map<std::string, std::vector<int>> groups;  ///< distributedInfo.pg_config: ranks by name
  std::vector<GpuWork> works;                      ///< works of one device, the one with most of them, by begin
  std::map<double, Lane> lanes;                    ///< works of each stream
  std::vector<HostCall> calls;                     ///< in the order of their begin
  std::map<double, Lane> calls_of_correlations;    ///< calls by their correlation
  std::vector<EventWait> event_waits;
  std::map<double, double> synced_streams;  ///< the stream for which a call waits, by the call's correlation
  std::map<int, Step> steps;
  std::size_t repetitions = 0;       ///< number of works that the trace repeats
  std::vector<std::string> repairs;  ///< sentences about events that are repaired or left out

  /// Returns the last call with this correlation that began by then, or else the first. Null: there is none.
  const HostCall* call(double correlation, double begun_by) const;
  /// Returns the last work of a stream that was launched and had ended by these times. No value: there is none.
  std::optional<std::uint32_t> last_work(const Lane&, double called_before, double ended_by) const;
};

/// Joins the sorted works with the sorted calls that launched them, by their correlations. If correlations are missing
/// or used again, external ids and the order of launches join them. Shifts the times of the works if some begin before
/// their launch. Appends to `repairs`.
void join_launches(KinetoEvents&);

/// Reads a trace, .json or .json.gz. Throws UserError if it is malformed, if it has no kernel, and if too many kernels
/// have no valid time.
KinetoEvents read_kineto_events(const std::filesystem::path&);

/// A step of one rank. Nodes depend only on nodes before them.
struct RecordedStep {
  std::vector<ChakraNode> nodes;
  std::vector<int> groups_of_nodes;   ///< for each node its index in `groups`; -1: it is no exchange
  std::vector<RecordedGroup> groups;  ///< in the order of their first use
  double time = 0;                    ///< s from the begin of the first work of the GPU to the end of the last
  std::vector<std::string> notes;     ///< faults of the trace, and how dependencies between streams were found
};

/// Makes nodes of the works that belong to the step, or of all works if it is null. Kernels and copies take their
/// recorded time. Exchanges become collectives and messages. No work begins before the host has launched it, and the
/// host takes its recorded time between launches and waits. What the host did before the first work of a marked step, it
/// does at its end for the next one. Throws UserError if the step has no works, or if an exchange
/// lacks its operation, its size or its peer. `keeps_undescribed`: exchanges without operation or size are kernels that
/// take their recorded time.
RecordedStep record_step(const KinetoEvents&, const KinetoEvents::Step*, bool keeps_undescribed = false);

}  // namespace trainyard
