// What a fuzz target provides. Linked with libFuzzer (preset fuzz) or with driver.cc, which
// runs the seeds and random changes of them for a few seconds, also under g++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// Inputs to begin with.
std::vector<std::string> fuzz_seeds();
