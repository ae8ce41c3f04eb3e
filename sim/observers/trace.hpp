#pragma once
#include <functional>
#include <string>
#include <vector>

#include "sim/names.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/timeline.hpp"

namespace trainyard {

/// The run in the Trace Event format of Chrome and Perfetto: times in microseconds, one process per actor, one thread
/// per stream, messages with bytes, peer and algorithm, memory as a counter. `streams` names the streams. `shown`
/// selects actors; if it is empty, all are written.
std::string chrome_trace(const Timeline&, const MemoryUse&, const Machine&, const Names&,
                         const std::vector<std::string>& streams, const std::function<bool(Actor)>& shown = {});

/// An interval of a row of a trace that is no actor, such as a pool of GPUs.
struct TraceSpan {
  std::string row, name;
  Seconds begin, end;
};
/// Returns a trace of `chrome_trace` with further processes, one for each row.
std::string with_spans(std::string trace, const std::vector<TraceSpan>&);

}  // namespace trainyard
