// Launches that find eigenvalues and singular values: pure functions of sizes and of what is known of the device.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/device_profile.h"
#include "core/dtype.h"
#include "core/environment.h"

namespace aule {
struct JacobiSweepSpec;
}

namespace aule::ops {

// Launches of eig_hessenberg.comp, eig_sweep.comp and eig_vectors.comp, of a matrix of n rows.
struct EigPlan {
  uint32_t local = 0;
  bool in_shared = false;    // of sweeps
  uint32_t elems = 1;        // of shared memory
  uint64_t reflections = 1;  // of a launch
  uint64_t sweeps = 1;       // of a launch
  uint64_t rows = 1;         // of the triangular matrix's vectors, of a launch
  uint64_t walk = 0;         // the longest loops of an invocation, which a device may end
};
EigPlan eig_plan(const DeviceProfile& profile, DType dtype, uint64_t n);
std::string text_of(const EigPlan& plan);

// Launches of jacobi_sweep.comp.
struct JacobiPlan {
  uint32_t block = 1, blocks = 1;  // columns of a block; one block: all columns are a workgroup's
  uint32_t sweeps_of_launch = 1;
  uint32_t local = 32, lanes = 1;
  bool in_shared = false;
  uint32_t elems = 1;
};
// Random matrices take 8 to 12, spectra of many magnitudes under a shift up to 30 at 256 columns. Those that are not
// needed end at once.
constexpr uint32_t kJacobiSweeps = 36;
JacobiPlan jacobi_plan(const DeviceProfile& profile, DType dtype, uint64_t rows, uint64_t columns);
// "block 8 blocks 4 sweeps 1 local 256 lanes 8 shared 4096": elements of shared memory, or "in memory".
std::string text_of(const JacobiPlan& plan);

JacobiSweepSpec spec_of(const JacobiPlan& plan);

// Eigenvalues of Hermitian matrices by way of tridiagonal ones, for matrices of n rows.
struct TridiagonalPlan {
  // Of tridiagonal_step.comp: a workgroup has some of the rows that are left, `rows` at least.
  uint32_t local = 64, lanes = 8, rows = 8, groups = 1;
  uint32_t elems = 0;  // of shared memory; 0: a column is in memory
  // Of tridiagonal_deflate.comp, and halvings in a launch of tridiagonal_roots.comp.
  uint32_t deflate_local = 64, halvings = 1;
  uint32_t shared_bytes = 0;  // for a column, or the poles of a merge
  uint32_t levels = 0;        // merges of a row
  int64_t leaf = 1;           // rows of a block that is not torn
  int64_t padded() const { return leaf << levels; }
};
// Distances of roots are halved so often.
uint32_t tridiagonal_halvings(DType dtype);
// Nothing where rotations alone are faster.
std::optional<TridiagonalPlan> tridiagonal_plan(const DeviceProfile& profile, DType dtype, int64_t n, int64_t batches,
                                                const Overrides& overrides);
// Workgroups of a matrix with `rows` rows left.
uint32_t tridiagonal_groups(const TridiagonalPlan& plan, int64_t rows);
// The poles of a merge in shared memory; 0: they are in memory.
uint32_t deflate_elems(const TridiagonalPlan& plan, DType real, int64_t size);
std::string text_of(const TridiagonalPlan& plan);

}  // namespace aule::ops
