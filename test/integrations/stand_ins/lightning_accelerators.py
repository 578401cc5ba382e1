"""As lightning.pytorch.accelerators and lightning.fabric.accelerators."""


class Accelerator:
    pass


class Registry(dict):
    def register(self, name, accelerator, description=""):
        self[name] = {"accelerator": accelerator, "description": description}

    def remove(self, name):
        self.pop(name)


AcceleratorRegistry = ACCELERATOR_REGISTRY = Registry(cpu=None)
