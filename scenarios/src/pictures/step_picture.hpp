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

/// One rank's training step, ready to be drawn.
struct StepPicture {
  /// What one colour stands for. `seconds` are its part of the step; the parts of all tones sum to the step time.
  struct Tone {
    std::string name;
    std::string fill;
    std::string shade;  ///< every other message group: neighbours stay apart
    double seconds = 0;
    double beside = 0;     ///< time that passes beside tones that count
    bool dark = false;     ///< text on it is white
    bool exposed = false;  ///< communication that no work covers
  };
  struct Bar {
    double begin = 0, end = 0;  // s
    std::size_t tone = 0;
    std::uint32_t run = 0;  ///< bars of one run are one piece where pixels are scarce
    NameId name = 0;        ///< of the operation
  };
  /// One bar, or several that are too short to be seen one by one.
  struct Piece {
    double begin = 0, end = 0, busy = 0;  // s; `busy`: of the bars
    std::size_t tone = 0;                 ///< of the longest, as the others
    std::uint32_t run = 0;
    NameId name = 0;
    int bars = 1;
    double longest = 0;  // s
  };
  struct Lane {
    std::string name;
    std::vector<Bar> bars;     ///< in the order of time, none over another
    bool in_progress = false;  ///< gaps within a run are time too: they are tinted
  };

  std::string title, subtitle, description;
  double end = 0;  // s, of the step
  std::vector<Tone> tones;
  std::vector<Lane> lanes;
  std::map<std::uint32_t, std::string> runs;  ///< names of some
  std::vector<MemoryUse::Sample> memory;
  double capacity = 0, peak = 0;  // bytes
};

/// The step as `rank` saw it. Where its work stood still because of communication, its first lane has bars of the
/// tone "exposed …": as long, in sum, as the breakdown says. Every operation must have been recorded.
StepPicture step_picture(const StepRun&, Actor rank);

/// Bars shorter than a cell (s) that begin in the same cell become one.
std::vector<StepPicture::Piece> joined_bars(const std::vector<StepPicture::Bar>&, double cell);
/// Of so many equal cells of the time the highest sample and the last.
std::vector<MemoryUse::Sample> thinned_memory(const std::vector<MemoryUse::Sample>&, double end, double cells);

/// Drawn as SVG: parts of the step, lanes over time, memory, and the last tenth of the step at ten times the scale.
std::string draw(const StepPicture&);

/// Simulated ranks over time, for a page that zooms: of a run that recorded every operation, whose `memory` was kept over
/// time. Of many ranks those are taken that end last, hold most, or begin a pipeline stage; bars too short to be seen are
/// joined until some 100,000 are left.
nlohmann::ordered_json step_timeline(const StepRun&, const MemoryUse& memory);

/// What draws a run's step of one rank into a file (see SimulateOptions::watch); by default of the one that ends last.
/// Throws UserError for a rank that is not there.
std::function<void(const StepRun&)> picture_of(const Scenario&, const std::filesystem::path&, std::optional<int> rank);

}  // namespace trainyard
