#!/bin/sh
# Installs forge on Linux and macOS: fetches the archive of a release, checks its SHA-256, and copies the binary.
#
#   FORGE_RELEASES  where the releases are (the address of the project's releases; a file:// address works)
#   FORGE_VERSION   the version, such as 0.1.0
#   FORGE_BIN       where the binary goes [default: ~/.local/bin]
set -eu

fail() { echo "error: $1" >&2; exit 1; }

releases="${FORGE_RELEASES:-}"
version="${FORGE_VERSION:-}"
bin="${FORGE_BIN:-$HOME/.local/bin}"
[ -n "$releases" ] || fail "set FORGE_RELEASES to the address of the releases"
[ -n "$version" ] || fail "set FORGE_VERSION to a version, such as 0.1.0"

case "$(uname -m)" in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no binary for $(uname -m): build from source with cargo" ;;
esac
case "$(uname -s)" in
    Darwin) target="$machine-apple-darwin" ;;
    Linux)
        # An old or another libc needs the binary that brings its own.
        glibc="$(ldd --version 2>/dev/null | sed -n '1s/.* \([0-9]*\)\.\([0-9]*\)$/\1 \2/p')"
        set -- ${glibc:-0 0}
        if [ "$1" -gt 2 ] || { [ "$1" -eq 2 ] && [ "$2" -ge 35 ]; }; then libc=gnu; else libc=musl; fi
        target="$machine-unknown-linux-$libc"
        ;;
    *) fail "there is no binary for $(uname -s): build from source with cargo" ;;
esac

name="forge-$version-$target"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT INT TERM
fetch() {
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --proto '=https,file' --output "$2" "$1"
    else
        wget --quiet --output-document "$2" "$1"
    fi || fail "cannot fetch $1"
}
fetch "$releases/v$version/$name.tar.gz" "$folder/$name.tar.gz"
fetch "$releases/v$version/$name.tar.gz.sha256" "$folder/$name.tar.gz.sha256"
(
    cd "$folder"
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum --check --status "$name.tar.gz.sha256"
    else
        shasum -a 256 --check --status "$name.tar.gz.sha256"
    fi
) || fail "the archive does not match its checksum: nothing was installed"
tar -xzf "$folder/$name.tar.gz" -C "$folder"
mkdir -p "$bin"
# A new file in place of the old one: a forge that runs keeps its own.
cp "$folder/$name/forge" "$bin/.forge.new"
chmod 755 "$bin/.forge.new"
mv "$bin/.forge.new" "$bin/forge"
echo "installed $("$bin/forge" --version) as $bin/forge"
case ":$PATH:" in
    *":$bin:"*) ;;
    *) echo "help: add it to your PATH: export PATH=\"$bin:\$PATH\"" ;;
esac
