"""A loop longer than the driver allows, which the planner is not told: an error, or the right result."""

import torch

import torch_aule  # noqa: F401

x = torch.rand(1, 1 << 23)  # with subgroups of 16 lanes that read four numbers at a time, 131072 iterations
ours = x.to("aule")


def norm():
    return torch.nn.functional.layer_norm(ours, ours.shape[-1:]).cpu()


if torch.aule.get_device_properties().driver_loop_limit == 0:
    torch.testing.assert_close(norm(), torch.nn.functional.layer_norm(x, x.shape[-1:]), rtol=1e-3, atol=1e-3)
else:
    for _ in range(2):
        try:
            norm()
            raise SystemExit("not noticed")
        except RuntimeError as error:
            print(error)
            assert "norm" in str(error) and "results are incomplete" in str(error) and "Mesa 26" in str(error)
    torch.aule.synchronize()  # reported once for each
    small = torch.rand(3, 1000)
    torch.testing.assert_close(torch.softmax(small.to("aule"), 1).cpu(), torch.softmax(small, 1))
