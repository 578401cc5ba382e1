// The end of a decoding step: the tokens that each sequence keeps.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace aule::ops {

// drawn [batch, each] int64, guesses [batch, each - 1] int64 (none: each is 1), active [batch] int32 or int64. Of each
// sequence the right guesses are kept and the token behind them, or nothing if it is not active. In place: accepted
// [batch, at least each + 1] int64 is the number of these and then all that was drawn, tokens [batch] int64 the last
// one kept (the first drawn if none is), lengths [batch] int32 or int64 grows by the number.
void accept_tokens(const at::Tensor& drawn, const std::optional<at::Tensor>& guesses, const at::Tensor& active,
                   const at::Tensor& accepted, const at::Tensor& tokens, const at::Tensor& lengths);

}  // namespace aule::ops
