#!/usr/bin/env bash
# Packs the release binary of a target: archive.sh VERSION TARGET. Writes dist/forge-VERSION-TARGET.tar.gz (.zip for Windows).
set -euo pipefail
cd "$(dirname "$0")/.."
version="$1" target="$2"
name="forge-$version-$target"
built="target/$target/release"
[ -d "$built" ] || built="target/release"
rm -rf "dist/$name"
mkdir -p "dist/$name"
case "$target" in
    *windows*) cp "$built/forge.exe" "dist/$name/" ;;
    *)
        cp "$built/forge" "dist/$name/"
        "$built/forge" man --output "dist/$name/man"
        mkdir -p "dist/$name/completions"
        for shell in bash zsh fish; do "$built/forge" completions "$shell" > "dist/$name/completions/forge.$shell"; done
        ;;
esac
cp LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md "dist/$name/"
cd dist
case "$target" in
    *windows*) 7z a -bso0 "$name.zip" "$name" ;;
    *) tar --sort=name --owner=0 --group=0 --numeric-owner -czf "$name.tar.gz" "$name" 2>/dev/null || tar -czf "$name.tar.gz" "$name" ;;
esac
rm -rf "$name"
ls -l "$name".*
