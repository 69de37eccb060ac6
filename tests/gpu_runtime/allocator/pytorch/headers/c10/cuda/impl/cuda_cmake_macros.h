// PyTorch's builds without CUDA have all of its headers for CUDA but this one, which a build makes.
#pragma once
#define C10_CUDA_BUILD_SHARED_LIBS
