#include "ops/decoding/accept_tokens.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>

#include "kernels_decoding.gen.h"
#include "ops/tensor/arrivals.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/plan_text.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

void check_rows(const char* op, const char* name, const at::Tensor& t, int64_t batch, bool only_long) {
  TORCH_CHECK(t.dim() == 1 && t.size(0) == batch && t.is_contiguous(), op, ": expected ", name, " of shape [", batch,
              "], dense, but got ", t.sizes());
  TORCH_CHECK(t.scalar_type() == at::kLong || (!only_long && t.scalar_type() == at::kInt), op, ": expected ", name,
              " of dtype Long", only_long ? "" : " or Int", ", but got ", t.scalar_type());
}

// Checks the arguments of both operators; `drawn` is tokens [batch, each] or numbers that they are drawn from. Returns
// the guesses, dense, or `drawn` if there are none.
at::Tensor checked_guesses(const char* op, const at::Tensor& drawn, const std::optional<at::Tensor>& guesses,
                           const at::Tensor& active, const at::Tensor& accepted, const at::Tensor& tokens,
                           const at::Tensor& lengths) {
  const int64_t batch = drawn.size(0), each = drawn.size(1);
  TORCH_CHECK(each == 1 || (guesses && guesses->defined()), op, ": expected guesses for ", each, " tokens");
  at::Tensor guessed = drawn;
  if (each > 1) {
    TORCH_CHECK(guesses->sizes() == at::IntArrayRef({batch, each - 1}) && guesses->scalar_type() == at::kLong, op,
                ": expected guesses of shape [", batch, ", ", each - 1, "] and dtype Long, but got ", guesses->sizes(),
                " of ", guesses->scalar_type());
    guessed = guesses->contiguous();
  }
  check_rows(op, "active", active, batch, false);
  check_rows(op, "tokens", tokens, batch, true);
  check_rows(op, "lengths", lengths, batch, false);
  TORCH_CHECK(accepted.dim() == 2 && accepted.size(0) == batch && accepted.size(1) > each && accepted.stride(1) == 1 &&
                  accepted.scalar_type() == at::kLong,
              op, ": expected accepted of shape [", batch, ", ", each + 1, " or more], dense in its rows, of dtype ",
              "Long, but got ", accepted.sizes(), " of ", accepted.scalar_type());
  check_same_device(op, {&drawn, &guessed, &active, &accepted, &tokens, &lengths});
  at::assert_no_internal_overlap(accepted);
  for (const at::Tensor* written : {&accepted, &tokens, &lengths})
    for (const at::Tensor& read : {drawn, guessed, active}) at::assert_no_overlap(*written, read);
  return guessed;
}

// Sets the rows in the params of both kernels.
void set_rows(auto& p, TensorArgs& args, const at::Tensor& active, const at::Tensor& accepted, const at::Tensor& tokens,
              const at::Tensor& lengths) {
  p.active_ = args.read(active);
  p.accepted = args.write(accepted);
  p.tokens = args.write(tokens);
  p.lengths = args.read_write(lengths);
  p.batch = static_cast<uint32_t>(accepted.size(0));
  p.accepted_row = static_cast<uint32_t>(accepted.stride(0));
}

}  // namespace

void accept_tokens(const at::Tensor& drawn, const std::optional<at::Tensor>& guesses, const at::Tensor& active,
                   const at::Tensor& accepted, const at::Tensor& tokens, const at::Tensor& lengths) {
  constexpr const char* kOp = "accept_tokens";
  TORCH_CHECK(drawn.dim() == 2 && drawn.size(1) >= 1 && drawn.scalar_type() == at::kLong, kOp,
              ": expected drawn of shape [batch, tokens] and dtype Long, but got ", drawn.sizes(), " of ",
              drawn.scalar_type());
  const at::Tensor guessed = checked_guesses(kOp, drawn, guesses, active, accepted, tokens, lengths);
  if (drawn.size(0) == 0) return;
  const at::Tensor values = drawn.contiguous();
  TensorArgs args;
  AcceptTokensParams p{};
  p.drawn = args.read(values);
  p.guesses = args.read(guessed);
  set_rows(p, args, active, accepted, tokens, lengths);
  p.each = static_cast<uint32_t>(drawn.size(1));
  launch(current(drawn), kernel::accept_tokens(),
         {.active_dtype = dtype_of(active, kOp), .length_dtype = dtype_of(lengths, kOp)}, p, args,
         linear_grid((static_cast<uint64_t>(drawn.size(0)) + 31) / 32));
}

