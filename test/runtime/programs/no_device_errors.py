"""Without a driver what needs the device raises VulkanInitError, which is a RuntimeError with the reason."""

import torch

import torch_aule

reason = torch.aule.unavailable_reason()
calls = (
    lambda: torch.ones(1, device="aule"),
    lambda: torch.ones(1).to("aule"),
    lambda: torch.aule.get_device_name(0),
    torch.aule.synchronize,
)
for call in calls:
    try:
        call()
    except torch_aule.VulkanInitError as error:
        assert isinstance(error, RuntimeError) and reason in str(error), error
        assert not isinstance(error, torch_aule.NoComputeQueueError) and error.code == -2
    else:
        raise AssertionError("no error")
