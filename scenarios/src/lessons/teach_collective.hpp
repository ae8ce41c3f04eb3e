#pragma once
#include <string>
#include <vector>

#include "models/software/stack.hpp"
#include "scenarios/src/lessons/lesson_view.hpp"
#include "scenarios/src/lessons/slot_symbols.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// One message of a collective. Times in s.
struct LessonTransfer {
  int from = 0, to = 0;  ///< of CollectiveLesson::members
  std::string slots;     ///< "slot a", "slots a–d"; "" without data
  std::string content;   ///< what those held when it was sent: "a0+a3"
  int first_slot = -1;   ///< at the receiver; −1: none of the data buffer
  int slot_count = 0;
  bool adds = false;  ///< the receiver combines it with what it has
  double begin = 0, end = 0, bytes = 0;
  std::string link, link_kind;  ///< that set its rate; "": none
};

/// Messages that arrive at one time, and what all buffers hold then. Times in s.
struct LessonStep {
  double begin = 0, end = 0;  ///< of the first message's way and of all
  std::vector<LessonTransfer> transfers;
  bool reduces_after = false;                     ///< a rank combines what it has received, afterwards
  std::vector<std::string> limiting;              ///< links ("A -> B (kind)") of those that took longest, each once
  std::vector<std::vector<SlotContent>> buffers;  ///< by member
  std::vector<double> sent;                       ///< bytes by member, from the beginning
};

/// A rank, or a switch that takes part.
struct LessonMember {
  std::string name;
  bool holds_data = true;  ///< at any time
};

/// A collective step by step, as it was simulated.
struct CollectiveLesson {
  std::string operation, algorithm, reduction;  ///< reduction "": nothing is combined
  int ranks = 0, root = -1;                     ///< root −1: none
  int labels_from = 0;                          ///< number of the first rank in words, tables and pictures
  double size = 0;                              ///< bytes
  bool decimal = false;                         ///< sizes are told in powers of 1000, as that one was typed
  std::string machine;
  std::vector<LessonMember> members;  ///< the ranks, then others
  std::vector<std::string> slots;     ///< their names
  std::vector<std::vector<SlotContent>> initial;
  std::vector<LessonStep> steps;
  double time = 0;                     ///< s
  std::vector<double> sent, received;  ///< bytes by rank
  double total = 0;                    ///< bytes of all messages
  double least_rank = 0;   ///< bytes that some rank must send or receive at least, if ranks alone move and add
  double least_total = 0;  ///< bytes of all messages, at least
  bool kept = false;       ///< the promise of the operation
  std::vector<std::string> hazards;
};

struct TeachOptions {
  Operation operation = Operation::all_reduce;
  std::string algorithm;
  int ranks = 4;
  int labels_from = 0;
  CollectiveOptions options;
  SoftwareStack software;
  std::string machine;  ///< in words
  Place place;          ///< of the algorithm, for errors
};

/// Most slots that a lesson shows.
constexpr int kMostLessonSlots = 512;

/// Simulates it. Throws UserError where the algorithm or the machine cannot.
CollectiveLesson teach_collective(const ClusterSpec&, const TeachOptions&);

LessonView lesson_view(const CollectiveLesson&);

}  // namespace trainyard
