// Events of PyTorch's profiler. Names of events and arguments: pytorch/kineto, libkineto/src (output_json.cpp), and
// pytorch, torch/csrc/profiler/util.cpp (saveNcclMeta).
#include "scenarios/src/traces/kineto_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "models/reading/document.hpp"
#include "scenarios/src/traces/kineto.hpp"
#include "sim/json_text.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestName = 60;

bool is_runtime_call(const std::string& category) {
  return category == "cuda_runtime" || category == "cuda_driver" || category == "hip_runtime" || category == "Runtime";
}

HostCall::Kind kind_of_call(const std::string& name) {
  const auto has = [&name](const char* word) { return name.find(word) != std::string::npos; };
  if (has("StreamWaitEvent")) return HostCall::Kind::wait;
  if (name.ends_with("Synchronize")) return HostCall::Kind::sync;
  if (has("Memcpy") || has("Memset")) return HostCall::Kind::copy;
  // A call that launches a graph starts many kernels.
  return has("Launch") && !has("GraphLaunch") && !has("HostFunc") ? HostCall::Kind::launch : HostCall::Kind::other;
}

std::vector<int> ranks_in_list(const json& list) {
  std::vector<int> ranks;
  if (list.is_array())
    for (const json& rank : list)
      if (rank.is_number_integer()) ranks.push_back(rank.get<int>());
  return ranks;
}

/// Reads a list of ranks that PyTorch writes as text: "[0, 1]". Empty: PyTorch has shortened it ("[0, 1, ..., 63]").
std::vector<int> ranks_in_text(const std::string& text) {
  try {
    return ranks_in_list(parse_json(text));
  } catch (const json::exception&) {
    return {};
  }
}

double external_in(const json& arguments) {
  return number_in(arguments, "External id", number_in(arguments, "external id"));
}

/// Counts the events with one fault.
struct FaultyEvents {
  std::size_t count = 0;
  std::string first;  ///< name of the first one
  void add(const std::string& name) {
    if (count++ == 0) first = name.substr(0, kLongestName);
  }
  std::string text(const char* noun, const char* words) const {
    return fmt::format("{} {} (the first: \"{}\")", counted_noun(count, noun), words, first);
  }
};

/// The share of works that may lack a valid time. If more do, a replay says little about the step (unverified).
constexpr double kMostLostWorks = 0.1;

RecordedExchange exchange_in(const json& arguments) {
  RecordedExchange exchange;
  exchange.operation = text_in(arguments, "Collective name");
  exchange.type = text_in(arguments, "dtype");
  exchange.in = number_in(arguments, "In msg nelems");
  exchange.out = number_in(arguments, "Out msg nelems");
  exchange.peer = number_in(arguments, "Dst Rank", number_in(arguments, "Src Rank", -1));
  exchange.first = number_in(arguments, "Global rank start", -1);
  exchange.stride = number_in(arguments, "Global rank stride");
  exchange.group.name = text_in(arguments, "Process Group Name");
  exchange.group.size = static_cast<int>(number_in(arguments, "Group size"));
  const auto ranks = arguments.find("Process Group Ranks");
  if (ranks != arguments.end())
    exchange.group.members = ranks->is_string() ? ranks_in_text(ranks->get<std::string>()) : ranks_in_list(*ranks);
  return exchange;
}

class EventReader {
 public:
  explicit EventReader(std::string file) { events_.file = std::move(file); }

  void take(const std::string& list, const json& item) {
    if (list == "distributedInfo") take_info(item);
    if ((list.empty() || list == "traceEvents") && text_in(item, "ph") == "X") take_event(item);
  }

  KinetoEvents events() {
    note_faults();
    select_device();
    arrange_works();
    return std::move(events_);
  }

 private:
  KinetoEvents events_;
  std::map<double, RecordedExchange> exchanges_;  // from record_param_comms, by external id
  FaultyEvents as_text_, timeless_calls_, lost_works_, lost_events_;

  void note_faults() {
    const auto all = static_cast<double>(events_.works.size() + lost_works_.count);
    if (static_cast<double>(lost_works_.count) > kMostLostWorks * all)
      throw UserError(fmt::format("{}: {} of {:.0f} in it: too many to replay the rest", events_.file,
                                  lost_works_.text("work", "without a valid ts or dur"), all));
    const auto note = [this](const FaultyEvents& faulty, const char* noun, const char* words) {
      if (faulty.count > 0) events_.repairs.push_back(faulty.text(noun, words));
    };
    note(lost_works_, "work", "without a valid ts or dur: left out");
    note(lost_events_, "call or step", "without a valid ts or dur: left out");
    note(timeless_calls_, "call", "of the host without a valid dur: no time taken");
    note(as_text_, "event", "with ts or dur as text: read as numbers");
  }

  void take_info(const json& info) {
    if (const auto rank = info.find("rank"); rank != info.end() && rank->is_number_integer())
      events_.rank = rank->get<int>();
    events_.world_size = static_cast<int>(number_in(info, "world_size"));
    const auto groups = info.find("pg_config");
    if (groups == info.end() || !groups->is_array()) return;
    for (const json& group : *groups)
      if (group.is_object() && group.contains("ranks"))
        events_.groups[text_in(group, "pg_name")] = ranks_in_list(group["ranks"]);
  }