LikeliestPlan likeliest_plan(const DeviceProfile& profile, uint64_t rows, uint64_t n) {
  LikeliestPlan plan;
  // A GPU's invocation has one load, or two of float32: more would wait for memory one after the other.
  plan.local = profile.is_software() ? 32 : std::min(256u, std::bit_floor(profile.max_workgroup_invocations));
  const uint64_t once = uint64_t{plan.local} * 8, most_splits = uint64_t{plan.local} * 4;
  const uint64_t loads = std::max(profile.is_software() ? uint64_t{16} : uint64_t{1}, ceil_div(n, once * most_splits));
  plan.chunk = static_cast<uint32_t>(once * loads);
  plan.splits = static_cast<uint32_t>(ceil_div(n, uint64_t{plan.chunk}));
  plan.grid = linear_grid(rows * plan.splits);
  return plan;
}

std::string text_of(const LikeliestPlan& plan) {
  return "local " + std::to_string(plan.local) + " chunk " + std::to_string(plan.chunk) + " splits " +
         std::to_string(plan.splits) + " " + grid_text(plan.grid);
}

void accept_likeliest(const at::Tensor& logits, const std::optional<at::Tensor>& guesses, const at::Tensor& active,
                      const at::Tensor& accepted, const at::Tensor& tokens, const at::Tensor& lengths) {
  constexpr const char* kOp = "accept_likeliest";
  TORCH_CHECK(logits.dim() == 3 && logits.size(1) >= 1 && logits.size(2) >= 1 && logits.is_floating_point(), kOp,
              ": expected logits of shape [batch, tokens, vocabulary] and a floating point dtype, but got ",
              logits.sizes(), " of ", logits.scalar_type());
  const at::Tensor guessed = checked_guesses(kOp, logits, guesses, active, accepted, tokens, lengths);
  const int64_t batch = logits.size(0), each = logits.size(1), n = logits.size(2);
  if (batch == 0) return;
  const at::Tensor rows = logits.reshape({batch * each, n});
  const LikeliestPlan plan =
      likeliest_plan(profile_of(logits), static_cast<uint64_t>(batch * each), static_cast<uint64_t>(n));
  const auto type = logits.scalar_type();
  const bool served = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  // The longest loop has an iteration for each element that an invocation loads by itself.
  if (!served || n > 0x7fffffff || batch * each * plan.splits > 0x7fffffff ||
      !may_walk(profile_of(logits), std::max<uint64_t>(plan.chunk / plan.local, static_cast<uint64_t>(each) * 4))) {
    accept_tokens(rows.argmax(-1).view({batch, each}), guesses, active, accepted, tokens, lengths);
    return;
  }
  const at::Tensor dense = rows.stride(1) == 1 || n == 1 ? rows : rows.contiguous();
  const int64_t row_bytes = dense.stride(0) * dense.element_size();
  const at::Tensor parts = at::empty({batch * each, plan.splits, 2}, logits.options().dtype(at::kInt)),
                   counters = arrival_counters(logits, batch);
  TensorArgs args;
  AcceptLikeliestParams p{};
  p.logits = args.read(dense);
  p.guesses = args.read(guessed);
  set_rows(p, args, active, accepted, tokens, lengths);
  p.parts = args.write(parts);
  p.counters = args.read_write(counters);
  p.row_bytes = static_cast<uint64_t>(row_bytes);
  p.each = static_cast<uint32_t>(each);
  p.n = static_cast<uint32_t>(n);
  p.chunk = plan.chunk;
  p.splits = plan.splits;
  launch(current(logits), kernel::accept_likeliest(),
         {.local = plan.local,
          .dtype = dtype_of(logits, kOp),
          .wide = address_of(dense) % 16 == 0 && row_bytes % 16 == 0,
          .active_dtype = dtype_of(active, kOp),
          .length_dtype = dtype_of(lengths, kOp)},
         p, args, plan.grid);
}

}  // namespace aule::ops
