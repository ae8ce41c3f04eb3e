// JSON fields of what hosts do (the calls of a step, the input pipeline), and of how busy expert ranks are.
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"

namespace trainyard {

JsonFields<Result::HostCalls> host_call_fields() {
  using H = Result::HostCalls;
  return JsonFields<H>()
      .value("all", "", &H::all,
             "calls of the host: kernels, exchanges and copies; a CUDA graph makes one call of the kernels between two "
             "exchanges; a compiled program (TPU) makes one call of all but the exchanges through hosts and the copies")
      .value("kernels", "", &H::kernels, "kernels of a step")
      .value("exchanges", "", &H::exchanges, "collectives, and messages to and from other pipeline stages")
      .value("copies", "", &H::copies, "batches of samples, and copies of offload to and from host memory")
      .value("compiled", "", &H::compiled,
             "whether one call starts a program with all kernels and all exchanges over links between chips (TPU)")
      .value("rank", "", &H::rank, "rank whose calls these are: the rank of the breakdown");
}

JsonFields<Result::ExpertLoad> expert_load_fields() {
  using L = Result::ExpertLoad;
  return JsonFields<L>()
      .value("busiest", "", &L::most, "rows of the busiest expert rank, over the mean of rows that the router chose")
      .value("least_busy", "", &L::least,
             "rows of the least busy expert rank, over the mean of rows that the router chose")
      .value("longest_wait_s", "s", &L::longest_wait,
             "time of a rank in exposed all-to-alls of a step beyond that of the rank of its group that waits least; "
             "the longest")
      .value("mean_wait_s", "s", &L::mean_wait, "mean of that time over all ranks");
}

JsonFields<Result::Input> input_fields() {
  using I = Result::Input;
  return JsonFields<I>()
      .value("starved_share", "share", &I::starved_share, "share of the step that is lost to waiting for samples")
      .object(
          "input",
          JsonFields<I>()
              .value("storage_busy_share", "share", &I::storage_busy,
                     "share of the step in which the busiest storage link works")
              .value("decode_busy_share", "share", &I::decode_busy,
                     "share of the step in which the busiest decoder works")
              .value("read_bytes", "bytes", &I::read, "bytes read from the storage in a step")
              .value("from_cache_share", "share", &I::from_cache, "share of the samples that hosts have cached")
              .value("host_bytes", "bytes", &I::host_bytes, "batches and cache in the host memory of the fullest node")
              .value("largest_shard", "samples", &I::largest_shard,
                     "largest number of samples of a replica in an epoch")
              .value("smallest_shard", "samples", &I::smallest_shard,
                     "smallest number of samples of a replica in an epoch, at most one less")
              .value("largest_shards", "", &I::largest_shards, "number of replicas with the largest number of samples"),
          "figures of the input pipeline");
}

}  // namespace trainyard
