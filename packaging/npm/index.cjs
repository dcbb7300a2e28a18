"use strict";

const LIBRARIES = { linux: "warplite.so", darwin: "warplite.dylib", win32: "warplite.dll" };

// The package of this platform, one of warplite's optional dependencies.
function platformPackage() {
  const system = process.platform === "win32" ? "windows" : process.platform;
  const name = `warplite-${system}-${process.arch}`;
  if (process.platform !== "linux") return name;
  return process.report.getReport().header.glibcVersionRuntime ? name : `${name}-musl`;
}

function loadablePath() {
  const name = platformPackage();
  try {
    return require.resolve(`${name}/${LIBRARIES[process.platform]}`);
  } catch (error) {
    throw new Error(
      `warplite: the package ${name} is not installed. It is an optional dependency of warplite: either there is ` +
        "none for this platform, or the installation left optional dependencies out.",
      { cause: error },
    );
  }
}

function load(db) {
  db.loadExtension(loadablePath());
}

module.exports = { loadablePath, load };
