#include "ops/decoding/accept_tokens.h"

#include <ATen/MemoryOverlap.h>

#include "kernels_decoding.gen.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr const char* kAccept = "accept_tokens";

void check_rows(const char* name, const at::Tensor& t, int64_t batch, bool only_long) {
  TORCH_CHECK(t.dim() == 1 && t.size(0) == batch && t.is_contiguous(), kAccept, ": expected ", name, " of shape [",
              batch, "], dense, but got ", t.sizes());
  TORCH_CHECK(t.scalar_type() == at::kLong || (!only_long && t.scalar_type() == at::kInt), kAccept, ": expected ", name,
              " of dtype Long", only_long ? "" : " or Int", ", but got ", t.scalar_type());
}

}  // namespace

void accept_tokens(const at::Tensor& drawn, const std::optional<at::Tensor>& guesses, const at::Tensor& active,
                   const at::Tensor& accepted, const at::Tensor& tokens, const at::Tensor& lengths) {
  TORCH_CHECK(drawn.dim() == 2 && drawn.size(1) >= 1 && drawn.scalar_type() == at::kLong, kAccept,
              ": expected drawn of shape [batch, tokens] and dtype Long, but got ", drawn.sizes(), " of ",
              drawn.scalar_type());
  const int64_t batch = drawn.size(0), each = drawn.size(1);
  TORCH_CHECK(each == 1 || (guesses && guesses->defined()), kAccept, ": expected guesses for ", each, " tokens");
  at::Tensor guessed = drawn;
  if (each > 1) {
    TORCH_CHECK(guesses->sizes() == at::IntArrayRef({batch, each - 1}) && guesses->scalar_type() == at::kLong, kAccept,
                ": expected guesses of shape [", batch, ", ", each - 1, "] and dtype Long, but got ", guesses->sizes(),
                " of ", guesses->scalar_type());
    guessed = guesses->contiguous();
  }
  check_rows("active", active, batch, false);
  check_rows("tokens", tokens, batch, true);
  check_rows("lengths", lengths, batch, false);
  TORCH_CHECK(accepted.dim() == 2 && accepted.size(0) == batch && accepted.size(1) > each && accepted.stride(1) == 1 &&
                  accepted.scalar_type() == at::kLong,
              kAccept, ": expected accepted of shape [", batch, ", ", each + 1,
              " or more], dense in its rows, of dtype ", "Long, but got ", accepted.sizes(), " of ",
              accepted.scalar_type());
  check_same_device(kAccept, {&drawn, &guessed, &active, &accepted, &tokens, &lengths});
  at::assert_no_internal_overlap(accepted);
  for (const at::Tensor* written : {&accepted, &tokens, &lengths})
    for (const at::Tensor& read : {drawn, guessed, active}) at::assert_no_overlap(*written, read);
  if (batch == 0) return;
  const at::Tensor values = drawn.contiguous();
  TensorArgs args;
  AcceptTokensParams p{};
  p.drawn = args.read(values);
  p.guesses = args.read(guessed);
  p.active_ = args.read(active);
  p.accepted = args.write(accepted);
  p.tokens = args.write(tokens);
  p.lengths = args.read_write(lengths);
  p.batch = static_cast<uint32_t>(batch);
  p.each = static_cast<uint32_t>(each);
  p.accepted_row = static_cast<uint32_t>(accepted.stride(0));
  launch(current(drawn), kernel::accept_tokens(),
         {.active_dtype = dtype_of(active, kAccept), .length_dtype = dtype_of(lengths, kAccept)}, p, args,
         linear_grid((static_cast<uint64_t>(batch) + 31) / 32));
}

}  // namespace aule::ops
