// The end of a decoding step: the tokens that each sequence keeps.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "core/access.h"
#include "core/device_profile.h"

namespace aule::ops {

// drawn [batch, each] int64, guesses [batch, each - 1] int64 (none: each is 1), active [batch] int32 or int64. Of each
// sequence the right guesses are kept and the token behind them, or nothing if it is not active. In place: accepted
// [batch, at least each + 1] int64 is the number of these and then all that was drawn, tokens [batch] int64 the last
// one kept (the first drawn if none is), lengths [batch] int32 or int64 grows by the number.
void accept_tokens(const at::Tensor& drawn, const std::optional<at::Tensor>& guesses, const at::Tensor& active,
                   const at::Tensor& accepted, const at::Tensor& tokens, const at::Tensor& lengths);

// accept_likeliest.comp: workgroups of a row of logits.
struct LikeliestPlan {
  uint32_t local = 256, chunk = 2048, splits = 1;
  Grid grid{};
};
// Rows of n logits, n at least 1.
LikeliestPlan likeliest_plan(const DeviceProfile& profile, uint64_t rows, uint64_t n);
std::string text_of(const LikeliestPlan& plan);

// The same where the likeliest tokens are drawn: logits [batch, each, tokens] of a floating point dtype. NaN is the
// largest, of equal ones the first is drawn.
void accept_likeliest(const at::Tensor& logits, const std::optional<at::Tensor>& guesses, const at::Tensor& active,
                      const at::Tensor& accepted, const at::Tensor& tokens, const at::Tensor& lengths);

}  // namespace aule::ops
