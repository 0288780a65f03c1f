#!/usr/bin/env node
// Starts the binary for this machine. It gets the arguments, the streams and the signals, and its exit code is returned.
"use strict";
const { spawn, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");

function libc() {
  const report = process.report && process.report.getReport();
  const glibc = report && JSON.parse(typeof report === "string" ? report : JSON.stringify(report)).header.glibcVersionRuntime;
  const [major, minor] = (glibc || "0.0").split(".").map(Number);
  return major > 2 || (major === 2 && minor >= 35) ? "gnu" : "musl";
}

const machine = { x64: "x86_64", arm64: "aarch64" }[process.arch];
const systems = {
  linux: () => `unknown-linux-${libc()}`,
  darwin: () => "apple-darwin",
  win32: () => "pc-windows-msvc",
};
const target = machine && systems[process.platform] && `${machine}-${systems[process.platform]()}`;
const binary = path.join(__dirname, "..", "targets", String(target), process.platform === "win32" ? "forge.exe" : "forge");
if (!fs.existsSync(binary)) {
  console.error(`error: this package has no binary for ${process.platform} ${process.arch}: build from source with cargo`);
  process.exit(2);
}
try {
  fs.accessSync(binary, fs.constants.X_OK);
} catch {
  spawnSync("chmod", ["755", binary]);
}
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends Ctrl-C to both; this one waits for the other to end.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => signal === "SIGINT" || child.kill(signal));
child.on("error", (error) => {
  console.error(`error: cannot start ${binary}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code === null ? 128 + (require("node:os").constants.signals[signal] || 1) : code));
