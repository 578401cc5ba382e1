#include "stream/batch.h"

#include <algorithm>

namespace aule::stream {

Chunk ChunkPool::take(uint64_t at_least) {
  for (size_t i = 0; i < free_.size(); ++i) {
    if (free_[i].segment->bytes < at_least) continue;
    Chunk chunk = free_[i];
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    outstanding_ += chunk.segment->bytes;
    return chunk;
  }
  Chunk chunk{device_.memory->allocate(vulkan::MemoryKind::host, std::max(at_least, chunk_bytes_)), 0};
  outstanding_ += chunk.segment->bytes;
  return chunk;
}

void ChunkPool::give_back(Chunk chunk) {
  outstanding_ -= chunk.segment->bytes;
  chunk.used = 0;
  free_.push_back(chunk);
}

void Batch::clear() {
  recorded = 0;
  estimated_ns = 0;
  host_reads = false;
  waits.clear();
  dispatched.clear();
  touched.clear();
  params.clear();
  staging.clear();
}

}  // namespace aule::stream
