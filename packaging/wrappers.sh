#!/usr/bin/env bash
# Makes the npm package and the Python wheels of a release from its archives: wrappers.sh VERSION DIST BUILD.
# The npm package holds the binaries of all targets, and a wheel that of one. Neither fetches anything when it is installed.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
version="$1" dist="$(cd "$2" && pwd)"
mkdir -p "$3"
build="$(cd "$3" && pwd)"
rm -rf "$build/npm" "$build/pypi"
cp -r "$here/npm" "$build/npm"
cp "$here/../LICENSE-APACHE" "$here/../LICENSE-MIT" "$here/../README.md" "$build/npm/"
sed -i "s/\"0.0.0\"/\"$version\"/" "$build/npm/package.json"
mkdir -p "$build/pypi"
for archive in "$dist"/forge-"$version"-*.tar.gz "$dist"/forge-"$version"-*.zip; do
    [ -e "$archive" ] || continue
    name="$(basename "$archive")"
    target="${name#forge-"$version"-}"
    target="${target%.tar.gz}"
    target="${target%.zip}"
    mkdir -p "$build/npm/targets/$target"
    case "$archive" in
        *.zip) unzip -q -j "$archive" '*/forge.exe' -d "$build/npm/targets/$target" ;;
        *) tar -xzf "$archive" -C "$build/npm/targets/$target" --strip-components 1 "${name%.tar.gz}/forge" ;;
    esac
    python3 "$here/pypi/wheel.py" "$version" "$target" "$build/npm/targets/$target" "$build/pypi"
done
ls -l "$build/npm/targets" "$build/pypi"
