// Every kernel in one translation unit: one module for the GPU, one object for the host.