  void take_event(const json& event) {
    const std::string category = text_in(event, "cat"), name = text_in(event, "name");
    const json& arguments = arguments_of(event);
    const double correlation = number_in(arguments, "correlation");
    const bool is_work = category == "kernel" || category == "Kernel" || is_gpu_copy(category);
    if (is_work || is_runtime_call(category) ||
        (name.starts_with("ProfilerStep#") && category != "gpu_user_annotation")) {
      take_timed(event, name, is_work, is_runtime_call(category));
    } else if (category == "cuda_sync" && name == "Stream Wait Event") {
      events_.event_waits.push_back({number_in(arguments, "stream"), number_in(arguments, "wait_on_stream"),
                                     correlation, number_in(arguments, "wait_on_cuda_event_record_corr_id")});
    } else if (category == "cuda_sync" && name == "Stream Sync") {
      events_.synced_streams[correlation] = number_in(arguments, "stream");
    } else if (name == "record_param_comms" && arguments.contains("Collective name")) {
      exchanges_[number_in(arguments, "External id")] = exchange_in(arguments);
    }
  }

  /// Takes a work, a call or a step. Without a valid time it is left out; a call without a valid duration takes none.
  void take_timed(const json& event, const std::string& name, bool is_work, bool is_call) {
    const std::optional<double> begin = time_in(event, "ts");
    std::optional<double> duration = duration_in(event, events_.file);
    if (duration && *duration < 0) duration.reset();
    const auto is_text = [&event](const char* key) { return event.contains(key) && event[key].is_string(); };
    if (begin && duration && (is_text("ts") || is_text("dur"))) as_text_.add(name);
    if (begin && !duration && is_call) {
      timeless_calls_.add(name);
      duration = 0;
    }
    if (!begin || !duration) return (is_work ? lost_works_ : lost_events_).add(name);
    const double end = *begin + *duration;
    const json& arguments = arguments_of(event);
    if (is_work) {
      take_work(event, name, *begin, end);
    } else if (is_call) {
      events_.calls.push_back({*begin, end, number_in(event, "tid"), number_in(arguments, "correlation"),
                               external_in(arguments), kind_of_call(name)});
    } else {
      const std::string number = name.substr(name.find('#') + 1);
      if (number.empty() || number.size() > 9 || number.find_first_not_of("0123456789") != std::string::npos) return;
      KinetoEvents::Step& step = events_.steps[std::stoi(number)];
      if (*duration >= step.end - step.begin) step = {std::stoi(number), *begin, end, 0};
    }
  }

  void take_work(const json& event, const std::string& name, double begin, double end) {
    const json& arguments = arguments_of(event);
    GpuWork& work = events_.works.emplace_back();
    work.name = name.substr(0, kLongestName);
    work.begin = begin;
    work.end = end;
    work.device = number_in(arguments, "device");
    work.stream = number_in(arguments, "stream", number_in(event, "tid"));
    work.correlation = number_in(arguments, "correlation");
    work.external = external_in(arguments);
    work.is_copy = is_gpu_copy(text_in(event, "cat"));
    const std::string prefix = lower_case(name.substr(0, 4));
    if (!work.is_copy && (prefix == "nccl" || prefix == "rccl")) work.exchange = exchange_in(arguments);
  }

  void select_device() {
    std::map<double, std::size_t> devices;
    for (const GpuWork& work : events_.works) ++devices[work.device];
    if (devices.empty()) throw no_kernel(events_.file);
    const auto most =
        std::ranges::max_element(devices, [](const auto& a, const auto& b) { return a.second < b.second; });
    std::erase_if(events_.works, [&most](const GpuWork& work) { return work.device != most->first; });
  }

  /// Sorts works and calls, leaves repeated works out, and joins each work with its call, step and exchange.
  void arrange_works() {
    std::vector<GpuWork>& works = events_.works;
    const auto key = [](const GpuWork& work) { return std::tie(work.begin, work.end, work.stream, work.name); };
    sort_stably(works, [&key](const GpuWork& a, const GpuWork& b) { return key(a) < key(b); });
    const auto end = std::unique(works.begin(), works.end(),
                                 [&key](const GpuWork& a, const GpuWork& b) { return key(a) == key(b); });
    events_.repetitions = static_cast<std::size_t>(works.end() - end);
    works.erase(end, works.end());
    sort_stably(events_.calls, [](const HostCall& a, const HostCall& b) { return a.begin < b.begin; });
    for (std::uint32_t i = 0; i < events_.calls.size(); ++i)
      events_.calls_of_correlations[events_.calls[i].correlation].push_back(i);
    join_launches(events_);
    for (std::uint32_t i = 0; i < works.size(); ++i) {
      GpuWork& work = works[i];
      events_.lanes[work.stream].push_back(i);
      for (auto& [number, step] : events_.steps)
        if (work.called >= step.begin && work.called < step.end) ++step.works;
      const auto described = exchanges_.find(work.external);
      if (work.exchange && work.exchange->operation.empty() && described != exchanges_.end())
        work.exchange = described->second;
    }
  }
};

}  // namespace

const HostCall* KinetoEvents::call(double correlation, double begun_by) const {
  const auto found = calls_of_correlations.find(correlation);
  if (correlation <= 0 || found == calls_of_correlations.end()) return nullptr;
  const HostCall* best = &calls[found->second.front()];
  for (const std::uint32_t number : found->second)
    if (calls[number].begin <= begun_by) best = &calls[number];
  return best;
}

std::optional<std::uint32_t> KinetoEvents::last_work(const Lane& lane, double called_before, double ended_by) const {
  auto next = std::upper_bound(lane.begin(), lane.end(), ended_by,
                               [this](double time, std::uint32_t work) { return time < works[work].begin; });
  while (next != lane.begin()) {
    const GpuWork& work = works[*--next];
    if (work.called < called_before && work.end <= ended_by) return *next;
  }
  return std::nullopt;
}

KinetoEvents read_kineto_events(const std::filesystem::path& path) {
  EventReader reader(path.string());
  read_kineto_items(path, [&reader](const std::string& list, const json& item) { reader.take(list, item); });
  return reader.events();
}

}  // namespace trainyard
