#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/observers/memory_use.hpp"

namespace trainyard {

class StepRun;
struct Scenario;

/// The data of a picture of one rank's training step.
struct StepPicture {
  /// A category of work that has one colour. `seconds` is its part of the step; the parts of all tones sum to the step
  /// time.
  struct Tone {
    std::string name;
    std::string fill;
    std::string shade;  ///< fill of every second message group, so that neighbours differ
    double seconds = 0;
    double beside = 0;     ///< s that overlap with tones of higher precedence; `seconds` does not include them
    bool dark = false;     ///< text on this fill is white
    bool exposed = false;  ///< communication that no work overlaps
    double on_host = 0;    ///< s in which the host prepares the rank's samples; `seconds` does not include them
  };
  struct Bar {
    double begin = 0, end = 0;  // s
    std::size_t tone = 0;
    std::uint32_t run = 0;  ///< bars of one run may be joined if pixels are scarce
    NameId name = 0;        ///< name of the operation
  };
  /// One bar, or several bars that are too short to be visible alone.
  struct Piece {
    double begin = 0, end = 0, busy = 0;  // s; `busy`: sum of the bars
    std::size_t tone = 0;                 ///< `tone`, `run` and `name` are those of the longest bar
    std::uint32_t run = 0;
    NameId name = 0;
    int bars = 1;
    double longest = 0;  // s; length of the longest bar
  };
  struct Lane {
    std::string name;
    std::vector<Bar> bars;     ///< sorted by time, without overlaps
    bool in_progress = false;  ///< gaps within a run belong to the run and are tinted
  };

  std::string title, subtitle, description;
  double end = 0;  // s; end of the step
  std::vector<Tone> tones;
  std::vector<Lane> lanes;
  std::map<std::uint32_t, std::string> runs;  ///< names of some runs
  std::vector<MemoryUse::Sample> memory;
  double capacity = 0, peak = 0;  // bytes
};

/// The pictured time: the middle one of the averaged steps, or all steps of the run.
enum class PicturePart { one_step, whole_run };
/// Prepares the picture of `rank`. While its work waits for communication, its compute lane has bars of the tone
/// "exposed …". Their sum is the exposed time of the breakdown. With an input pipeline, lanes of the host that loads the
/// rank's samples lie above. Every operation must have been recorded.
StepPicture step_picture(const StepRun&, Actor rank, PicturePart);

/// Joins bars that are shorter than a cell and begin in the same cell. `cell`: s.
std::vector<StepPicture::Piece> joined_bars(const std::vector<StepPicture::Bar>&, double cell);
/// Divides the time into equal cells and keeps the highest and the last sample of each.
std::vector<MemoryUse::Sample> thinned_memory(const std::vector<MemoryUse::Sample>&, double end, double cells);

/// Draws as SVG: parts of the step, lanes over time, memory, and the last tenth of the step at ten times the scale.
std::string draw(const StepPicture&);

/// Returns the simulated ranks over time, for an HTML page that zooms. The run must have recorded every operation and
/// `memory` over time. If there are many ranks, it takes those that end last, use most memory, or begin a pipeline
/// stage. Bars too short to be visible are joined until about 100,000 are left.
nlohmann::ordered_json step_timeline(const StepRun&, const MemoryUse& memory);

/// Returns a function that draws one rank's step of a run into a file (see SimulateOptions::watch). Default of `rank`:
/// the rank that ends last. Throws UserError if there is no such rank.
std::function<void(const StepRun&)> picture_of(const Scenario&, const std::filesystem::path&, std::optional<int> rank);

}  // namespace trainyard
