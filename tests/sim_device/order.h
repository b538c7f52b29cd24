#pragma once

/// Order between streams and the host.

#include "state.h"

namespace finetune::sim {

void join(Clock& into, const Clock& from);

/// Notes a report; throws it where `throw_on_violation` is on.
void violate(const std::string& text, bool may_throw = true);

/// Notes an access by work just enqueued on `queue` and reports it unless all conflicting ones are known to
/// be over.
void note_access(Block& block, size_t begin, size_t end, bool write, int queue, const char* op);

uint64_t checksum(const at::Tensor& tensor);

/// Completes every copy that `known` says is over; of those into `only`, where it is given.
void land_copies(const Clock& known, const Block* only = nullptr);

/// Throws where a strict section of at least this level is on.
void check_strict(int level, const char* what);

/// The host waits for what `clock` knows.
void host_waits_for(const Clock& clock);
/// It does so because it reads a value or a size: counted, and forbidden in strict sections.
void host_reads(const char* op, int device);
/// It does so by a synchronisation.
void host_syncs(const Clock& clock, const char* what);

}  // namespace finetune::sim
