// Writes uniform random vectors in [0, 1) of a fixed seed as .fvecs, the same on every machine:
//   bench_uniform FILE ROWS DIM SEED
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s FILE ROWS DIM SEED\n", argv[0]);
    return 2;
  }
  const std::size_t rows = std::stoull(argv[2]);
  const std::int32_t dim = std::stoi(argv[3]);
  std::uint64_t state = std::stoull(argv[4]);
  std::ofstream file(argv[1], std::ios::binary);
  std::vector<float> row(static_cast<std::size_t>(dim));
  for (std::size_t i = 0; i < rows; ++i) {
    for (float& value : row) {  // splitmix64; 24 bits make a float
      std::uint64_t z = state += 0x9e3779b97f4a7c15u;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      value = static_cast<float>((z ^ (z >> 31)) >> 40) * 0x1p-24f;
    }
    file.write(reinterpret_cast<const char*>(&dim), sizeof dim);
    file.write(reinterpret_cast<const char*>(row.data()),
               static_cast<std::streamsize>(row.size() * sizeof(float)));
  }
  file.close();
  return file ? 0 : 1;
}
