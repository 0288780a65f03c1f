#!/usr/bin/env bash
# Writes the SHA-256 of every archive in a folder: checksums.sh FOLDER. Each archive gets a file, and all of them SHA256SUMS.
set -euo pipefail
cd "$1"
rm -f SHA256SUMS
for archive in forge-*.tar.gz forge-*.zip; do
    [ -e "$archive" ] || continue
    sha256sum "$archive" > "$archive.sha256"
    cat "$archive.sha256" >> SHA256SUMS
done
cat SHA256SUMS
