#pragma once
#include <cstdint>

#include "models/reading/document.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// The frames that an adapter sends again after a loss.
enum class LossRecovery : std::uint8_t {
  go_back_n,         ///< the lost frame and all that followed it, as RoCE adapters do (Mittal et al. 2018)
  selective_repeat,  ///< the lost frame alone, as TCP does
};

/// Frames that the network loses, and how the adapters recover from it.
struct FrameLoss {
  double share = 0;  ///< share of all frames
  LossRecovery recovery = LossRecovery::go_back_n;
  Bytes frame{1024};        ///< bytes of data in a frame
  int tcp_connections = 0;  ///< TCP connections over which an adapter spreads its data; 0: not TCP
};

/// Returns the rate at which data arrive over a network that sends at `rate` and loses frames. `round_trip` is the time
/// from a frame to its acknowledgement. The result is `rate` if no frame is lost, and less the more frames are lost.
/// Go-back-N sends again the W frames that are under way when it learns of a loss: rate·(1-p)/(1-p+p·W) with
/// W = 1 + rate·round_trip/frame (Stallings, Data and Computer Communications, section 7.A; that RoCE adapters do so:
/// Mittal et al. 2018, Revisiting Network Support for RDMA, section 2). Selective repeat: rate·(1-p). TCP also halves
/// its window at a loss: at most frame/round_trip·sqrt(3/2/p) for each connection (Mathis et al. 1997, The Macroscopic
/// Behavior of the TCP Congestion Avoidance Algorithm).
BytesPerSecond delivered_rate(BytesPerSecond rate, const FrameLoss&, Seconds round_trip);

/// Reads `flow_control`, `loss`, `recovery`, `frame` and `connections` of an adapter of this transport, whose network is
/// a catalog entry of nccl-networks ("": that of InfiniBand or TCP). Throws UserError with the place if they contradict
/// each other.
FrameLoss read_frame_loss(Fields&, bool tcp, const std::string& network);

}  // namespace trainyard
