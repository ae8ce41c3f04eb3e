#pragma once
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"

namespace trainyard {

/// A frame from one host to another through a switch or hub with one port for each host.
struct SwitchedFrame {
  int from = 0, to = 0;
  bool flooded = false;           ///< copies leave by all ports but the one by which the frame came in
  std::vector<int> copies_to;     ///< hosts that get a copy
  std::vector<bool> known_ports;  ///< hosts whose address the table has after the frame
};

struct SwitchLesson {
  int hosts = 4;
  bool hub = false;
  std::vector<SwitchedFrame> frames;

  int flooded_frames() const;  ///< number of frames that were flooded
  int copies() const;          ///< number of copies of all frames
};

/// Passes frames through a learning switch (IEEE 802.1D): it enters the sender's address and port into its table, and
/// floods a frame to an address that the table does not have. Entries never age. A hub has no table and floods all.
/// `frames`: pairs of sender and receiver.
SwitchLesson teach_switch(int hosts, bool hub, const std::vector<std::pair<int, int>>& frames);

LessonView lesson_view(const SwitchLesson&);

}  // namespace trainyard
